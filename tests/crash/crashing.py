"""Stopping a workload at every disk call and at every byte of its writes, and looking at what is left.

The workload runs once on a disk that knows what is written and what is synced. Before each of its calls
the campaign takes the disk as a crash at that moment would leave it, in several ways, and has the copy
examined. Some of the examinations begin with a second crash. Everything follows from the seed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import NamedTuple

from tests.crash.promises import BrokenPromise
from tests.support.fault_disk import FaultDisk
from tests.support.faults import Call, PowerCut
from tests.support.inodes import Fate

__all__ = ["Crash", "CrashCampaign"]

TEARS_PER_CALL = 2
SECOND_CRASH_SHARE = 0.2


class Crash(NamedTuple):
    """One state that was looked at, to tell about it and to do it again."""

    seed: int
    call: Call
    fate: Fate
    torn_append: int | None


class CrashCampaign(ABC):
    """Looks at `states` crash states of the workload that `seed` gives."""

    # Of the writes of events or records that are stopped at each of their bytes.
    every_byte_share: float
    # At how many places the others are.
    few_places: int
    # A second crash comes within so many calls.
    second_crash_calls: int

    def __init__(self, seed: int, states: int) -> None:
        self.seed = seed
        self.states = states
        self.looked_at = 0
        self.by_operation: dict[str, int] = {}
        # Two sources, so that what is looked at does not change what happens.
        self._work = Random(seed)
        self._fates = Random(seed + 1)
        self._disk = FaultDisk()
        self._now_ms = 1_000_000

    def run(self) -> None:
        self._disk.observer = self._look
        while self.looked_at < self.states:
            self._step()

    @abstractmethod
    def _step(self) -> None:
        """Do something on the disk, and note what is promised."""

    @abstractmethod
    def _is_turn(self, path: str) -> bool:
        """Whether a write to this file is one of records or events."""

    @abstractmethod
    def _reopen_all(self, disk: FaultDisk) -> None:
        """What a restart does, up to wherever a second crash ends it."""

    @abstractmethod
    def _examine(self, disk: FaultDisk, fate: Fate) -> None:
        """Reopen, check, use, and once more."""

    def _look(self, call: Call) -> None:
        for fate in (Fate.DROP, Fate.KEEP, *[Fate.TEAR] * TEARS_PER_CALL):
            self._crash(Crash(self.seed, call, fate, None))
        if call.operation == "write":
            is_slow = self._is_turn(call.path) and self._fates.random() < self.every_byte_share
            for count in range(1, len(call.data), 1 if is_slow else 1 + len(call.data) // self.few_places):
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
            if self._fates.random() < SECOND_CRASH_SHARE:
                left = self._crash_again(left)
            self._examine(left, crash.fate)
        except Exception as error:
            raise BrokenPromise(f"state {self.looked_at}, {crash}: {error}") from error

    def _crash_again(self, disk: FaultDisk) -> FaultDisk:
        """Crash during the restart. What the first one left counts as synced, so its promise still holds."""
        disk.observer = _cut_after(self._fates.randrange(1, self.second_crash_calls))
        with suppress(PowerCut):
            self._reopen_all(disk)
        disk.observer = None
        return disk.crash(self._fates.choice(list(Fate)), self._fates)


def _cut_after(calls_left: int) -> Callable[[Call], None]:
    def cut(_: Call) -> None:
        nonlocal calls_left
        calls_left -= 1
        if not calls_left:
            raise PowerCut

    return cut
