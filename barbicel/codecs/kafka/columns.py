"""Record batches → columns, for those who read millions of rows at once.

Two decoders give the same columns: columns_compiled, which needs numba, and columns_plain, which goes through
records.py. The plain one is the judge: what the compiled one does not take is given to it, and it finds the
rows or raises what records.py raises. So there is one opinion on what a record is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from barbicel.codecs.kafka.columns_layout import (
    SMALL_RECORD_BYTES,
    BinaryColumn,
    Columns,
    HeaderColumn,
    OpenedBatch,
    Wanted,
    open_batch,
)
from barbicel.codecs.kafka.columns_plain import decode_plain
from barbicel.disk import Bytes

__all__ = [
    "SMALL_RECORD_BYTES",
    "BinaryColumn",
    "Columns",
    "DecodedRun",
    "HeaderColumn",
    "OpenedBatch",
    "Wanted",
    "decode_columns",
    "decode_run",
    "is_compiled",
    "open_batch",
]

_quick: Callable[[Sequence[OpenedBatch], Wanted], Columns | None] | None
try:
    from barbicel.codecs.kafka import columns_runs
    from barbicel.codecs.kafka.columns_compiled import decode_compiled as _quick
except ImportError:  # without numba everything works, only slower
    _quick = None


class DecodedRun(NamedTuple):
    """Small batches of a log's file that follow each other: their rows, their bytes, the offset behind."""

    columns: Columns
    size: int
    next_offset: int


def is_compiled() -> bool:
    """Whether rows are decoded by compiled code."""
    return _quick is not None


def decode_columns(batches: Sequence[OpenedBatch], wanted: Wanted) -> Columns:
    """The wanted rows of all the batches, in their order. Raises BadBatch at the first damaged record."""
    columns = None if _quick is None else _quick(batches, wanted)
    return decode_plain(batches, wanted) if columns is None else columns


def decode_run(
    data: Bytes, next_offset: int, end_offset: int, wanted: Wanted, min_batches: int
) -> DecodedRun | None:
    """The small batches that a stretch of a log's file begins with, which has to be at a record.

    None if there are fewer than min_batches, or anything that decode_columns has to judge.
    """
    if _quick is None:
        return None
    run = columns_runs.find_run(data, next_offset, end_offset)
    if len(run.table) < min_batches:
        return None
    columns = columns_runs.decode_run(data, run, wanted)
    return None if columns is None else DecodedRun(columns, run.size, run.next_offset)
