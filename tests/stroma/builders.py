"""What the tests of Stroma share: small stores, random events, eyes on the disk."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import TypedDict, Unpack

from hypothesis import strategies as st

from barbicel.codecs.stroma_events import (
    Ack,
    BumpAckedUntil,
    ClearInflight,
    Commit,
    Event,
    MarkInflight,
    Release,
    Reset,
)
from barbicel.codecs.stroma_format import NO_DEADLINE_MS
from barbicel.disk import Disk
from barbicel.stroma import GroupKey, GroupStore, StoreSettings, SyncPolicy
from barbicel.stroma.layout import StoreLayout
from barbicel.stroma.recovery import GroupPlan, plan_group
from tests.keratin.builders import DEADLINE_S, Crew, ManualClock
from tests.stroma.model import View, view_of
from tests.support.fault_disk import Call, Fate, FaultDisk, Operation
from tests.support.faults import READS

__all__ = [
    "DELTA",
    "HISTORY",
    "KEY",
    "LONG_KEY",
    "NOW_MS",
    "OFFSETS",
    "OTHER",
    "PATIENCE_S",
    "ROOT",
    "SNAP",
    "Calls",
    "Halt",
    "OpenFiles",
    "SettingsChanges",
    "after_power_cut",
    "check_goes_on",
    "crash_states",
    "events",
    "filled",
    "flipped",
    "key_number",
    "open_store",
    "plan_on",
    "put_disk",
    "random_event",
    "view_on",
]

ROOT = "/groups"
NOW_MS = 1_000_000
KEY = GroupKey("topic", 0, "group")
OTHER = GroupKey("topic", 0, "other")
# Its files have a hash for a name.
LONG_KEY = GroupKey("topic", 3, "ü" * 120)
# After this long a thread that has not come back waits for another one.
PATIENCE_S = 0.2
# Offsets of random events; small, so that they meet.
OFFSETS = 24


class SettingsChanges(TypedDict, total=False):
    """The fields of StoreSettings."""

    sync_policy: SyncPolicy
    sync_interval_ms: int
    compact_bytes: int
    compact_ratio: int
    compact_min_bytes: int
    max_open_groups: int
    max_delta_bytes: int
    idle_ms: int


def open_store(
    disk: Disk,
    path: str = ROOT,
    *,
    clock: Callable[[], int] | None = None,
    **changes: Unpack[SettingsChanges],
) -> GroupStore:
    settings = replace(StoreSettings(), **changes)
    return GroupStore.open(path, disk=disk, settings=settings, clock=clock or ManualClock(NOW_MS))


def key_number(number: int) -> GroupKey:
    return GroupKey("topic", number % 7, f"group {number}")


def plan_on(disk: Disk, key: GroupKey = KEY) -> GroupPlan:
    return plan_group(disk, StoreLayout(ROOT).files(key), key)


def view_on(disk: Disk, key: GroupKey = KEY) -> View:
    """What a group's files say."""
    return view_of(plan_on(disk, key).state())


# --- groups with a history ------------------------------------------------------------------------

SNAP = f"{ROOT}/topic-0_group.snap"
DELTA = f"{ROOT}/topic-0_group.delta"

# One of each kind, and its order matters.
HISTORY: tuple[Event, ...] = (
    Ack(0),
    MarkInflight(4, NOW_MS + 50, 1),
    Ack(3),
    BumpAckedUntil(10),
    Commit(2, 5, b"back"),
    Ack(5),
    Ack(7),
    MarkInflight(4, NOW_MS + 90, 2),
    Release(9, 3),
)


def filled(*turns: tuple[Event, ...], compact_after: int | None = None, key: GroupKey = KEY) -> FaultDisk:
    """A closed store with one group that had these turns."""
    disk = FaultDisk()
    with open_store(disk) as store:
        for number, turn in enumerate(turns):
            store.record(key, turn)
            store.commit()
            if number == compact_after:
                store.compact(key)
    return disk


def crash_states(disk: FaultDisk, run: Callable[[], object]) -> list[tuple[Fate, FaultDisk]]:
    """The disk as a crash at every call of `run` would leave it."""
    states: list[tuple[Fate, FaultDisk]] = []
    rng = Random(7)
    disk.observer = lambda _: states.extend((fate, disk.crash(fate, rng)) for fate in Fate)
    run()
    disk.observer = None
    return [*states, *((fate, disk.crash(fate, rng)) for fate in Fate)]


def check_goes_on(disk: FaultDisk, key: GroupKey, found: View) -> None:
    """Two turns, a compaction and two power cuts later everything is there."""
    store = open_store(disk)
    assert view_of(store.state(key)) == found
    store.record(key, [Commit(1, None, None), Ack(6)])
    store.sync([key])
    assert view_on(after_power_cut(disk), key).acked == ((6, 7),)
    store.compact(key)
    store.record(key, [Ack(8)])
    store.sync([key])
    assert view_on(after_power_cut(disk), key) == View(1, ((6, 7), (8, 9)), (), (), True)


# --- random events --------------------------------------------------------------------------------

_offsets = st.integers(0, OFFSETS - 1)
# Few, so that the same deadline comes back.
_deadlines = st.sampled_from((NOW_MS + 10, NOW_MS + 50, NOW_MS + 50, NOW_MS + 300, NO_DEADLINE_MS))
_epochs = st.integers(1, 3)
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(MarkInflight, _offsets, _deadlines, _epochs),
    st.builds(MarkInflight, _offsets, _deadlines, _epochs),
    st.builds(Ack, _offsets),
    st.builds(Ack, _offsets),
    st.builds(ClearInflight, _offsets),
    st.builds(BumpAckedUntil, _offsets),
    st.builds(Release, _offsets, _epochs),
    st.builds(Reset),
    st.builds(Commit, _offsets, st.none() | _epochs, st.none() | st.binary(max_size=3)),
)


def _random_mark(random: Random, offset: int, now_ms: int) -> Event:
    deadline_ms = random.choice((now_ms - now_ms % 100 + 200, now_ms + 30, NO_DEADLINE_MS))
    return MarkInflight(offset, deadline_ms, random.randrange(1, 4))


def _random_commit(random: Random, offset: int, _: int) -> Event:
    return Commit(offset, random.choice((None, 7)), random.choice((None, b"", b"where I was")))


# Mostly handing out and acking, as a consumer does.
_RANDOM_EVENTS: dict[Callable[[Random, int, int], Event], int] = {
    _random_mark: 40,
    lambda random, offset, now_ms: Ack(offset): 40,
    lambda random, offset, now_ms: ClearInflight(offset): 5,
    lambda random, offset, now_ms: BumpAckedUntil(offset): 3,
    lambda random, offset, now_ms: Release(offset, random.randrange(1, 4)): 8,
    lambda random, offset, now_ms: Reset(): 1,
    _random_commit: 3,
}


def random_event(random: Random, now_ms: int) -> Event:
    make = random.choices(list(_RANDOM_EVENTS), weights=list(_RANDOM_EVENTS.values()))[0]
    return make(random, random.randrange(OFFSETS), now_ms)


# --- disks ----------------------------------------------------------------------------------------


def after_power_cut(disk: FaultDisk) -> FaultDisk:
    return disk.crash(Fate.DROP, Random(0))


def put_disk(files: dict[str, bytes]) -> FaultDisk:
    """A disk with these files on it, durably."""
    disk = FaultDisk()
    for path, data in files.items():
        disk.put(path, data)
    return disk


def flipped(data: bytes, position: int, mask: int = 0xFF) -> bytes:
    return data[:position] + bytes([data[position] ^ mask]) + data[position + 1 :]


class Calls:
    """An observer that keeps what is called."""

    def __init__(self, disk: FaultDisk) -> None:
        self.calls: list[Call] = []
        disk.observe_reads = True
        disk.observer = self

    def __call__(self, call: Call) -> None:
        self.calls.append(call)

    def take(self, *operations: Operation, path_contains: str = "") -> list[str]:
        """The names of the files that these were called for, since the last look; all but reads if none."""
        calls, self.calls = self.calls, []
        return [
            call.path.rpartition("/")[2] if operations else f"{call.operation} {call.path.rpartition('/')[2]}"
            for call in calls
            if (call.operation in operations if operations else call.operation not in READS)
            and path_contains in call.path
        ]


class OpenFiles:
    """An observer that counts open handles; it must be there from the start."""

    def __init__(self, disk: FaultDisk) -> None:
        self.handles: Counter[str] = Counter()
        self.most = 0
        self._lock = threading.Lock()
        disk.observe_reads = True
        disk.observer = self

    def __call__(self, call: Call) -> None:
        if call.operation in ("open", "create", "close"):
            with self._lock:
                self.handles[call.path] += -1 if call.operation == "close" else 1
                self.most = max(self.most, self.count)

    @property
    def count(self) -> int:
        return self.handles.total()


class Halt(OpenFiles):
    """Stops a thread at one sync of a delta, so that others can come in between."""

    def __init__(self, disk: FaultDisk) -> None:
        super().__init__(disk)
        self.patience_s = PATIENCE_S
        self._is_armed = False
        self._arrived = threading.Event()
        self._may_go_on = threading.Event()

    def __call__(self, call: Call) -> None:
        super().__call__(call)
        is_delta = call.path.endswith((".delta", ".delta.begun"))
        if self._is_armed and call.operation == "fdatasync" and is_delta:
            self._is_armed = False
            self._arrived.set()
            assert self._may_go_on.wait(DEADLINE_S)

    def run_beside(self, halted: Callable[[], object], beside: Callable[[], object]) -> None:
        """Run `halted` up to its sync, then `beside`, to its end or to where it waits for that sync."""
        crew, done = Crew(), threading.Event()
        self._is_armed = True

        def run() -> None:
            try:
                beside()
            finally:
                done.set()

        crew.start(halted)
        assert self._arrived.wait(DEADLINE_S)
        crew.start(run)
        done.wait(self.patience_s)
        self._may_go_on.set()
        crew.join()
