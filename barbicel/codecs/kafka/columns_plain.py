"""Columns made of what records.py reads: slow, and always right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np

from barbicel.codecs.kafka.columns_layout import (
    I32,
    I64,
    BinaryColumn,
    Columns,
    HeaderColumn,
    OpenedBatch,
    Wanted,
)
from barbicel.codecs.kafka.records import KafkaRecord, decode_records

__all__ = ["decode_plain"]


def decode_plain(batches: Sequence[OpenedBatch], wanted: Wanted) -> Columns:
    """The wanted rows of all the batches. Raises BadBatch at the first damaged record of any."""
    rows: list[KafkaRecord] = []
    types: list[int] = []
    for batch in batches:
        found = list(_wanted_of(batch, wanted))
        rows += found
        types += [batch.header.timestamp_type] * len(found)
    return Columns(
        _i64([row.offset for row in rows]),
        _i64([row.timestamp_ms for row in rows]),
        np.array(types, np.int32),
        _binary([row.key for row in rows]) if wanted.keys else None,
        _binary([row.value for row in rows]) if wanted.values else None,
        _headers(rows) if wanted.headers else None,
    )


def _wanted_of(batch: OpenedBatch, wanted: Wanted) -> Iterator[KafkaRecord]:
    # All of them are looked at, wanted or not: damage is damage.
    for row in decode_records(batch.data, max_bytes=len(batch.records)):
        if wanted.from_offset <= row.offset < wanted.end_offset:
            yield row


def _i64(numbers: list[int]) -> I64:
    return np.array(numbers, np.int64)


def _binary(cells: Sequence[bytes | None]) -> BinaryColumn:
    data = b"".join(cell for cell in cells if cell)
    is_there = np.array([cell is not None for cell in cells], np.uint8)
    return BinaryColumn(
        _bounds([len(cell or b"") for cell in cells]), np.frombuffer(data, np.uint8), is_there
    )


def _headers(rows: Sequence[KafkaRecord]) -> HeaderColumn:
    flat = [header for row in rows for header in row.headers]
    return HeaderColumn(
        _bounds([len(row.headers) for row in rows]),
        _binary([key for key, _ in flat]),
        _binary([value for _, value in flat]),
    )


def _bounds(lengths: list[int]) -> I32:
    return np.array(list(accumulate(lengths, initial=0)), np.int32)
