"""The way back: a queue's lines as journals that Kestrel 2.4 replays to the same queue.

A line is one file: first what is open, as an ADDX and the reservation of it, then all else in order. Nothing
is taken from the lines. A file appears under its name when all of it is durable, and none is ever replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from barbicel.codecs.kestrel_journal import encode_addx, encode_remove_tentative
from barbicel.disk import Disk, File
from barbicel.errors import BarbicelError, LogLocked
from barbicel.gateway.migration.directory_queue import DirectoryQueue
from barbicel.gateway.migration.directory_target import DirectoryTarget
from barbicel.gateway.migration.marks import StoredItem
from barbicel.gateway.migration.records import storable_expiry
from barbicel.gateway.migration.source import NoSuchQueue
from barbicel.gateway.migration.stored_elsewhere import check_local
from barbicel.kestrel_compat.items import Unreadable
from barbicel.kestrel_compat.names import QueueName, child_of, parse_queue_name, queue_of, topic_of
from barbicel.stroma import GroupState

__all__ = ["Exported", "ExportedLine", "JournalExists", "UnreadableItems", "export_queue", "export_queues"]

# Kestrel ignores what has "~~" in its name. Not made of the line's: with more in it that could be too long.
TEMPORARY = "~~export"
MAX_FILE_NAME_BYTES = 255
PIECE_BYTES = 1 << 20
MAX_EXPIRY_MS = (1 << 63) - 1


class JournalExists(BarbicelError):
    """A journal is there already."""


class ExportedLine(NamedTuple):
    queue: str
    items: int
    open_reads: int
    bytes: int


class UnreadableItems(NamedTuple):
    """A batch of a line that no items can be had of, or not all."""

    queue: str
    first_offset: int
    last_offset: int
    reason: str


class Exported(NamedTuple):
    lines: list[ExportedLine]
    # Lines whose names are too long for a file, which Kestrel could not have had either.
    left_out: list[str]
    # What a gateway would have passed over, too.
    unreadable: list[UnreadableItems]


def export_queues(
    disk: Disk, target: DirectoryTarget, directory: str, queues: Collection[str] = ()
) -> Exported:
    """The lines of these queues and of their children, or of all. Nothing is written if a journal of any is
    there, or items of any are in an object store only. Raises NoSuchQueue, JournalExists, TargetRefused."""
    topics = [topic_of(parse_queue_name(name).master) for name in queues]
    for name, topic in zip(queues, topics, strict=True):
        if target.catalogue.by_name(topic) is None:
            raise NoSuchQueue(f"there is no queue {name!r}")
    chosen = topics or [topic.name for topic in target.catalogue if topic.partitions == 1]
    for topic in chosen:
        with _found(target, topic) as queue:
            check_absent(disk, directory, queue)
            check_local(disk, target.catalogue.layout, queue)
    exported = Exported([], [], [])
    with _alone_in(disk, directory):
        for topic in dict.fromkeys(chosen):
            with _found(target, topic) as queue:
                lines, left_out, unreadable = export_queue(disk, queue, directory)
            exported.lines.extend(lines)
            exported.left_out.extend(left_out)
            exported.unreadable.extend(unreadable)
    return exported


@contextmanager
def _alone_in(disk: Disk, directory: str) -> Iterator[None]:
    """Raises JournalExists if another export writes there: both would use one temporary file."""
    disk.make_directory(directory)
    path = f"{directory}/{TEMPORARY}.lock"
    try:
        lock = disk.lock(path)
    except LogLocked as error:
        raise JournalExists(
            "another export writes into this directory", path=directory, hint="choose an empty directory"
        ) from error
    try:
        yield
    finally:
        with suppress(BarbicelError):
            disk.unlink(path)
        lock.release()


def _found(target: DirectoryTarget, topic: str) -> DirectoryQueue:
    queue = target.find(topic)
    assert queue is not None
    return queue


def check_absent(disk: Disk, directory: str, queue: DirectoryQueue) -> None:
    """Raises JournalExists if one of its lines has any file there."""
    names = {_name(queue, group) for group in queue.groups}
    for found in disk.names(directory) if disk.exists(directory) else ():
        if found.partition(".")[0] in names:
            raise JournalExists(
                "there is a journal already",
                path=f"{directory}/{found}",
                hint="it is not overwritten: choose an empty directory",
            )


def export_queue(disk: Disk, queue: DirectoryQueue, directory: str) -> Exported:
    """Write a journal for each line; durable on return. Raises JournalExists before anything is written."""
    disk.make_directory(directory)
    check_absent(disk, directory, queue)
    exported = Exported([], [], [])
    for group in sorted(queue.groups):
        name = _name(queue, group)
        if _is_file_name(name):
            exported.lines.append(_export_line(disk, queue, group, directory, exported.unreadable))
        else:
            exported.left_out.append(name)
    return exported


def _is_file_name(name: str) -> bool:
    return len(name.encode()) <= MAX_FILE_NAME_BYTES


def _name(queue: DirectoryQueue, group: str) -> str:
    return QueueName(queue_of(queue.topic.name), child_of(group)).text


def _export_line(
    disk: Disk, queue: DirectoryQueue, group: str, directory: str, unreadable: list[UnreadableItems]
) -> ExportedLine:
    """Temporary → write → fsync → rename → fsync of the directory."""
    name = _name(queue, group)
    temporary = f"{directory}/{TEMPORARY}"
    if disk.exists(temporary):
        disk.unlink(temporary)  # of an export that was killed
    file = disk.open(temporary, "create")
    try:
        exported = _write_line(file, queue, group, name, unreadable)
        file.fdatasync()
    except BarbicelError:
        # The disk may be full of it.
        with suppress(BarbicelError):
            disk.unlink(temporary)
        raise
    finally:
        file.close()
    disk.rename(temporary, f"{directory}/{name}")
    disk.sync_directory(directory)
    return exported


def _write_line(
    file: File, queue: DirectoryQueue, group: str, name: str, unreadable: list[UnreadableItems]
) -> ExportedLine:
    def passed_over(batch: Unreadable) -> None:
        unreadable.append(UnreadableItems(name, batch.base_offset, batch.end_offset - 1, batch.reason))

    state = queue.state(group)
    assert state is not None
    journal = _JournalFile(file)
    open_reads = items = 0
    if state.inflight:
        for item in unread_items(queue, state, group):
            if item.offset in state.inflight:
                open_reads += 1
                journal.write(_entry(item), encode_remove_tentative(open_reads))
    for item in unread_items(queue, state, group, passed_over):
        if item.offset not in state.inflight:
            items += 1
            journal.write(_entry(item))
    journal.flush()
    return ExportedLine(name, items + open_reads, open_reads, file.size())


def _entry(item: StoredItem) -> bytes:
    """Anybody can write a header: what does not fit an entry is as far away as one can say."""
    expiry_ms = storable_expiry(item.expiry_ms)
    return encode_addx(item.data, item.added_ms, None if expiry_ms is None else min(expiry_ms, MAX_EXPIRY_MS))


def unread_items(
    queue: DirectoryQueue,
    state: GroupState,
    group: str,
    passed_over: Callable[[Unreadable], None] = lambda unreadable: None,
) -> Iterator[StoredItem]:
    """What a group has still to read, what it has in hand included."""
    for item in queue.scan(state.acked_until, passed_over):
        if item.is_for(group) and not state.is_acked(item.offset):
            yield item


class _JournalFile:
    """Gathers entries, for a write costs more than most of them."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._pieces: list[bytes] = []
        self._bytes = 0

    def write(self, *entries: bytes) -> None:
        self._pieces += entries
        self._bytes += sum(map(len, entries))
        if self._bytes >= PIECE_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._pieces:
            self._file.append(self._pieces)
        self._pieces, self._bytes = [], 0
