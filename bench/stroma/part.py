"""The measurements of the groups, in the order of the table."""

from __future__ import annotations

from bench.stroma.acks import measure_acks
from bench.stroma.available import measure_available
from bench.stroma.many_groups import measure_many_groups
from bench.stroma.pairs import measure_pairs
from bench.stroma.replay import measure_replay

__all__ = ["STROMA"]

STROMA = (measure_pairs, measure_replay, measure_available, measure_acks, measure_many_groups)
