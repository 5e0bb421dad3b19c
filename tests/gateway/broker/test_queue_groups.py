"""Groups that hand out single items: what was answered survives a crash, and errors find their group."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest

from barbicel.codecs.stroma_events import Ack, BumpAckedUntil, Event, MarkInflight, Release
from barbicel.codecs.stroma_format import NO_DEADLINE_MS
from barbicel.errors import BarbicelError, CorruptGroup, DiskError, LogClosed
from barbicel.gateway.broker.consumption import GroupOffsets, Position
from barbicel.gateway.broker.queue_groups import QueueGroups
from barbicel.stroma import GroupKey
from tests.gateway.kafka.in_memory import HandReactor, untyped
from tests.support.fault_disk import Fate, FaultDisk

NOW_MS = 1_700_000_000_000
PATH = "/data/groups"
PLACE = ("q", 0)
MAIN = GroupKey(*PLACE, "kestrel")
CHILD = GroupKey(*PLACE, "kestrel+a")


class Bench:
    def __init__(self, disk: FaultDisk) -> None:
        self.disk = disk
        self.reactor = untyped(HandReactor())
        self.offsets = GroupOffsets(disk, PATH, self.reactor, lambda: NOW_MS)
        self.groups = QueueGroups(self.offsets)

    def begin(self, key: GroupKey, frontier: int) -> None:
        self.reactor.result(self.groups.begin(key, frontier))

    def load(self, key: GroupKey) -> Any:
        return self.reactor.result(self.groups.load(key, NOW_MS))

    def record(self, *turn: tuple[GroupKey, list[Event]]) -> Any:
        return self.reactor.result(self.groups.record(turn))

    def end(self, key: GroupKey) -> None:
        self.reactor.result(self.groups.end(key))

    def lowest(self) -> Any:
        return self.reactor.result(self.groups.lowest_frontier(PLACE))


@contextmanager
def opened(disk: FaultDisk) -> Iterator[Bench]:
    bench = Bench(disk)
    try:
        yield bench
    finally:
        bench.offsets.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    with opened(FaultDisk()) as bench:
        yield bench


def opens(*offsets: int) -> list[Event]:
    return [MarkInflight(offset, NO_DEADLINE_MS, 1) for offset in offsets]


def test_a_group_begins_where_it_is_told_to(bench: Bench) -> None:
    bench.begin(MAIN, 7)
    assert bench.groups.of(PLACE) == ["kestrel"]
    frontier, acked, deliveries, _ = bench.load(MAIN)
    assert (frontier, list(acked), deliveries) == (7, [], {})


def test_a_group_that_begins_at_the_start_exists_too(bench: Bench) -> None:
    bench.begin(MAIN, 0)
    with opened(bench.disk.crash(Fate.DROP, Random(1))) as after:
        assert after.groups.of(PLACE) == ["kestrel"]
        assert after.load(MAIN).frontier == 0


@pytest.mark.parametrize("fate", list(Fate))
def test_a_group_that_has_begun_survives_a_power_cut(bench: Bench, fate: Fate) -> None:
    bench.begin(CHILD, 7)
    with opened(bench.disk.crash(fate, Random(1))) as after:
        assert after.groups.of(PLACE) == ["kestrel+a"]
        assert after.load(CHILD).frontier == 7


def test_what_was_open_is_given_back_and_counts(bench: Bench) -> None:
    bench.begin(MAIN, 0)
    bench.record((MAIN, [*opens(0, 1, 2, 3), Ack(1), Release(2, 1), MarkInflight(2, 5000, 2), Release(3, 1)]))
    frontier, acked, deliveries, _ = bench.load(MAIN)
    assert (frontier, list(acked)) == (0, [(1, 2)])
    assert deliveries == {0: 1, 2: 2, 3: 1}
    assert bench.offsets.store.state(MAIN).inflight == {}


def test_what_an_import_has_left_open_stays_so_until_its_time(bench: Bench) -> None:
    """Its epoch is 0: it was never handed out here."""
    bench.begin(MAIN, 0)
    bench.record(
        (
            MAIN,
            [
                MarkInflight(0, NOW_MS + 1, 0),
                MarkInflight(1, NOW_MS, 0),
                MarkInflight(2, NOW_MS + 1, 1),
            ],
        )
    )
    held = bench.load(MAIN)
    assert (held.lent, held.deliveries) == ({0: NOW_MS + 1}, {1: 0, 2: 1})
    assert set(bench.offsets.store.state(MAIN).inflight) == {0}


def test_what_is_loaded_is_not_what_changes(bench: Bench) -> None:
    bench.begin(MAIN, 0)
    held = bench.load(MAIN)
    bench.record((MAIN, [Ack(5), *opens(7), Release(7, 1)]))
    assert (list(held.acked), held.deliveries) == ([], {})


def test_a_turn_is_recorded_in_its_order(bench: Bench) -> None:
    bench.begin(MAIN, 0)
    bench.begin(CHILD, 0)
    first = bench.groups.record([(MAIN, opens(0)), (CHILD, opens(0))])
    second = bench.groups.record([(MAIN, [Release(0, 1)]), (CHILD, [BumpAckedUntil(1)])])
    assert bench.reactor.result(second) == {}
    assert first.called
    assert bench.load(MAIN).deliveries == {0: 1}
    assert bench.load(CHILD).frontier == 1


def test_groups_that_ended_are_gone_after_a_power_cut(bench: Bench) -> None:
    bench.begin(MAIN, 3)
    bench.begin(CHILD, 3)
    bench.end(MAIN)
    assert bench.groups.of(PLACE) == ["kestrel+a"]
    with opened(bench.disk.crash(Fate.DROP, Random(1))) as after:
        assert after.groups.of(PLACE) == ["kestrel+a"]


def test_a_group_that_ended_begins_anew(bench: Bench) -> None:
    bench.begin(MAIN, 3)
    bench.record((MAIN, [Ack(9), *opens(5)]))
    bench.end(MAIN)
    bench.begin(MAIN, 1)
    frontier, acked, deliveries, _ = bench.load(MAIN)
    assert (frontier, list(acked), deliveries) == (1, [], {})


def test_the_lowest_frontier_is_of_all_groups_kafkas_too(bench: Bench) -> None:
    assert bench.lowest() is None
    bench.begin(MAIN, 10)
    bench.begin(CHILD, 20)
    assert bench.lowest() == 10
    bench.record((MAIN, [BumpAckedUntil(30)]))
    assert bench.lowest() == 20
    bench.reactor.result(bench.offsets.commit("kafka", [Position(PLACE, 4, None, None)]))
    assert bench.lowest() == 4


# --- errors ---------------------------------------------------------------------------------------------


def test_a_write_that_fails_is_its_groups_alone(bench: Bench) -> None:
    bench.begin(MAIN, 0)
    bench.begin(CHILD, 0)
    bench.disk.fail("write", errno.ENOSPC, path_contains="_kestrel%2Ba")
    errors = bench.record((MAIN, [BumpAckedUntil(5)]), (CHILD, [BumpAckedUntil(5)]))
    assert list(errors) == [CHILD]
    assert isinstance(errors[CHILD], DiskError)
    assert (bench.load(MAIN).frontier, bench.load(CHILD).frontier) == (5, 0)
    assert bench.record((CHILD, [BumpAckedUntil(6)])) == {}


def test_a_damaged_group_is_refused_and_the_others_go_on(bench: Bench) -> None:
    bench.begin(MAIN, 0)
    bench.begin(CHILD, 0)
    bench.record((CHILD, [BumpAckedUntil(5)]))
    damaged = bench.disk.crash(Fate.KEEP, Random(1))
    (path,) = [path for path in damaged.files() if "_kestrel%2Ba.delta" in path]
    damaged.put(path, b"\xff" * 100)
    with opened(damaged) as after:
        with pytest.raises(CorruptGroup):
            after.load(CHILD)
        assert list(after.record((CHILD, [BumpAckedUntil(6)]), (MAIN, [BumpAckedUntil(6)]))) == [CHILD]
        assert after.load(MAIN).frontier == 6


@pytest.mark.parametrize("operation", ["write", "fdatasync", "fsync"])
def test_a_group_that_is_not_durable_has_not_begun(bench: Bench, operation: Any) -> None:
    bench.disk.fail(operation, errno.EIO)
    with pytest.raises(BarbicelError):
        bench.begin(MAIN, 7)
    bench.begin(MAIN, 9)
    with opened(bench.disk.crash(Fate.DROP, Random(1))) as after:
        assert after.load(MAIN).frontier == 9


def test_a_load_that_cannot_be_written_fails(bench: Bench) -> None:
    bench.begin(MAIN, 0)
    bench.record((MAIN, opens(0)))
    bench.disk.fail("write", errno.ENOSPC, path_contains="_kestrel")
    with pytest.raises(DiskError):
        bench.load(MAIN)
    assert bench.load(MAIN).deliveries == {0: 1}


def test_an_end_that_fails_is_told(bench: Bench) -> None:
    bench.begin(MAIN, 3)
    bench.disk.fail("unlink", errno.EIO)
    with pytest.raises(DiskError):
        bench.end(MAIN)
    assert bench.groups.of(PLACE) == ["kestrel"]
    bench.end(MAIN)
    assert bench.groups.of(PLACE) == []


def test_everything_fails_when_the_store_is_closed(bench: Bench) -> None:
    bench.offsets.close()
    for asked in (
        bench.groups.begin(MAIN, 0),
        bench.groups.load(MAIN, NOW_MS),
        bench.groups.record([(MAIN, [Ack(1)])]),
        bench.groups.end(MAIN),
        bench.groups.lowest_frontier(PLACE),
    ):
        with pytest.raises(LogClosed):
            bench.reactor.result(asked)
