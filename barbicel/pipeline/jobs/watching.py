"""Waiting for a stream: how much it has read when it ends, and its failure as one error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barbicel.errors import BarbicelError
from barbicel.pipeline.jobs.reasons import reason_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["await_end"]

# Spark remembers a hundred batches: often enough that none is forgotten before it is counted.
LOOK_EVERY_S = 1


def await_end(query: StreamingQuery) -> tuple[int, int]:
    """How many records it has read, in how many batches. Raises BarbicelError if it has failed.

    An interrupt from the keyboard ends it in order.
    """
    from pyspark.errors import StreamingQueryException

    counted = _Counted(query)
    try:
        while not query.awaitTermination(LOOK_EVERY_S):
            counted.look()
    except KeyboardInterrupt:
        query.stop()
    except StreamingQueryException as error:
        raise BarbicelError(f"the stream has failed: {reason_of(error)}") from error
    counted.look()
    return counted.records, counted.batches


class _Counted:
    """What a query has read since it was started, however long that is ago."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._last_batch = -1
        self.records = self.batches = 0

    def look(self) -> None:
        for progress in self._query.recentProgress:
            # One without rows only says that the query is there, and may have the number of the next batch.
            if progress.numInputRows and progress.batchId > self._last_batch:
                self._last_batch = progress.batchId
                self.records += progress.numInputRows
                self.batches += 1
