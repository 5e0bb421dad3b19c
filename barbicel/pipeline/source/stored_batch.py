"""A batch as it is stored, and the error for offsets that are not."""

from __future__ import annotations

from typing import NamedTuple

from barbicel.codecs.kafka.record_batch import BatchHeader
from barbicel.errors import OffsetsLost

__all__ = ["GO_ON_HINT", "StoredBatch", "lost"]

GO_ON_HINT = "failOnDataLoss=false reads on without them"


class StoredBatch(NamedTuple):
    """A whole batch, and where it lies: the position is that of its record, None in an object."""

    header: BatchHeader
    data: memoryview
    position: int | None


def lost(first_offset: int, end_offset: int, path: str) -> OffsetsLost:
    error = OffsetsLost(first_offset, end_offset, path)
    error.hint = GO_ON_HINT
    return error
