"""The measurements of the Kestrel front end, in the order of the table."""

from __future__ import annotations

from bench.kestrel.connections import measure_idle_connections, measure_many_connections
from bench.kestrel.scenarios import measure_scenarios
from bench.kestrel.speed import measure_speed

__all__ = ["KESTREL"]

KESTREL = (measure_speed, measure_many_connections, measure_idle_connections, measure_scenarios)
