"""How much is measured; a test makes it small."""

from __future__ import annotations

__all__ = ["DECODED_ROWS", "IMPORTED_ITEMS", "QUEUES", "ROUNDS", "ROWS"]

ROWS = 2_000_000
ROUNDS = 3
DECODED_ROWS = 500_000
QUEUES = 8
IMPORTED_ITEMS = 50_000
