"""The records of many batches as columns, laid out as Arrow has them, and the batches that they come from.

Nothing in a batch is believed: its CRC is checked, what it holds decompressed is bounded, and the number of
its records is held against its bytes before memory is taken for them.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.record_batch import (
    BATCH_HEADER_BYTES,
    CODEC_BITS,
    MAGIC,
    BadBatch,
    Batch,
    BatchHeader,
    check_crc,
)
from barbicel.codecs.kafka.records import decompressed_records
from barbicel.disk import Bytes

__all__ = [
    "I32",
    "I64",
    "MAX_BATCH_BYTES",
    "MIN_RECORD_BYTES",
    "SMALL_RECORD_BYTES",
    "U8",
    "BinaryColumn",
    "Columns",
    "HeaderColumn",
    "OpenedBatch",
    "Wanted",
    "open_batch",
]

I32: TypeAlias = npt.NDArray[np.int32]
I64: TypeAlias = npt.NDArray[np.int64]
U8: TypeAlias = npt.NDArray[np.uint8]

# A length, attributes, two deltas, a null key, a null value, no headers: a byte each.
MIN_RECORD_BYTES = 7
# The framing of a larger record of a log is not worth compiled code: the processor's own CRC, which is called
# from Python, is many times faster.
SMALL_RECORD_BYTES = 8 << 10
# Arrow counts the bytes of a column in 32 bits, and no column is larger than what it is taken from.
MAX_BATCH_BYTES = 2**31 - 1


class OpenedBatch(NamedTuple):
    """A batch whose CRC is right, with its records decompressed."""

    header: BatchHeader
    records: Bytes
    # All of it as it is stored.
    data: memoryview


class Wanted(NamedTuple):
    """Which rows, from the first offset up to and without the last, and which of the wide columns."""

    from_offset: int = 0
    end_offset: int = 2**63 - 1
    keys: bool = True
    values: bool = True
    headers: bool = False


class BinaryColumn(NamedTuple):
    """Row n is data[bounds[n]:bounds[n + 1]], or null if is_there[n] is 0."""

    bounds: I32
    data: U8
    is_there: U8


class HeaderColumn(NamedTuple):
    """Row n has the headers bounds[n] up to bounds[n + 1]. A key is never null."""

    bounds: I32
    keys: BinaryColumn
    values: BinaryColumn


class Columns(NamedTuple):
    """A row for each record. A column that was not wanted is None."""

    offsets: I64
    timestamps_ms: I64
    timestamp_types: I32
    keys: BinaryColumn | None
    values: BinaryColumn | None
    headers: HeaderColumn | None

    @property
    def rows(self) -> int:
        return len(self.offsets)


def open_batch(batch: Batch, *, max_bytes: int) -> OpenedBatch:
    """Check a batch whose header was decoded, and decompress it; what is not compressed is not copied.

    Raises BadBatch; MESSAGE_TOO_LARGE means that more than max_bytes are inside.
    """
    header, data = batch
    max_bytes = min(max_bytes, MAX_BATCH_BYTES)
    if header.magic != MAGIC or header.size != len(data):
        raise BadBatch(ErrorCode.CORRUPT_MESSAGE, f"{len(data)} bytes are not one record batch")
    if not header.attributes & CODEC_BITS:
        check_crc(batch)
        records: Bytes = data[BATCH_HEADER_BYTES:]
        if len(records) > max_bytes:
            problem = f"the batch holds {len(records)} bytes, more than the allowed {max_bytes}"
            raise BadBatch(ErrorCode.MESSAGE_TOO_LARGE, problem)
    else:
        records = decompressed_records(data, max_bytes=max_bytes)
    if header.records_count > len(records) // MIN_RECORD_BYTES:
        problem = f"{header.records_count} records cannot be in {len(records)} bytes"
        raise BadBatch(ErrorCode.INVALID_RECORD, problem)
    return OpenedBatch(header, records, data)
