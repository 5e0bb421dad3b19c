"""Every error that Barbicel raises on purpose.

An error says what is wrong, in which file, at which byte position, and what to do about it. The fields
are kept apart so that the edges (the command line, the wire protocols) can translate them in one place.
"""

from __future__ import annotations

import errno

__all__ = [
    "BarbicelError",
    "CorruptFile",
    "CorruptGroup",
    "CorruptLog",
    "CorruptManifest",
    "CorruptObject",
    "DiskError",
    "EarlierAppendFailed",
    "LogBehindStore",
    "LogClosed",
    "LogLocked",
    "LogStopped",
    "NotAGroupDirectory",
    "NotALog",
    "NotVerified",
    "ObjectChanged",
    "ObjectExists",
    "ObjectMissing",
    "OffsetOutOfRange",
    "OffsetsLost",
    "QueueFull",
    "RecordTooLarge",
    "SegmentTooLarge",
    "StoreError",
    "StoreRefused",
    "UnknownVersion",
    "offsets_text",
]


def offsets_text(first_offset: int, end_offset: int) -> str:
    """The offsets of a range that is not empty: "offset 3", "offsets 3 to 5"."""
    if end_offset - first_offset == 1:
        return f"offset {first_offset}"
    return f"offsets {first_offset} to {end_offset - 1}"


class BarbicelError(Exception):
    """The root of all errors that are Barbicel's own."""

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        position: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.position = position
        self.hint = hint

    def __str__(self) -> str:
        where = "" if self.path is None else f"{self.path}: "
        if self.position is not None:
            where = f"{where}at byte {self.position}: "
        hint = "" if self.hint is None else f" ({self.hint})"
        return f"{where}{self.message}{hint}"


_DISK_HINTS = {
    errno.ENOSPC: "the disk is full: free some space",
    errno.EDQUOT: "the quota is used up: free some space",
    errno.EROFS: "the file system is mounted read-only",
    errno.EACCES: "the user who runs this may not do that here",
    errno.EMFILE: "too many open files: raise the limit (ulimit -n)",
}


class DiskError(BarbicelError):
    """The operating system refused a file operation; `errno` says why."""

    def __init__(self, operation: str, path: str, cause: OSError) -> None:
        super().__init__(
            f"{operation} failed: {cause.strerror or cause}",
            path=path,
            hint=_DISK_HINTS.get(cause.errno or 0),
        )
        self.operation = operation
        self.errno = cause.errno


class CorruptFile(BarbicelError):
    """Bytes that a file's format does not allow."""


class UnknownVersion(CorruptFile):
    """A sound file of a version that this program does not know. Nothing may be repaired in it."""


class NotALog(BarbicelError):
    """The directory does not hold a Keratin log."""


class NotAGroupDirectory(BarbicelError):
    """The directory does not hold the groups of a store."""


class LogLocked(BarbicelError):
    """Another process, or another object in this one, has the log open."""


class LogClosed(BarbicelError):
    """The log was closed."""


class LogStopped(BarbicelError):
    """The log takes no writes: a write or a sync failed, or it is open for reading only."""


class EarlierAppendFailed(LogStopped):
    """The append was not tried: one that it must follow has failed."""


class QueueFull(BarbicelError):
    """The writer's queue has no room and the caller did not want to wait."""


class RecordTooLarge(BarbicelError):
    """A record exceeds what the log accepts."""


class OffsetOutOfRange(BarbicelError):
    """The offset is below the log's start or not written yet."""

    def __init__(self, offset: int, start_offset: int, end_offset: int, path: str) -> None:
        super().__init__(
            f"offset {offset} is outside of the log's range {start_offset}..{end_offset}", path=path
        )
        self.offset = offset
        self.start_offset = start_offset
        self.end_offset = end_offset


class CorruptLog(BarbicelError):
    """Damage where a torn tail is impossible. Offsets first_offset up to end_offset cannot be read."""

    def __init__(
        self,
        reason: str,
        *,
        first_offset: int,
        end_offset: int,
        path: str,
        position: int | None = None,
    ) -> None:
        super().__init__(
            f"{reason}; {offsets_text(first_offset, end_offset)} cannot be read",
            path=path,
            position=position,
            hint="see 'barbicel log verify --deep'",
        )
        self.first_offset = first_offset
        self.end_offset = end_offset


class OffsetsLost(BarbicelError):
    """The offsets were lost to damage, and a repair has written that down in the log."""

    def __init__(self, first_offset: int, end_offset: int, path: str) -> None:
        super().__init__(
            f"given up by a repair, lost to damage: {offsets_text(first_offset, end_offset)}",
            path=path,
        )
        self.first_offset = first_offset
        self.end_offset = end_offset


class CorruptGroup(BarbicelError):
    """The files of a group are damaged: what it consumed is not known, which is not the same as nothing."""

    def __init__(self, key: tuple[str, int, str], reason: str, *, path: str) -> None:
        topic, partition, group = key
        super().__init__(
            f"group {group!r} of {topic}-{partition}: {reason}",
            path=path,
            hint="see 'barbicel group repair'",
        )
        self.key = key


class CorruptManifest(CorruptFile):
    """A stream's manifest log is damaged where a torn tail is impossible, or a part of it is not there.

    What is known of the place is named; None stands for what is not. Nothing was changed.
    """

    def __init__(
        self,
        reason: str,
        *,
        chunk_index: int | None = None,
        segment_id: int | None = None,
        logical_offset: int | None = None,
        path: str | None = None,
        position: int | None = None,
    ) -> None:
        places = {"chunk": chunk_index, "segment": segment_id, "logical offset": logical_offset}
        known = ", ".join(f"{name} {number}" for name, number in places.items() if number is not None)
        super().__init__(
            f"{known}: {reason}" if known else reason,
            path=path,
            position=position,
            hint="see 'barbicel manifest verify'",
        )
        self.reason = reason
        self.chunk_index = chunk_index
        self.segment_id = segment_id
        self.logical_offset = logical_offset


class StoreError(BarbicelError):
    """An object store did not do what it was asked. `path` is the object's key or URL.

    `is_passing` says that trying again later is worth it: the store was away, slow or overloaded. What it
    was asked to write may have been written all the same.
    """

    def __init__(
        self, message: str, *, path: str | None = None, hint: str | None = None, is_passing: bool = False
    ) -> None:
        super().__init__(message, path=path, hint=hint)
        self.is_passing = is_passing


class ObjectMissing(StoreError):
    """There is no object of that key."""


class ObjectExists(StoreError):
    """There is an object of that key already, and it is not this writer's."""


class ObjectChanged(StoreError):
    """The object is not the one that was to be replaced: another writer was there."""


class StoreRefused(StoreError):
    """The store refuses this until somebody mends the cause: credentials, permission, bucket, key."""


class LogBehindStore(BarbicelError):
    """A log ends before what the object store has of it: it would give out offsets a second time."""


class ForeignManifest(ObjectExists):
    """The object store has something of a partition that is not from this disk: two have written it."""


class NotVerified(StoreError):
    """What an object store has is not what it was sent."""


class CorruptObject(BarbicelError):
    """A segment in an object store is damaged. Offsets first_offset up to end_offset cannot be read."""

    def __init__(
        self,
        reason: str,
        *,
        first_offset: int,
        end_offset: int,
        key: str,
        position: int | None = None,
    ) -> None:
        super().__init__(
            f"{reason}; {offsets_text(first_offset, end_offset)} cannot be read", path=key, position=position
        )
        self.first_offset = first_offset
        self.end_offset = end_offset
        self.key = key


class SegmentTooLarge(BarbicelError):
    """A segment has more bytes or messages than a `.kfs` can hold."""
