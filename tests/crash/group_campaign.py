"""The crash campaign of a store of groups: what is left is reopened, held to its promises and used."""

from __future__ import annotations

from random import Random

from barbicel.codecs.stroma_events import Event, Release
from barbicel.codecs.stroma_format import NO_DEADLINE_MS
from barbicel.codecs.stroma_snapshot import Inflight
from barbicel.stroma import GroupKey, GroupStore, StoreSettings, SyncPolicy
from tests.crash.crashing import CrashCampaign
from tests.crash.promises import BrokenPromise
from tests.stroma.builders import KEY, LONG_KEY, OFFSETS, OTHER, ROOT, random_event, view_on
from tests.stroma.model import EMPTY, PlainGroup, PromisedGroup, View, view_of
from tests.support.fault_disk import FaultDisk
from tests.support.faults import Call
from tests.support.inodes import Fate

__all__ = ["GroupCampaign"]

KEYS = (KEY, OTHER, LONG_KEY, GroupKey("other_topic", 12, ""))
SYNC_INTERVAL_MS = 100


class GroupCampaign(CrashCampaign):
    """Records, commits, syncs, maintains, compacts, expires, clamps, deletes and reopens a few groups."""

    every_byte_share = 0.1
    few_places = 4
    second_crash_calls = 20

    def __init__(self, seed: int, states: int) -> None:
        super().__init__(seed, states)
        self._policy = list(SyncPolicy)[self.seed % len(SyncPolicy)]
        self._promised = {key: PromisedGroup() for key in KEYS}
        # A crash while it is deleted may show it empty.
        self._deleting: GroupKey | None = None
        # What is being released because it has expired: a crash then may show any part of that.
        self._expiring: dict[GroupKey, list[tuple[int, Inflight]]] = {}
        # A turn that ends while this group's snapshot is being written.
        self._beside: tuple[GroupStore, GroupKey] | None = None
        self._store: GroupStore | None = None

    # --- the workload -------------------------------------------------------------------------------

    def _open(self, disk: FaultDisk) -> GroupStore:
        # Small enough that compactions and evictions happen all the time.
        settings = StoreSettings(
            sync_policy=self._policy,
            sync_interval_ms=SYNC_INTERVAL_MS,
            compact_bytes=900,
            compact_ratio=3,
            compact_min_bytes=400,
            max_open_groups=2,
            idle_ms=150,
        )
        return GroupStore.open(ROOT, disk=disk, settings=settings, clock=lambda: self._now_ms)

    def _step(self) -> None:
        if self._store is None:
            self._store = self._open(self._disk)
            list(self._store.recover_deadlines())
        self._now_ms += self._work.randrange(60)
        step = self._work.choices(
            (
                self._turn,
                self._sync,
                self._maintain,
                self._compact,
                self._expire,
                self._clamp,
                self._delete,
                self._reopen,
            ),
            weights=(20, 4, 6, 2, 3, 2, 1, 1),
        )[0]
        step(self._store)

    def _record(self, key: GroupKey, events: list[Event]) -> None:
        for event in events:
            self._promised[key].record(event)

    def _turn(self, store: GroupStore) -> None:
        """Events in a group or several, the turn's end most of the time, and a look at the files."""
        for key in self._work.sample(KEYS, self._work.choice((1, 1, 2))):
            events = _events(self._work, self._now_ms)
            self._record(key, events)
            store.record(key, events)
        if self._work.random() < 0.8:
            self._commit(store)
            for key in self._work.sample(KEYS, 2):
                live = self._promised[key].views[-1]
                if not live == view_on(self._disk, key) == view_of(store.state(key)):
                    raise BrokenPromise(f"{key}: snapshot and delta are not the live state")

    def _commit(self, store: GroupStore) -> None:
        if failures := store.commit():
            raise BrokenPromise(f"a sound disk failed: {failures}")
        for group in self._promised.values():
            group.note_written(self._now_ms)
            if self._policy is SyncPolicy.ALWAYS:
                group.note_synced()

    def _sync(self, store: GroupStore) -> None:
        wanted = self._work.sample(KEYS, self._work.choice((1, 2)))
        store.sync(wanted)
        for key, group in self._promised.items():
            group.note_written(self._now_ms)
            if key in wanted or self._policy is SyncPolicy.ALWAYS:
                group.note_synced()

    def _maintain(self, store: GroupStore) -> None:
        store.maintain()
        if self._policy is SyncPolicy.INTERVAL:
            for group in self._promised.values():
                group.note_due(self._now_ms - SYNC_INTERVAL_MS)

    def _compact(self, store: GroupStore) -> None:
        key = self._work.choice(KEYS)
        if self._work.random() < 0.5:
            self._beside = store, key
        store.compact(key)
        self._promised[key].note_compacted()

    def _turn_beside(self, store: GroupStore, key: GroupKey) -> None:
        self._beside = None
        events = _events(self._work, self._now_ms)
        self._record(key, events)
        store.record(key, events)
        self._commit(store)

    def _expire(self, store: GroupStore) -> None:
        self._commit(store)
        self._expiring = {key: group.live.expired(self._now_ms) for key, group in self._promised.items()}
        due = sorted((key, *held) for key, expiring in self._expiring.items() for held in expiring)
        found = store.pop_expired(self._now_ms)
        self._expiring = {}
        for key, offset, inflight in found:
            self._record(key, [Release(offset, inflight.epoch)])
        if sorted(tuple(item) for item in found) != due:
            raise BrokenPromise(f"expired are {due}, found were {found}")

    def _clamp(self, store: GroupStore) -> None:
        """A log ends somewhere: from then on no crash may show anything beyond."""
        topic, partition, _ = self._work.choice(KEYS)
        end = self._work.randrange(OFFSETS)
        groups = {key: group for key, group in self._promised.items() if key[:2] == (topic, partition)}
        reaching = {key for key, group in groups.items() if group.reaches(end)}
        for key in reaching:
            groups[key].clamp(end)
        found = store.clamp(topic, partition, end)
        if not reaching <= set(found) <= set(groups):
            raise BrokenPromise(f"beyond {end} reach {reaching}, clamped were {found}")
        for key, group in groups.items():
            if key in found:
                group.note_compacted()
            else:
                group.note_below(end)

    def _delete(self, store: GroupStore) -> None:
        key = self._deleting = self._work.choice(KEYS)
        store.delete(key)
        self._deleting = None
        self._promised[key] = PromisedGroup()

    def _reopen(self, store: GroupStore) -> None:
        store.close()
        for group in self._promised.values():
            group.note_compacted()
        self._store = None

    # --- the crashes --------------------------------------------------------------------------------

    def _is_turn(self, path: str) -> bool:
        return path.endswith((".delta", ".delta.begun"))

    def _look(self, call: Call) -> None:
        super()._look(call)
        if call.operation == "fdatasync" and call.path.endswith(".snap.new") and self._beside is not None:
            self._turn_beside(*self._beside)

    def _reopen_all(self, disk: FaultDisk) -> None:
        store = self._open(disk)
        for key in self._fates.sample(KEYS, len(KEYS)):
            store.state(key)

    def _examine(self, disk: FaultDisk, fate: Fate) -> None:
        store = self._open(disk)
        found = {key: view_of(store.state(key)) for key in KEYS}
        for key, view in found.items():
            self._check(key, view, fate)
        self._check_directory(store, found)
        key = self._fates.choice(KEYS)
        events = _events(self._fates, self._now_ms)
        model = PlainGroup.of(found[key])
        for event in events:
            model.apply(event)
        store.record(key, events)
        if self._fates.random() < 0.3:
            store.compact(key)
        store.sync([key])
        again = disk.crash(self._fates.choice(list(Fate)), self._fates)
        for used in KEYS:
            expected = model.view() if used == key else found[used]
            if view_on(again, used) != expected:
                raise BrokenPromise(f"{used}: {view_on(again, used)} after the second crash, not {expected}")

    # --- the promises -------------------------------------------------------------------------------

    def _check(self, key: GroupKey, found: View, fate: Fate) -> None:
        """A state that the group was in, and none before the last one that was promised to survive."""
        allowed = self._promised[key].allowed(fate)
        if key == self._deleting:
            allowed = [*allowed, EMPTY]
        if found in allowed or self._before_expiry(key, found) in allowed:
            return
        promised, last = PlainGroup.of(allowed[0]), PlainGroup.of(found)
        redelivered = [offset for offset in range(100) if promised.is_acked(offset) > last.is_acked(offset)]
        lost = [offset for offset in range(100) if last.is_acked(offset) > promised.is_acked(offset)]
        raise BrokenPromise(
            f"{key} is in none of the {len(allowed)} states it may be in, but in {found}; "
            f"beside the promised one it has not acked {redelivered}, and acked {lost}"
        )

    def _before_expiry(self, key: GroupKey, found: View) -> View:
        """The state with everything handed out again that is just being released."""
        group = PlainGroup.of(found)
        for offset, held in self._expiring.get(key, []):
            if group.releases.get(offset) == held.epoch:
                del group.releases[offset]
                group.inflight[offset] = held
        return group.view()

    def _check_directory(self, store: GroupStore, found: dict[GroupKey, View]) -> None:
        """Every group is listed, and their deadlines are known."""
        listed = list(store.recover_deadlines())
        used = {key for key, view in found.items() if view != EMPTY}
        if not used <= set(listed) <= set(KEYS) or len(set(listed)) != len(listed):
            raise BrokenPromise(f"listed are {listed}, used were {used}")
        earliest = min(PlainGroup.of(view).next_expiry_ms() for view in found.values())
        if store.next_deadline_ms() != (None if earliest == NO_DEADLINE_MS else earliest):
            raise BrokenPromise(f"the next deadline is {earliest}, not {store.next_deadline_ms()}")


def _events(random: Random, now_ms: int) -> list[Event]:
    return [random_event(random, now_ms) for _ in range(random.choice((1, 1, 2, 3, 6)))]
