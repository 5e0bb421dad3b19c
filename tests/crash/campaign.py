"""The crash campaign of a log: what is left is reopened, held to its promises, appended to and reopened."""

from __future__ import annotations

from random import Random

from barbicel.keratin import Ack, Log, LogSettings, NewRecord
from tests.crash.crashing import CrashCampaign
from tests.crash.promises import BrokenPromise, Promises
from tests.support.fault_disk import FaultDisk
from tests.support.inodes import Fate

__all__ = ["Campaign"]

ROOT = "/log"
# Small enough that rolls, checkpoints, preallocation and index entries happen all the time.
SETTINGS = LogSettings(
    segment_max_bytes=3000,
    index_stride_bytes=200,
    max_open_segments=2,
    checkpoint_bytes=1200,
    preallocate_min_bytes=1024,
    preallocate_max_bytes=4096,
)


class Campaign(CrashCampaign):
    """Appends, rolls, checkpoints, trims and reopens a small log."""

    every_byte_share = 0.25
    few_places = 6
    second_crash_calls = 25

    def __init__(self, seed: int, states: int) -> None:
        super().__init__(seed, states)
        self.promises = Promises()
        self._log: Log | None = None

    # --- the workload -------------------------------------------------------------------------------

    def _open(self, disk: FaultDisk) -> Log:
        return Log.open(ROOT, disk=disk, settings=SETTINGS, clock=lambda: self._now_ms)

    def _step(self) -> None:
        log = self._log = self._log or self._open(self._disk)
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

    def _is_turn(self, path: str) -> bool:
        return "/segments/" in path

    def _reopen_all(self, disk: FaultDisk) -> None:
        self._open(disk)

    def _examine(self, disk: FaultDisk, fate: Fate) -> None:
        promises = self.promises.copy()
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
