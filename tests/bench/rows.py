"""What must be true of the rows of every measurement of the Kafka part."""

from __future__ import annotations

import json
from pathlib import Path

from bench.report import Measurement, write_json

__all__ = ["check_rows"]

PEERS = ("Kafka, no fsync: ", "the gateway, 1 partition: ")


def check_rows(rows: list[Measurement], path: Path) -> None:
    """What was measured beside Kafka, or beside another gateway, is what the table and the file need."""
    write_json(path, rows)
    for row in json.loads(path.read_text(encoding="utf-8")):
        assert row["value"] > 0
        assert row["ratio"] is None or row["against"].startswith(PEERS)
        assert (row["ok"] is None) == (row["target"] is None)
