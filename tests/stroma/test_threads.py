"""Several threads at one store: each is told of its own losses, and nobody sees half a change."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from random import Random

import pytest

from barbicel.codecs.stroma_events import Ack, MarkInflight, Release
from barbicel.errors import BarbicelError, DiskError
from barbicel.stroma import GroupKey, GroupState, GroupStore
from tests.keratin.builders import Crew
from tests.stroma.builders import KEY, OTHER, open_store
from tests.support.fault_disk import FaultDisk

MANY = 3_000


def elsewhere(run: Callable[[], object]) -> None:
    """Run it to its end in another thread."""
    crew = Crew()
    crew.start(run)
    crew.join()


class TestALoss:
    """One thread records, and another ends the turn, which fails."""

    def bench(self) -> tuple[FaultDisk, GroupStore]:
        disk = FaultDisk()
        store = open_store(disk)
        for key in (KEY, OTHER):
            store.record(key, [Ack(0)])
        store.sync([KEY, OTHER])
        store.record(KEY, [Ack(1)])
        disk.fail("write", errno.EIO, path_contains="topic-0_group.delta")
        return disk, store

    def test_is_told_to_whoever_ended_the_turn_and_to_whoever_recorded(self) -> None:
        _, store = self.bench()
        told: dict[GroupKey, BarbicelError] = {}
        elsewhere(lambda: told.update(store.commit()))
        assert list(told) == [KEY]
        assert list(store.commit()) == [KEY]
        assert store.commit() == {}
        elsewhere(lambda: told.update(store.commit()))
        assert list(told) == [KEY]

    def test_is_told_once_to_one_thread_that_does_both(self) -> None:
        _, store = self.bench()
        assert list(store.commit()) == [KEY]
        assert store.commit() == {}

    def test_is_not_taken_away_by_anothers_sync(self) -> None:
        _, store = self.bench()
        told: list[BarbicelError] = []

        def sync() -> None:
            with pytest.raises(DiskError) as caught:
                store.sync([KEY])
            told.append(caught.value)

        elsewhere(sync)
        assert len(told) == 1
        assert list(store.commit()) == [KEY]

    def test_is_told_to_whoever_ends_turns_if_the_recorder_never_does(self) -> None:
        _, store = self.bench()
        store.maintain()
        told: dict[GroupKey, BarbicelError] = {}
        elsewhere(lambda: told.update(store.commit()))
        assert list(told) == [KEY]

    def test_of_one_is_none_of_another_who_records_the_same_group_later(self) -> None:
        _, store = self.bench()
        elsewhere(store.commit)
        told: dict[GroupKey, BarbicelError] = {}

        def record() -> None:
            store.record(KEY, [Ack(1)])
            told.update(store.commit())

        elsewhere(record)
        assert told == {}
        assert store.state(KEY).acked_until == 2


class TestLookingWhileAGroupChanges:
    def test_what_is_walked_may_be_handed_out_at_once(self) -> None:
        state = GroupState()
        for offset in range(1, MANY, 2):
            state.apply(Ack(offset))
        handed_out: list[int] = []
        for gap in state.available(0, MANY):
            handed_out += range(*gap)
            for offset in range(*gap):
                state.apply(MarkInflight(offset, 5, 1))
        assert handed_out == list(range(0, MANY, 2))
        assert list(state.available(0, MANY)) == []

    def test_what_is_walked_may_be_acked_at_once(self) -> None:
        """The frontier moves over everything behind the walk, and blocks of ranges go."""
        state = GroupState()
        for offset in range(1, MANY, 2):
            state.apply(Ack(offset))
        done: list[int] = []
        for gap in state.available(0, MANY):
            done += range(*gap)
            for offset in range(*gap):
                state.apply(Ack(offset))
        assert done == list(range(0, MANY, 2))
        assert state.acked_until == MANY

    def test_any_walk_beside_any_change_ends_and_ascends(self) -> None:
        for seed in range(30):
            random, state = Random(seed), GroupState()
            for offset in random.sample(range(MANY), MANY // 2):
                state.apply(Ack(offset))
            last = -1
            for gap in state.available(0, MANY):
                assert last < gap.start < gap.end
                last = gap.end - 1
                for _ in range(random.randrange(4)):
                    offset = random.randrange(MANY)
                    state.apply(random.choice((Ack(offset), MarkInflight(offset, 5, 1), Release(offset, 1))))

    def test_the_store_answers_other_threads_while_one_records(self) -> None:
        store = open_store(FaultDisk())
        store.record(KEY, [Ack(offset) for offset in range(1, MANY, 2)])
        done = threading.Event()

        def look() -> None:
            while not done.is_set():
                gaps = store.available(KEY, 0, 2 * MANY, MANY)
                assert all(gap.start < gap.end for gap in gaps)
                assert MANY <= store.lag(KEY, 2 * MANY) <= 2 * MANY

        def record() -> None:
            random = Random(1)
            try:
                for _ in range(MANY):
                    offset = random.randrange(MANY)
                    store.record(KEY, [Ack(offset), MarkInflight(random.randrange(MANY), 5, 1)])
            finally:
                done.set()

        crew = Crew()
        crew.start(look)
        crew.start(record)
        crew.join()

    def test_a_bounded_look_gives_what_is_wanted_and_little_more(self) -> None:
        store = open_store(FaultDisk())
        store.record(KEY, [Ack(offset) for offset in range(2, 100, 3)])
        for wanted in range(8):
            gaps = store.available(KEY, 0, 200, wanted)
            assert gaps == [(3 * number, 3 * number + 2) for number in range((wanted + 1) // 2)]
