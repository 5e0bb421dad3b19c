"""The measurements of the log, in the order of the table."""

from __future__ import annotations

from bench.keratin.append import measure_append
from bench.keratin.fetch import measure_fetch
from bench.keratin.memory import measure_memory
from bench.keratin.reopen import measure_reopen
from bench.keratin.scan import measure_scan
from bench.keratin.upkeep import measure_upkeep

__all__ = ["KERATIN"]

KERATIN = (measure_append, measure_scan, measure_fetch, measure_reopen, measure_memory, measure_upkeep)
