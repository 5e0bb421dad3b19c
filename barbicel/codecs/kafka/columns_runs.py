"""Runs of small batches as they lie in a log's file: described for columns_compiled, without a step a batch.

A batch of one record costs as much in Python as hundreds of records do in compiled code. So compiled code
goes through the log's framing (docs/formats/keratin.md) and the batches' headers here. It takes what is usual
only: a sound record that holds a small batch which is neither compressed, nor a transaction's, nor a marker.
Both CRCs are checked. At anything else it stops, and whoever called it goes on in the way that judges it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from barbicel.codecs.kafka.columns_compiled import TABLE_COLUMNS, compiled, fill_columns
from barbicel.codecs.kafka.columns_layout import (
    I64,
    MIN_RECORD_BYTES,
    SMALL_RECORD_BYTES,
    U8,
    Columns,
    Wanted,
)
from barbicel.codecs.kafka.record_batch import (
    ATTRIBUTES_AT,
    BATCH_HEADER_BYTES,
    CODEC_BITS,
    CONTROL_BIT,
    CRC_AT,
    LENGTH_AT,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    TRANSACTIONAL_BIT,
    UNCOUNTED_BYTES,
)
from barbicel.codecs.keratin_record import (
    CRC_BYTES,
    FLAG_SPAN,
    RECORD_HEAD,
    RECORD_MAGIC,
    RECORD_OVERHEAD_BYTES,
    SPAN_BYTES,
    VERSION,
)
from barbicel.disk import Bytes

__all__ = ["Run", "decode_run", "find_run"]

FLAGS_AT, HEADER_LEN_AT, PAYLOAD_LEN_AT, OFFSET_AT = 4, 8, 12, 24
HEAD_BYTES = RECORD_HEAD.size
LAST_DELTA_AT, BASE_TIMESTAMP_AT, COUNT_AT = 23, 27, 57
UNUSUAL_BITS = CODEC_BITS | CONTROL_BIT | TRANSACTIONAL_BIT
HIGHEST_OFFSET = 2**62
HIGHEST_DELTA = 2**31 - 1  # it is signed: beyond that it is below 0

POLYNOMIAL = 0x82F63B78
LANES = 8


def _crc_tables() -> np.ndarray[tuple[int, int], np.dtype[np.uint32]]:
    """For eight bytes at a time: the CRC of each byte, with 0 to 7 zeros behind it."""
    tables = np.zeros((LANES, 256), np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (POLYNOMIAL if crc & 1 else 0)
        tables[0, byte] = crc
    for lane in range(1, LANES):
        before = tables[lane - 1]
        tables[lane] = before >> 8 ^ tables[0, before & 255]
    return tables


TABLES = _crc_tables()


class Run(NamedTuple):
    """Batches that follow each other: their table, the bytes that they take, and the offset behind them."""

    table: I64
    size: int
    next_offset: int
    records: int


@compiled
def _number(data: U8, position: int, size: int) -> int:
    """Big-endian and unsigned, of less than eight bytes; of eight it is signed."""
    number = np.int64(0)
    for index in range(size):
        number = (number << np.int64(8)) | np.int64(data[position + index])
    return number  # type: ignore[return-value]  # compiled, it is what an int is


@compiled
def _crc32c(data: U8, position: int, end: int) -> int:
    crc = np.uint32(0xFFFFFFFF)
    while end - position >= 8:
        low = crc ^ (
            np.uint32(data[position])
            | np.uint32(data[position + 1]) << np.uint32(8)
            | np.uint32(data[position + 2]) << np.uint32(16)
            | np.uint32(data[position + 3]) << np.uint32(24)
        )
        crc = (
            TABLES[7, low & np.uint32(255)]
            ^ TABLES[6, (low >> np.uint32(8)) & np.uint32(255)]
            ^ TABLES[5, (low >> np.uint32(16)) & np.uint32(255)]
            ^ TABLES[4, low >> np.uint32(24)]
            ^ TABLES[3, data[position + 4]]
            ^ TABLES[2, data[position + 5]]
            ^ TABLES[1, data[position + 6]]
            ^ TABLES[0, data[position + 7]]
        )
        position += 8
    while position < end:
        crc = (crc >> np.uint32(8)) ^ TABLES[0, (crc ^ np.uint32(data[position])) & np.uint32(255)]
        position += 1
    # For numba it is the integer that it is for Python.
    return np.int64(crc ^ np.uint32(0xFFFFFFFF))  # type: ignore[return-value]


@compiled
def _payload(data: U8, position: int, next_offset: int) -> tuple[int, int, int]:
    """(start, end, span) of the payload of a sound small record; a span of 0 is that there is none."""
    left = len(data) - position
    if left < RECORD_OVERHEAD_BYTES:
        return 0, 0, 0
    flags = _number(data, position + FLAGS_AT, 2)
    if _number(data, position, 2) != RECORD_MAGIC or _number(data, position + 2, 2) != VERSION:
        return 0, 0, 0
    if flags > FLAG_SPAN or _number(data, position + OFFSET_AT, 8) != next_offset:
        return 0, 0, 0
    header_len = _number(data, position + HEADER_LEN_AT, 4)
    size = RECORD_OVERHEAD_BYTES + header_len + _number(data, position + PAYLOAD_LEN_AT, 4)
    if size > left or size > SMALL_RECORD_BYTES or (flags == FLAG_SPAN and header_len < SPAN_BYTES):
        return 0, 0, 0
    end = position + size - CRC_BYTES
    if _crc32c(data, position + 2, end) != _number(data, end, CRC_BYTES):
        return 0, 0, 0
    span = _number(data, position + HEAD_BYTES, SPAN_BYTES) if flags == FLAG_SPAN else 1
    return position + HEAD_BYTES + header_len, end, span


@compiled
def _describe(data: U8, start: int, end: int, offset: int, span: int, row: I64) -> bool:
    """The row of the batch that is these bytes, if it is a usual one."""
    size = end - start
    if size < BATCH_HEADER_BYTES or data[start + MAGIC_AT] != MAGIC:
        return False
    if _number(data, start + LENGTH_AT, 4) + UNCOUNTED_BYTES != size or _number(data, start, 8) != offset:
        return False
    attributes = _number(data, start + ATTRIBUTES_AT, 2)
    last_delta = _number(data, start + LAST_DELTA_AT, 4)
    count = _number(data, start + COUNT_AT, 4)
    if attributes & UNUSUAL_BITS or last_delta + 1 != span or last_delta > HIGHEST_DELTA:
        return False
    if count > (size - BATCH_HEADER_BYTES) // MIN_RECORD_BYTES:
        return False
    if _crc32c(data, start + ATTRIBUTES_AT, end) != _number(data, start + CRC_AT, 4):
        return False
    row[0], row[1], row[2] = start + BATCH_HEADER_BYTES, end, offset
    row[3] = _number(data, start + BASE_TIMESTAMP_AT, 8)
    row[4] = _number(data, start + MAX_TIMESTAMP_AT, 8)
    row[5], row[6] = last_delta, count
    row[7] = 1 if attributes & LOG_APPEND_TIME_BIT else 0
    return True


@compiled
def _find(data: U8, next_offset: int, end_offset: int, table: I64) -> tuple[int, int, int, int]:
    """How many rows, up to which position, up to which offset, with how many records."""
    rows = position = records = 0
    while rows < len(table) and next_offset < end_offset and next_offset < HIGHEST_OFFSET:
        start, end, span = _payload(data, position, next_offset)
        if span < 1 or not _describe(data, start, end, next_offset, span, table[rows]):
            break
        records += table[rows, 6]
        rows += 1
        next_offset += span
        position = end + CRC_BYTES
    return rows, position, next_offset, records


def find_run(data: Bytes, next_offset: int, end_offset: int) -> Run:
    """The usual small batches that the bytes begin with, none that begins at end_offset or behind it."""
    most = len(data) // (RECORD_OVERHEAD_BYTES + BATCH_HEADER_BYTES)
    table = np.empty((most, TABLE_COLUMNS), np.int64)
    rows, size, reached, records = _find(np.frombuffer(data, np.uint8), next_offset, end_offset, table)
    return Run(table[:rows], size, reached, records)


def decode_run(data: Bytes, run: Run, wanted: Wanted) -> Columns | None:
    """The wanted rows of a run in the bytes that it was found in; None if there is anything to be judged."""
    return fill_columns(np.frombuffer(data, np.uint8)[: run.size], run.table, run.records, wanted)
