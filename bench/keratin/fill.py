"""Logs to measure on."""

from __future__ import annotations

import os

from barbicel.codecs.keratin_format import LOG_HEADER_BYTES
from barbicel.keratin.log import Log
from barbicel.keratin.records import Ack, NewRecord
from barbicel.keratin.settings import LogSettings

__all__ = ["SMALL_SEGMENTS", "append_records", "append_segments"]

# A hundred of these are a hundred MB.
SMALL_SEGMENTS = LogSettings(segment_max_bytes=1 << 20)
BATCH_BYTES = 1 << 20


def append_segments(log: Log, payload_bytes: int, segments: float) -> None:
    """Append as many records as fill this number of segments; 2.5 leaves the third one half full."""
    record = NewRecord(bytes(payload_bytes))
    a_segment = (log.settings.segment_max_bytes - LOG_HEADER_BYTES) // record.size
    append_records(log, payload_bytes, round(segments * a_segment))


def append_records(log: Log, payload_bytes: int, count: int) -> int:
    """Append records, written and not yet synced; returns their bytes.

    Each is a millisecond later than the one before: a whole log of one timestamp would be a special case.
    """
    payload = os.urandom(payload_bytes)
    in_batch = max(1, BATCH_BYTES // payload_bytes)
    start = log.end_offset
    total_bytes = 0
    for first in range(start, start + count, in_batch):
        last = min(first + in_batch, start + count)
        batch = [NewRecord(payload, timestamp_ms=number) for number in range(first, last)]
        total_bytes += sum(record.size for record in batch)
        log.append(batch, Ack.AFTER_WRITE)
    return total_bytes
