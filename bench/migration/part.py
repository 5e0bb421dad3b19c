"""The measurements of the migration, in the order of the table."""

from __future__ import annotations

from bench.migration.importing import measure_import
from bench.migration.scan import measure_scan

__all__ = ["MIGRATION"]

MIGRATION = (measure_scan, measure_import)
