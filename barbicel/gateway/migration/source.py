"""A directory of Kestrel's journals: which queues it has, and which of them go into one log together.

A queue and its fanout children are a family. They become one topic, so they are imported together or not at
all: an import that knew only some of them could not say for whom an item is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from hashlib import sha256
from typing import NamedTuple, TypeAlias

from barbicel.disk import Disk, File
from barbicel.errors import BarbicelError, CorruptFile
from barbicel.gateway.migration.target import MAX_ITEM_BYTES
from barbicel.kestrel_compat.journals.files import FoundFile, import_id, select_files
from barbicel.kestrel_compat.journals.queue import Doubt, DoubtKind, JournalFile, ReplayedQueue
from barbicel.kestrel_compat.journals.replay import replay
from barbicel.kestrel_compat.names import QueueName, parse_queue_name, topic_of

__all__ = ["Family", "JournalLine", "JournalSource", "NoSuchQueue", "open_source"]

Progress: TypeAlias = Callable[[int], None]

ID_DIGITS = 16
# Of each file's end: journals grow, and one that was rewritten ends with other bytes.
TAIL_BYTES = 4096


class NoSuchQueue(BarbicelError):
    """A queue was asked for that has no journal."""


class JournalLine(NamedTuple):
    name: QueueName
    files: tuple[JournalFile, ...]

    @property
    def size_bytes(self) -> int:
        return sum(file.size for file in self.files)


class Family(NamedTuple):
    """A queue and its children, as far as they have journals; the queue itself comes first."""

    master: str
    lines: tuple[JournalLine, ...]
    # The same only for files of the same names, sizes, dates and ends.
    import_id: str

    @property
    def topic(self) -> str:
        return topic_of(self.master)

    @property
    def size_bytes(self) -> int:
        return sum(line.size_bytes for line in self.lines)


class JournalSource:
    def __init__(
        self, disk: Disk, directory: str, families: tuple[Family, ...], doubts: tuple[Doubt, ...]
    ) -> None:
        self.directory = directory
        self.families = families
        # Of files that belong to no queue; those of a queue's files are found in its replay. If queues were
        # chosen, only of files that have their names.
        self.doubts = doubts
        self._disk = disk

    @property
    def missing(self) -> list[Doubt]:
        """Journals whose items nobody can import."""
        return [doubt for doubt in self.doubts if doubt.is_missing]

    def replay(self, line: JournalLine, progress: Progress | None = None) -> ReplayedQueue:
        """Raises DiskError for a file that cannot be read."""
        return replay(line.files, self._open, progress, MAX_ITEM_BYTES)

    def changed(self, family: Family) -> list[Doubt]:
        """Of the files that have grown since they were listed. Raises CorruptFile if one is another file now:
        nobody knows which of the two an item was read from."""
        found = []
        for file in (file for line in family.lines for file in line.files):
            path = f"{self.directory}/{file.name}"
            if (self._disk.size(path), self._disk.modified_ms(path)) != (file.size, file.modified_ms):
                what = "it was changed while it was imported: what came later is not there"
                found.append(Doubt(file.name, file.size, DoubtKind.CHANGED, what))
        files = [file for line in family.lines for file in line.files]
        if found and _identity(self._disk, self.directory, files) != family.import_id:
            raise CorruptFile(
                "it was replaced or rewritten while it was imported, so what is stored may be neither",
                path=f"{self.directory}/{found[0].file}",
                hint="stop Kestrel, delete the queue and its children from the target, and begin again",
            )
        return found

    def _open(self, name: str) -> File:
        return self._disk.open(f"{self.directory}/{name}", "read")


def open_source(disk: Disk, directory: str, queues: Collection[str] = ()) -> JournalSource:
    """The families of these queues, or all. Raises DiskError, BadQueueName, NoSuchQueue."""
    wanted = {parse_queue_name(name).master for name in queues}
    found = [
        FoundFile(entry.name, entry.size, disk.modified_ms(f"{directory}/{entry.name}"), entry.is_directory)
        for entry in disk.list(directory)
    ]
    selection = select_files(found)
    by_master: dict[str, list[JournalLine]] = {}
    for queue in selection.queues.values():
        line = JournalLine(parse_queue_name(queue.queue), queue.files)
        by_master.setdefault(line.name.master, []).append(line)
    if missing := sorted(wanted - by_master.keys()):
        raise NoSuchQueue(f"there is no journal of the queue {missing[0]!r}", path=directory)
    families = [
        _family(disk, directory, master, lines)
        for master, lines in sorted(by_master.items())
        if not wanted or master in wanted
    ]
    doubts = [one for one in selection.doubts if not wanted or _master_of(one.file) in wanted]
    return JournalSource(disk, directory, tuple(families), tuple(doubts))


def _master_of(file: str) -> str:
    """The queue that a file is about, going by the beginning of its name, whatever follows."""
    queue = file.partition(".")[0].partition("~~")[0]
    return queue.partition("+")[0] or queue


def _family(disk: Disk, directory: str, master: str, lines: list[JournalLine]) -> Family:
    lines.sort(key=lambda line: (line.name.child is not None, line.name.text))
    return Family(
        master, tuple(lines), _identity(disk, directory, [file for one in lines for file in one.files])
    )


def _identity(disk: Disk, directory: str, files: Sequence[JournalFile]) -> str:
    """A file that cannot be read has no end here, and fails in its replay, where it can be told of."""
    identity = sha256(import_id(files).encode())
    for file in files:
        try:
            journal = disk.open(f"{directory}/{file.name}", "read")
        except BarbicelError:
            continue
        try:
            size = min(file.size, TAIL_BYTES)
            identity.update(sha256(journal.pread(size, file.size - size)).digest())
        finally:
            journal.close()
    return identity.hexdigest()[:ID_DIGITS]
