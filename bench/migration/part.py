"""The measurements of the migration, in the order of the table."""

from __future__ import annotations

from bench.migration.scan import measure_scan

__all__ = ["MIGRATION"]

MIGRATION = (measure_scan,)
