"""A store against plain dictionaries: events, turns, compactions, evictions and ends in any order."""

from __future__ import annotations

from random import Random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from barbicel.codecs.stroma_events import Event, Release
from barbicel.codecs.stroma_format import NO_DEADLINE_MS
from barbicel.stroma import GroupKey, GroupStore, SyncPolicy
from barbicel.stroma.store import Expired
from tests.keratin.builders import ManualClock
from tests.stroma.builders import KEY, LONG_KEY, NOW_MS, OFFSETS, OTHER, events, open_store, view_on
from tests.stroma.model import EMPTY, PromisedGroup, view_of
from tests.support.fault_disk import Fate, FaultDisk

KEYS = (KEY, OTHER, LONG_KEY, GroupKey("other_topic", 12, ""))
MAX_OPEN_GROUPS = 2
SYNC_INTERVAL_MS = 100

keys = st.sampled_from(KEYS)
batches = st.lists(events, min_size=1, max_size=6)


class StoreMachine(RuleBasedStateMachine):
    """`groups` holds every group, one that was never used too: it is empty."""

    store: GroupStore
    policy: SyncPolicy

    def __init__(self) -> None:
        super().__init__()
        self.disk = FaultDisk()
        self.clock = ManualClock(NOW_MS)
        self.groups = {key: PromisedGroup() for key in KEYS}

    @initialize(policy=st.sampled_from(SyncPolicy))
    def create(self, policy: SyncPolicy) -> None:
        self.policy = policy
        self.open()

    def open(self) -> None:
        self.store = open_store(
            self.disk,
            clock=self.clock,
            sync_policy=self.policy,
            sync_interval_ms=SYNC_INTERVAL_MS,
            compact_bytes=500,
            compact_min_bytes=250,
            compact_ratio=2,
            max_open_groups=MAX_OPEN_GROUPS,
            idle_ms=150,
        )
        assert set(self.store.recover_deadlines()) <= set(KEYS)

    # What happens in a turn

    @rule(elapsed_ms=st.integers(0, 200))
    def let_time_pass(self, elapsed_ms: int) -> None:
        self.clock.now_ms += elapsed_ms

    @rule(key=keys, batch=batches)
    def record(self, key: GroupKey, batch: list[Event]) -> None:
        group = self.groups[key]
        for event in batch:
            group.record(event)
        assert view_of(self.store.record(key, batch)) == group.views[-1]

    @rule()
    def commit(self) -> None:
        assert self.store.commit() == {}
        for group in self.groups.values():
            group.note_written(self.clock.now_ms)
            if self.policy is SyncPolicy.ALWAYS:
                group.note_synced()

    @rule(wanted=st.sets(keys))
    def sync(self, wanted: set[GroupKey]) -> None:
        self.store.sync(wanted)
        for key, group in self.groups.items():
            group.note_written(self.clock.now_ms)
            if key in wanted or self.policy is SyncPolicy.ALWAYS:
                group.note_synced()

    # What happens between turns

    @rule()
    def maintain(self) -> None:
        self.store.maintain()
        assert self.store.open_groups <= MAX_OPEN_GROUPS + sum(g.has_pending for g in self.groups.values())
        if self.policy is SyncPolicy.INTERVAL:
            assert self.store.sync_lag_ms < SYNC_INTERVAL_MS
            for group in self.groups.values():
                group.note_due(self.clock.now_ms - SYNC_INTERVAL_MS)

    @rule(key=keys)
    def compact(self, key: GroupKey) -> None:
        self.store.compact(key)
        self.groups[key].note_compacted()
        assert view_on(self.disk, key) == self.groups[key].views[-1]

    @rule(key=keys)
    def delete(self, key: GroupKey) -> None:
        self.store.delete(key)
        self.groups[key] = PromisedGroup()
        assert not self.store.exists(key)
        assert key not in set(self.store.groups())

    @rule(key=keys, end=st.integers(0, OFFSETS))
    def clamp(self, key: GroupKey, end: int) -> None:
        groups = {other: group for other, group in self.groups.items() if other[:2] == key[:2]}
        reaching = {other for other, group in groups.items() if group.reaches(end)}
        for other in reaching:
            groups[other].clamp(end)
        found = self.store.clamp(key.topic, key.partition, end)
        assert reaching <= set(found) <= set(groups)
        for other, group in groups.items():
            if other in found:
                group.note_compacted()
            else:
                group.note_below(end)

    @rule(limit=st.none() | st.integers(0, 3))
    def pop_expired(self, limit: int | None) -> None:
        self.commit()
        now_ms = self.clock.now_ms
        due = sorted(
            Expired(key, offset, held)
            for key, group in self.groups.items()
            for offset, held in group.live.expired(now_ms)
        )
        found = self.store.pop_expired(now_ms) if limit is None else self.store.pop_expired(now_ms, limit)
        assert len(set(found)) == len(found) == min(len(due), len(due) if limit is None else limit)
        assert set(found) <= set(due)
        for key, offset, held in found:
            self.groups[key].record(Release(offset, held.epoch))

    # What ends it

    @rule()
    def reopen(self) -> None:
        self.store.close()
        for group in self.groups.values():
            group.note_compacted()
        self.open()

    @rule(fate=st.sampled_from(Fate), seed=st.integers(0, 1 << 16))
    def crash(self, fate: Fate, seed: int) -> None:
        self.disk = self.disk.crash(fate, Random(seed))
        self.open()
        for key, group in self.groups.items():
            found = view_of(self.store.state(key))
            assert found in group.allowed(fate), (key, fate)
            self.groups[key] = PromisedGroup(found)

    # What must hold

    @rule(key=keys)
    def look(self, key: GroupKey) -> None:
        group, state = self.groups[key], self.store.state(key)
        assert view_of(state) == group.views[-1]
        free = [offset for gap in state.available(2, 30) for offset in range(*gap)]
        assert free == group.live.available(2, 30)
        assert state.next_expiry_ms() == group.live.next_expiry_ms()

    @rule()
    def look_at_the_files(self) -> None:
        """Snapshot and delta are the live state."""
        self.commit()
        for key, group in self.groups.items():
            assert view_on(self.disk, key) == group.views[-1]
        listed = list(self.store.groups())
        assert len(set(listed)) == len(listed)
        assert {key for key, group in self.groups.items() if group.views[-1] != EMPTY} <= set(listed)

    @rule()
    def look_at_the_deadlines(self) -> None:
        self.commit()
        earliest = min(group.live.next_expiry_ms() for group in self.groups.values())
        assert self.store.next_deadline_ms() == (None if earliest == NO_DEADLINE_MS else earliest)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            for key, group in self.groups.items():
                assert view_on(self.disk, key) == group.views[-1]


TestStore = StoreMachine.TestCase
TestStore.settings = settings(
    max_examples=100,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
