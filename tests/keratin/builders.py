"""What the tests of Keratin share: logs with small numbers in them, a clock to turn, eyes on the disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypedDict, Unpack

from barbicel.codecs.keratin_format import Manifest
from barbicel.disk import Disk, OpenMode
from barbicel.keratin import Ack, Appended, Log, LogSettings, NewRecord, Writer, WriterSettings
from barbicel.keratin.layout import Layout
from barbicel.keratin.manifest import read_manifest
from barbicel.keratin.writer import Answer, answer_here
from tests.support.fault_disk import Call, FaultDisk, FaultFile, Operation
from tests.support.faults import READS

__all__ = [
    "DEADLINE_S",
    "ROOT",
    "SMALL",
    "Answers",
    "Changes",
    "Crew",
    "Desk",
    "ManualClock",
    "MeteredDisk",
    "SettingsChanges",
    "SteppedTime",
    "SyncGate",
    "expected_payload",
    "log_files",
    "manifest_on",
    "new_record",
    "new_records",
    "open_log",
    "payloads",
    "segment_paths",
    "wait_until",
]

ROOT = "/log"
# No test waits longer for what must happen.
DEADLINE_S = 20.0
POLL_S = 0.001

# Rolls and index entries come soon; checkpoints only where a test asks for them.
SMALL = LogSettings(
    segment_max_bytes=2000,
    index_stride_bytes=200,
    max_open_segments=4,
    preallocate_min_bytes=1024,
    preallocate_max_bytes=4096,
)


class SettingsChanges(TypedDict, total=False):
    """The fields of LogSettings."""

    segment_max_bytes: int
    segment_max_age_ms: int | None
    index_stride_bytes: int
    max_open_segments: int
    max_record_bytes: int
    checkpoint_bytes: int
    preallocate_min_bytes: int
    preallocate_max_bytes: int


class ManualClock:
    """Milliseconds that pass only when a test says so."""

    def __init__(self, now_ms: int = 1_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def open_log(
    disk: Disk,
    path: str = ROOT,
    *,
    clock: Callable[[], int] | None = None,
    **changes: Unpack[SettingsChanges],
) -> Log:
    """A log with SMALL's settings but for these."""
    return Log.open(path, disk=disk, settings=replace(SMALL, **changes), clock=clock or ManualClock())


def expected_payload(number: int, size: int = 40) -> bytes:
    """Bytes that tell where they come from, all along."""
    unit = b"%d." % number
    return (unit * (size // len(unit) + 1))[:size]


def new_record(number: int, size: int = 40, *, timestamp_ms: int | None = None, span: int = 1) -> NewRecord:
    return NewRecord(expected_payload(number, size), timestamp_ms=timestamp_ms, span=span)


def new_records(numbers: Iterable[int], size: int = 40) -> list[NewRecord]:
    return [new_record(number, size) for number in numbers]


def payloads(log: Log, from_offset: int | None = None) -> list[bytes]:
    start = log.start_offset if from_offset is None else from_offset
    return [bytes(record.payload) for record in log.scan(start)]


def manifest_on(disk: Disk, path: str = ROOT) -> Manifest:
    return read_manifest(disk, Layout(path))


def segment_paths(log: Log) -> list[str]:
    """The files of every sealed segment, oldest first."""
    layout = Layout(log.path)
    return [path for segment in log.segments for path in layout.all_of(segment.base_offset)]


def log_files(disk: FaultDisk, path: str = ROOT) -> dict[str, int]:
    """The sizes of the segment files, by name."""
    folder = f"{path}/segments/"
    return {name.removeprefix(folder): len(data) for name, data in disk.files().items() if folder in name}


class Changes:
    """An observer that keeps the calls that change the disk, those that change nothing left out."""

    def __init__(self, disk: FaultDisk) -> None:
        self.calls: list[Call] = []
        disk.observer = self

    def __call__(self, call: Call) -> None:
        # A log that is opened takes its lock and asks for its directories; both leave no trace.
        if call.operation not in READS and call.operation not in ("lock", "mkdir"):
            self.calls.append(call)

    def operations(self, path_contains: str = "") -> list[Operation]:
        return [call.operation for call in self.calls if path_contains in call.path]

    def first(self, operation: Operation, path_contains: str) -> int:
        """Where in `calls` the first such call is; a rename also counts by its target."""
        return next(
            number
            for number, call in enumerate(self.calls)
            if call.operation == operation and (path_contains in call.path or path_contains in call.target)
        )


class MeteredFile(FaultFile):
    """Counts what is read through it."""

    __slots__ = ("_meter",)
    _meter: dict[str, int]

    def pread(self, size: int, position: int) -> bytes:
        data = super().pread(size, position)
        self._meter[self.path] = self._meter.get(self.path, 0) + len(data)
        return data


class MeteredDisk(FaultDisk):
    """Knows how many bytes were read of each path."""

    def __init__(self) -> None:
        super().__init__()
        self.read_bytes: dict[str, int] = {}

    def open(self, path: str, mode: OpenMode) -> FaultFile:
        plain = super().open(path, mode)
        file = MeteredFile(self, plain._inode, path, mode)
        file._meter = self.read_bytes
        return file

    @classmethod
    def holding(cls, disk: FaultDisk) -> MeteredDisk:
        """A copy of another disk's files."""
        metered = cls()
        for path, data in disk.files().items():
            metered.put(path, data)
        return metered


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Poll until the condition holds, or fail at the deadline."""
    pause = threading.Event()
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"in vain: {what}")
        pause.wait(POLL_S)


class Crew:
    """Threads that are joined with a deadline, and whose failures are the test's."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self._errors: list[BaseException] = []

    def start(self, work: Callable[[], object]) -> None:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                self._errors.append(error)

        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()

    def start_all(self, works: Sequence[Callable[[], object]]) -> None:
        for work in works:
            self.start(work)

    def join(self) -> None:
        deadline = time.monotonic() + DEADLINE_S
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if self._errors:
            raise self._errors[0]
        assert not any(thread.is_alive() for thread in self._threads), "a thread hangs"


class SyncGate:
    """An observer that stops every sync of ROOT's segments until it may pass, and notes their calls."""

    def __init__(self, disk: FaultDisk) -> None:
        self.calls: list[Call] = []
        self._arrived = threading.Semaphore(0)
        self._allowed = threading.Semaphore(0)
        self._is_open = False
        disk.observer = self

    def __call__(self, call: Call) -> None:
        if not (call.path.startswith(f"{ROOT}/segments/") and call.path.endswith(".log")):
            return
        self.calls.append(call)
        if call.operation == "fdatasync" and not self._is_open:
            self._arrived.release()
            assert self._allowed.acquire(timeout=DEADLINE_S)

    def wait_for_sync(self) -> None:
        assert self._arrived.acquire(timeout=DEADLINE_S), "no sync came"

    def let_pass(self) -> None:
        self._allowed.release()

    def open(self) -> None:
        self._is_open = True
        self._allowed.release()

    def operations(self) -> list[Operation]:
        return [call.operation for call in self.calls]


class Answers:
    """Collects what a writer delivers: every call, and every outcome by the number of its request."""

    def __init__(self) -> None:
        self.deliveries: list[int] = []
        self.outcomes: dict[int, Appended | Exception] = {}

    def deliver(self, answers: Sequence[Answer]) -> None:
        self.deliveries.append(len(answers))
        answer_here(answers)

    def done(self, number: int) -> Callable[[Appended | Exception], None]:
        def note(outcome: Appended | Exception) -> None:
            assert number not in self.outcomes, "answered twice"
            self.outcomes[number] = outcome

        return note

    def wait_for(self, count: int) -> None:
        wait_until(lambda: len(self.outcomes) >= count, f"{count} answers")
        assert len(self.outcomes) == count


class Desk:
    """A log, a gate before its syncs and the answers of its writer. The first request is at the gate."""

    def __init__(self, disk: FaultDisk, settings: WriterSettings | None = None) -> None:
        self.disk = disk
        self.log = open_log(disk, segment_max_bytes=1 << 20, preallocate_max_bytes=0)
        self.gate = SyncGate(disk)
        self.answers = Answers()
        self.writer = Writer(settings, deliver=self.answers.deliver)
        self.submit(0)
        self.gate.wait_for_sync()

    def submit(self, number: int, ack: Ack = Ack.AFTER_FSYNC, *, log: Log | None = None) -> None:
        done = self.answers.done(number)
        self.writer.submit(log or self.log, new_records([number]), done, ack, wait=False)

    def close(self) -> None:
        self.gate.open()
        self.writer.close()


class SteppedTime:
    """A monotonic clock that a test turns; it counts how often it was asked."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.asked = 0

    def __call__(self) -> float:
        self.asked += 1
        return self.now_s

    def wait_for_looks(self) -> None:
        """Until the writer has certainly seen the present time."""
        asked = self.asked
        wait_until(lambda: self.asked > asked + 4, "the writer looks at the clock")
