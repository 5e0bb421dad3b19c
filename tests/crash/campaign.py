"""Stopping a log at every disk call and at every byte of its writes, and looking at what is left.

The workload runs once on a disk that knows what is written and what is synced. Before each of its calls
the campaign takes the disk as a crash at that moment would leave it, in several ways, and puts the copy
through: reopen, check the promises, append, reopen, check again. Some of the reopenings are cut short by
a second crash. Everything follows from the seed.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from barbicel.keratin import Ack, Log, LogSettings, NewRecord
from tests.crash.promises import BrokenPromise, Promises
from tests.support.fault_disk import FaultDisk
from tests.support.faults import Call, PowerCut
from tests.support.inodes import Fate

__all__ = ["Campaign", "Crash"]

ROOT = "/log"
TEARS_PER_CALL = 2
SECOND_CRASH_SHARE = 0.2
# Of the writes to a segment that are stopped at each of their bytes; the others at a few.
EVERY_BYTE_SHARE = 0.25

# Small enough that rolls, checkpoints, preallocation and index entries happen all the time.
SETTINGS = LogSettings(
    segment_max_bytes=3000,
    index_stride_bytes=200,
    max_open_segments=2,
    checkpoint_bytes=1200,
    preallocate_min_bytes=1024,
    preallocate_max_bytes=4096,
)


@dataclass(frozen=True)
class Crash:
    """One state that was looked at, to tell about it and to do it again."""

    seed: int
    call: Call
    fate: Fate
    torn_append: int | None


@dataclass
class Campaign:
    """Looks at `states` crash states of the workload that `seed` gives."""

    seed: int
    states: int
    looked_at: int = 0
    by_operation: dict[str, int] = field(default_factory=dict)
    promises: Promises = field(default_factory=Promises)

    def __post_init__(self) -> None:
        # Two sources, so that what is looked at does not change what happens.
        self._work = Random(self.seed)
        self._fates = Random(self.seed + 1)
        self._disk = FaultDisk()
        self._now_ms = 1_000_000
        self._log: Log | None = None

    def run(self) -> None:
        self._disk.observer = self._look
        while self.looked_at < self.states:
            if self._log is None:
                self._log = self._open(self._disk)
            self._step(self._log)

    # --- the workload -------------------------------------------------------------------------------

    def _open(self, disk: FaultDisk) -> Log:
        return Log.open(ROOT, disk=disk, settings=SETTINGS, clock=lambda: self._now_ms)

    def _step(self, log: Log) -> None:
        self._now_ms += self._work.randrange(50)
        step = self._work.choices(
            (self._append, self._roll, self._checkpoint, self._trim, self._reopen),
            weights=(20, 1, 1, 2, 2),
        )[0]
        step(log)

    def _append(self, log: Log) -> None:
        records = _records(self._work, self._now_ms)
        ack = self._work.choice((Ack.AFTER_WRITE, Ack.AFTER_FSYNC, Ack.AFTER_FSYNC))
        end = self.promises.submit(log.end_offset, records)
        appended = log.append(records, ack)
        if appended.base_offset + appended.count != end:
            raise BrokenPromise(f"{appended} should end at {end}")
        self.promises.written_end = end
        if ack is Ack.AFTER_FSYNC:
            self.promises.durable_end = end

    def _roll(self, log: Log) -> None:
        log.roll()

    def _checkpoint(self, log: Log) -> None:
        log.checkpoint()

    def _trim(self, log: Log) -> None:
        """Mostly a part, sometimes everything; always enough that the log stays small."""
        start, end = log.start_offset, log.end_offset
        offset = end if self._work.random() < 0.2 else self._work.randint((start + end) // 2, end)
        self.promises.trim_asked = max(self.promises.trim_asked, offset)
        log.truncate_before(offset)
        self.promises.trim_done = max(self.promises.trim_done, offset)

    def _reopen(self, log: Log) -> None:
        log.close()
        self.promises.durable_end = self.promises.written_end
        self._log = None

    # --- the crashes --------------------------------------------------------------------------------

    def _look(self, call: Call) -> None:
        fates = [Fate.DROP, Fate.KEEP, *[Fate.TEAR] * TEARS_PER_CALL]
        for fate in fates:
            self._crash(Crash(self.seed, call, fate, None))
        if call.operation == "write":
            is_log = "/segments/" in call.path
            step = 1 if is_log and self._fates.random() < EVERY_BYTE_SHARE else 1 + len(call.data) // 6
            for count in range(1, len(call.data), step):
                self._crash(Crash(self.seed, call, Fate.KEEP, count))
                if count % 16 == 0:
                    self._crash(Crash(self.seed, call, Fate.TEAR, count))

    def _crash(self, crash: Crash) -> None:
        if self.looked_at >= self.states:
            return
        self.looked_at += 1
        operation = crash.call.operation
        self.by_operation[operation] = self.by_operation.get(operation, 0) + 1
        left = self._disk.crash(crash.fate, self._fates, torn_append=crash.torn_append)
        try:
            self._examine(left, crash.fate)
        except Exception as error:
            raise BrokenPromise(f"state {self.looked_at}, {crash}: {error}") from error

    def _examine(self, disk: FaultDisk, fate: Fate) -> None:
        """Reopen, check, append, and once more."""
        promises = self.promises.copy()
        if self._fates.random() < SECOND_CRASH_SHARE:
            disk, fate = self._crash_again(disk, fate)
        log = self._open(disk)
        promises.check(log, fate)
        records = _records(self._fates, self._now_ms)
        end = promises.submit(log.end_offset, records)
        promises.trim_done = promises.trim_asked = log.start_offset
        log.append(records)
        promises.durable_end = promises.written_end = end
        again = self._fates.choice((Fate.DROP, Fate.KEEP, Fate.TEAR))
        if self._fates.random() < 0.3:
            log.close()
        reopened = self._open(disk.crash(again, self._fates))
        promises.check(reopened, again)
        reopened.close()

    def _crash_again(self, disk: FaultDisk, fate: Fate) -> tuple[FaultDisk, Fate]:
        """Crash while the log is being recovered: nothing that the first crash left may be lost."""
        calls_left = self._fates.randrange(1, 25)

        def cut(_: Call) -> None:
            nonlocal calls_left
            calls_left -= 1
            if not calls_left:
                raise PowerCut

        disk.observer = cut
        with suppress(PowerCut):
            self._open(disk)
        disk.observer = None
        second = self._fates.choice((Fate.DROP, Fate.KEEP, Fate.TEAR))
        # What the first crash left counts as synced in its copy, so the first one's promise still holds.
        return disk.crash(second, self._fates), fate


def _records(random: Random, now_ms: int) -> list[NewRecord]:
    return [
        NewRecord(
            random.randbytes(random.choice((0, 1, 20, 90, 300))),
            headers=random.randbytes(random.choice((0, 0, 5))),
            timestamp_ms=max(0, now_ms + random.randint(-300, 300)),
            span=random.choice((1, 1, 3, 10)),
        )
        for _ in range(random.choice((1, 1, 2, 4)))
    ]
