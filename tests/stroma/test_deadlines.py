"""What was not acked in time, of all groups together: found without a look at those that have nothing."""

from __future__ import annotations

import errno
from contextlib import suppress
from random import Random

import pytest

from barbicel.codecs.stroma_events import Ack, ClearInflight, Event, MarkInflight
from barbicel.codecs.stroma_snapshot import Inflight
from barbicel.errors import BarbicelError
from barbicel.stroma import GroupKey
from barbicel.stroma.deadlines import Deadlines
from barbicel.stroma.store import Expired
from tests.stroma.builders import (
    KEY,
    LONG_KEY,
    NOW_MS,
    OTHER,
    ROOT,
    Calls,
    OpenFiles,
    after_power_cut,
    key_number,
    open_store,
    view_on,
)
from tests.stroma.model import View
from tests.support.fault_disk import FaultDisk

LATER = NOW_MS + 1000


def mark(offset: int, deadline_ms: int, epoch: int = 1) -> Event:
    return MarkInflight(offset, deadline_ms, epoch)


def expired(key: GroupKey, offset: int, deadline_ms: int, epoch: int = 1) -> Expired:
    return Expired(key, offset, Inflight(deadline_ms, epoch))


class TestInOneStore:
    def test_the_next_is_the_earliest_of_all_groups(self) -> None:
        store = open_store(FaultDisk())
        assert store.next_deadline_ms() is None
        for key, deadlines in ((KEY, (LATER, LATER + 5)), (OTHER, (LATER - 5,)), (LONG_KEY, (LATER + 9,))):
            store.record(key, [mark(number, deadline) for number, deadline in enumerate(deadlines)])
        store.commit()
        assert store.next_deadline_ms() == LATER - 5
        store.record(OTHER, [Ack(0)])
        store.commit()
        assert store.next_deadline_ms() == LATER
        store.delete(KEY)
        assert store.next_deadline_ms() == LATER + 9

    def test_what_is_due_comes_once_and_is_available_again(self) -> None:
        disk = FaultDisk()
        store = open_store(disk)
        store.record(KEY, [mark(3, LATER, 2), mark(4, LATER + 1), mark(5, LATER - 1), Ack(5), mark(6, LATER)])
        store.record(OTHER, [mark(1, LATER - 7), mark(2, LATER - 7), ClearInflight(2)])
        store.commit()
        assert store.pop_expired(LATER - 8) == []
        found = store.pop_expired(LATER)
        assert sorted(found) == [
            expired(KEY, 3, LATER, 2),
            expired(KEY, 6, LATER),
            expired(OTHER, 1, LATER - 7),
        ]
        assert store.pop_expired(LATER) == []
        assert store.next_deadline_ms() == LATER + 1
        assert store.state(KEY).next_epoch(3) == 3
        store.sync([KEY, OTHER])
        assert view_on(after_power_cut(disk), OTHER) == View(releases=((1, 1),))
        assert dict(view_on(after_power_cut(disk)).releases) == {3: 2, 6: 1}

    @pytest.mark.parametrize("limit", [0, 1, 2, 5])
    def test_a_limit_leaves_the_rest_for_the_next_time(self, limit: int) -> None:
        store = open_store(FaultDisk())
        due = []
        for number in range(4):
            store.record(key_number(number), [mark(0, LATER + number), mark(1, LATER + number)])
            due += [expired(key_number(number), offset, LATER + number) for offset in (0, 1)]
        store.commit()
        found = store.pop_expired(LATER + 9, limit)
        assert len(found) == limit
        store.commit()
        rest = store.pop_expired(LATER + 9)
        assert sorted(found + rest) == sorted(due)
        assert store.next_deadline_ms() is None

    @pytest.mark.parametrize(
        "steps",
        [
            ([mark(1, LATER)], [mark(2, LATER - 9)], [Ack(2)]),
            ([mark(1, LATER)], [ClearInflight(1)], [mark(1, LATER)]),
            ([mark(1, LATER)], [mark(1, LATER + 9)], [mark(1, LATER)]),
            ([mark(1, LATER)], [mark(1, LATER, 1)], [mark(1, LATER, 1)]),
        ],
        ids=["an earlier one came and went", "it came back", "it was put off and back", "again and again"],
    )
    def test_a_deadline_that_is_true_again_expires_once(self, steps: tuple[list[Event], ...]) -> None:
        store = open_store(FaultDisk())
        for step in steps:
            store.record(KEY, step)
            store.commit()
        assert store.pop_expired(LATER) == [expired(KEY, 1, LATER)]
        assert store.pop_expired(LATER) == []

    def test_a_group_that_is_deleted_and_made_again_expires_once(self) -> None:
        store = open_store(FaultDisk())
        for _ in range(2):
            store.delete(KEY)
            store.record(KEY, [mark(1, LATER)])
            store.commit()
        assert store.pop_expired(LATER) == [expired(KEY, 1, LATER)]

    def test_a_compaction_before_the_turns_end_forgets_no_deadline(self) -> None:
        store = open_store(FaultDisk())
        store.record(KEY, [mark(1, LATER)])
        store.compact(KEY)
        store.commit()
        assert store.next_deadline_ms() == LATER
        assert store.pop_expired(LATER) == [expired(KEY, 1, LATER)]

    def test_any_changes_of_many_groups_give_the_right_ones(self) -> None:
        random = Random(4)
        store = open_store(FaultDisk(), max_open_groups=5)
        running: dict[tuple[GroupKey, int], int] = {}
        for now_ms in range(NOW_MS, NOW_MS + 300):
            for _ in range(5):
                key, offset = key_number(random.randrange(20)), random.randrange(5)
                if random.random() < 0.7:
                    running[key, offset] = now_ms + random.randrange(1, 20)
                    store.record(key, [mark(offset, running[key, offset])])
                else:
                    running.pop((key, offset), None)
                    store.record(key, [ClearInflight(offset)])
            store.commit()
            assert store.next_deadline_ms() == min(running.values(), default=None)
            due = sorted(expired(*where, when) for where, when in running.items() if when <= now_ms)
            assert sorted(store.pop_expired(now_ms)) == due
            for key, offset, _ in due:
                del running[key, offset]


class TestOnlyWhatExpiredIsTouched:
    def test_of_a_hundred_groups_in_their_files(self) -> None:
        disk = FaultDisk()
        store = open_store(disk, max_open_groups=1)
        for number in range(100):
            store.record(key_number(number), [mark(0, LATER + number)])
            store.commit()
        calls = Calls(disk)
        assert store.next_deadline_ms() == LATER
        assert store.pop_expired(LATER - 1) == []
        assert calls.take("open", "list", "read") == []
        found = store.pop_expired(LATER + 2)
        assert found == [expired(key_number(number), 0, LATER + number) for number in range(3)]
        assert set(calls.take("open", "list")) == {
            f"topic-{number}_group%20{number}.delta" for number in range(3)
        }

    def test_a_limit_that_is_reached_opens_no_more(self) -> None:
        disk = FaultDisk()
        store = open_store(disk, max_open_groups=1)
        for number in range(100):
            store.record(key_number(number), [mark(0, LATER)])
            store.commit()
        calls = Calls(disk)
        assert len(store.pop_expired(LATER, 2)) == 2
        assert len(set(calls.take("open"))) <= 3

    def test_many_groups_at_once_are_not_all_open_at_once(self) -> None:
        """As after a long stop: everything that was handed out anywhere has expired."""
        disk = FaultDisk()
        files = OpenFiles(disk)
        store = open_store(disk, max_open_groups=10)
        for number in range(100):
            store.record(key_number(number), [mark(0, LATER)])
            store.commit()
        found: list[Expired] = []
        while batch := store.pop_expired(LATER):
            found += batch
            assert store.commit() == {}
        assert sorted(found) == sorted(expired(key_number(number), 0, LATER) for number in range(100))
        # One more is open while it takes the place of another, with a file that it is made from.
        assert files.most <= 10 + 2


class TestAfterARestart:
    def filled(self) -> FaultDisk:
        disk = FaultDisk()
        with open_store(disk) as store:
            store.record(KEY, [mark(1, LATER)])
            store.record(OTHER, [Ack(0)])
            store.record(LONG_KEY, [mark(2, LATER + 1), mark(3, LATER + 2)])
            store.compact(LONG_KEY)
        return disk

    def test_the_deadlines_are_recovered_a_group_a_step(self) -> None:
        disk = self.filled()
        store = open_store(disk)
        assert store.next_deadline_ms() is None
        steps = store.recover_deadlines()
        seen = set()
        for _ in range(3):
            calls = Calls(disk)
            seen.add(next(steps))
            assert len(calls.take("read")) <= 3
        assert next(steps, None) is None
        assert seen == {KEY, OTHER, LONG_KEY}
        assert store.open_groups == 0
        assert store.next_deadline_ms() == LATER
        assert store.pop_expired(LATER + 1) == [expired(KEY, 1, LATER), expired(LONG_KEY, 2, LATER + 1)]
        assert store.next_deadline_ms() == LATER + 2

    def test_a_group_that_is_used_before_its_step_keeps_what_it_has(self) -> None:
        store = open_store(self.filled())
        store.record(KEY, [Ack(1)])
        store.record(OTHER, [mark(7, LATER - 3)])
        store.commit()
        list(store.recover_deadlines())
        assert store.pop_expired(LATER) == [expired(OTHER, 7, LATER - 3)]

    def test_a_damaged_group_is_passed_over(self) -> None:
        disk = self.filled()
        disk.put(f"{ROOT}/topic-0_group.delta", b"damaged")
        store = open_store(disk)
        list(store.recover_deadlines())
        assert store.next_deadline_ms() == LATER + 1


class TestWhenSomethingFails:
    def test_a_group_that_cannot_be_read_takes_no_other_deadline_with_it(self) -> None:
        disk = FaultDisk()
        store = open_store(disk, max_open_groups=1)
        for number in range(6):
            store.record(key_number(number), [mark(0, LATER + number)])
            store.commit()
        disk.put(f"{ROOT}/topic-1_group%201.delta", b"damaged")
        found: list[Expired] = []
        for _ in range(3):
            with suppress(BarbicelError):
                found += store.pop_expired(LATER + 9)
            store.commit()
        sound = [number for number in range(6) if number != 1]
        assert sorted(found) == [expired(key_number(number), 0, LATER + number) for number in sound]

    def test_a_group_that_cannot_be_opened_for_now_expires_later(self) -> None:
        disk = FaultDisk()
        store = open_store(disk, max_open_groups=1)
        for key in (KEY, OTHER):
            store.record(key, [mark(0, LATER)])
            store.commit()
        disk.fail("open", errno.EMFILE, path_contains="topic-0_group.delta")
        found: list[Expired] = []
        for step in range(3):
            with suppress(BarbicelError):
                found += store.pop_expired(LATER + 100_000 * step)
        assert sorted(found) == [expired(KEY, 0, LATER), expired(OTHER, 0, LATER)]

    def test_a_release_that_could_not_be_written_expires_again(self) -> None:
        """Nobody else may ever use the group: then it is the deadline that must bring it back."""
        disk = FaultDisk()
        store = open_store(disk)
        store.record(KEY, [mark(0, LATER)])
        store.commit()
        assert store.pop_expired(LATER) == [expired(KEY, 0, LATER)]
        disk.fail("write", errno.EIO, path_contains=".delta")
        assert list(store.commit()) == [KEY]
        assert store.pop_expired(LATER + 100_000) == [expired(KEY, 0, LATER)]

    def test_a_release_that_could_not_be_written_by_a_disk_that_cannot_be_read_expires_again(self) -> None:
        disk = FaultDisk()
        store = open_store(disk)
        store.record(KEY, [mark(0, LATER)])
        store.commit()
        assert store.pop_expired(LATER) == [expired(KEY, 0, LATER)]
        disk.fail("write", errno.EIO, path_contains=".delta")
        disk.fail("open", errno.EIO, path_contains=".delta")
        assert list(store.commit()) == [KEY]
        found: list[Expired] = []
        for step in range(1, 4):
            with suppress(BarbicelError):
                found += store.pop_expired(LATER + 100_000 * step)
        assert found == [expired(KEY, 0, LATER)]

    def test_a_deadline_that_could_not_be_written_does_not_expire(self) -> None:
        disk = FaultDisk()
        store = open_store(disk)
        store.record(KEY, [Ack(0)])
        store.commit()
        store.record(KEY, [mark(1, LATER)])
        disk.fail("write", errno.EIO, path_contains=".delta")
        store.commit()
        assert store.pop_expired(LATER + 100_000) == []


class TestDeadlines:
    def test_of_equal_ones_the_first_comes_first(self) -> None:
        current = {"b": 5, "a": 5, "c": 4}
        deadlines: Deadlines[str] = Deadlines(current.get)
        for key, deadline_ms in current.items():
            deadlines.add(deadline_ms, key, len(current))
        assert list(deadlines.pop_due(5)) == ["c", "b", "a"]
        assert deadlines.next_ms() is None

    def test_stale_ones_go_when_they_outnumber_the_others(self) -> None:
        current: dict[int, int] = {}
        deadlines: Deadlines[int] = Deadlines(current.get)
        for number in range(5_000):
            current[number % 10] = 10_000 - number
            deadlines.add(10_000 - number, number % 10, len(current))
            assert len(deadlines._heap) <= 2 * 10 + 64 + 1
        assert deadlines.next_ms() == 5_001
        assert sorted(deadlines.pop_due(10_000)) == list(range(10))
