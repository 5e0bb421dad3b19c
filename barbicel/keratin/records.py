"""What goes into a log and what comes back: the vocabulary that log, writer and their callers share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from barbicel.codecs.keratin_record import MAX_SPAN, RECORD_OVERHEAD_BYTES, SPAN_BYTES
from barbicel.disk import Bytes
from barbicel.errors import RecordTooLarge

__all__ = ["Ack", "Appended", "NewRecord", "check_records"]

MAX_TIMESTAMP_MS = (1 << 64) - 1
NO_HEADERS = b""
WHOLE_OR_NONE = (int, type(None))


class Ack(Enum):
    """When an append is answered: what the answer promises to survive."""

    AFTER_WRITE = "write"  # a kill -9, not a power cut
    AFTER_FSYNC = "fsync"  # a power cut


class Appended(NamedTuple):
    """The offsets base_offset up to base_offset + count belong to the append."""

    base_offset: int
    count: int  # type: ignore[assignment]  # the specification's name, it may hide tuple.count


@dataclass(slots=True)
class NewRecord:
    """A record to append. It covers `span` offsets.

    `stamp`, if given, is called once with the record's offset as soon as that is known and before the
    payload is read: whoever must put the offset into the payload (a mutable one) does so there. It must
    neither block nor raise, and must not change the payload's length.

    `after_failures`, if given, is the log's number of `failures` when the record was handed to a writer, or
    when the one was that it must follow: if there were more since, it is refused, as that one may be missing.
    """

    payload: Bytes
    headers: Bytes = NO_HEADERS
    timestamp_ms: int | None = None  # None: the time of the append
    span: int = 1
    stamp: Callable[[int], None] | None = None
    after_failures: int | None = None

    @property
    def size(self) -> int:
        """Its bytes in the log."""
        span_bytes = SPAN_BYTES if self.span > 1 else 0
        return RECORD_OVERHEAD_BYTES + span_bytes + len(self.headers) + len(self.payload)


def check_records(records: Sequence[NewRecord], max_record_bytes: int, path: str) -> int:
    """Their bytes in the log; raises before anything is written if one of them cannot be stored."""
    total = 0
    for record in records:
        _check_bytes("payload", record.payload)
        if record.headers is not NO_HEADERS:
            _check_bytes("headers", record.headers)
        _check_whole_numbers(record)
        size = record.size
        if size > max_record_bytes:
            raise RecordTooLarge(f"a record of {size} bytes, the log accepts {max_record_bytes}", path=path)
        if not 1 <= record.span <= MAX_SPAN:
            raise ValueError(f"a record's span is 1 to {MAX_SPAN}, not {record.span}")
        if record.timestamp_ms is not None and not 0 <= record.timestamp_ms <= MAX_TIMESTAMP_MS:
            raise ValueError(f"a timestamp is 0 to {MAX_TIMESTAMP_MS} ms, not {record.timestamp_ms}")
        total += size
    return total


# What is not plain bytes, or not a whole number, would be noticed only halfway through a group. The usual
# answer is the first that is looked for: every record passes here.


def _check_bytes(name: str, value: object) -> None:
    if isinstance(value, memoryview):
        if not (value.contiguous and value.ndim == 1 and value.itemsize == 1):
            raise TypeError(f"{name} is a view of single bytes without gaps, not of {value.format!r}")
    elif not isinstance(value, bytes | bytearray):
        raise TypeError(f"{name} is bytes, a bytearray or a memoryview, not {type(value).__name__}")


def _check_whole_numbers(record: NewRecord) -> None:
    if type(record.span) is type(record.timestamp_ms) is int and type(record.after_failures) in WHOLE_OR_NONE:
        return
    for name in ("span", "timestamp_ms", "after_failures"):
        value = getattr(record, name)
        if value is not None and not isinstance(value, int):
            raise TypeError(f"{name} is a whole number, not {value!r}")
