"""Committed offsets: what was answered is there after a crash, in the order in which it was asked for."""

from __future__ import annotations

import errno
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, cast

import pytest
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from barbicel.errors import BarbicelError, DiskError, LogClosed
from barbicel.gateway.broker.consumption import (
    DELETED_IN_A_TURN,
    MAX_NAMED,
    Committed,
    GroupOffsets,
    Position,
)
from barbicel.gateway.twisted_types import Reactor
from barbicel.stroma import GroupKey
from tests.support.fault_disk import Call, Fate, FaultDisk

NOW_MS = 1_700_000_000_000
DEADLINE_S = 20.0
GROUPS = "/data/groups"


class Turns:
    """A reactor that does what threads hand over when the test waits for it."""

    def __init__(self) -> None:
        self._handed_over: queue.SimpleQueue[tuple[Callable[..., Any], tuple[Any, ...]]] = queue.SimpleQueue()
        self.count = 0

    def callFromThread(self, function: Callable[..., Any], *arguments: Any) -> None:  # noqa: N802  # Twisted's name
        self._handed_over.put((function, arguments))

    def wait(self, answer: Deferred[Any]) -> Any:
        results: list[Any] = []
        answer.addBoth(results.append)
        while not results:
            function, arguments = self._handed_over.get(timeout=DEADLINE_S)
            function(*arguments)
            self.count += 1
        if isinstance(results[0], Failure):
            results[0].raiseException()
        return results[0]


class Bench:
    """Offsets on a disk, and whoever waits for their answers."""

    def __init__(self, disk: FaultDisk) -> None:
        self.disk = disk
        self.turns = Turns()
        self.offsets = GroupOffsets(disk, GROUPS, cast(Reactor, self.turns), lambda: NOW_MS)

    def commit(self, group: str, *positions: Position) -> Any:
        return self.turns.wait(self.offsets.commit(group, positions))

    def fetch(self, group: str, places: list[tuple[str, int]] | None = None) -> Any:
        return self.turns.wait(self.offsets.fetch(group, places))

    def delete(self, group: str, places: list[tuple[str, int]] | None = None) -> Any:
        return self.turns.wait(self.offsets.delete(group, places))

    @contextmanager
    def one_turn(self) -> Iterator[None]:
        """What is asked for inside is done in one turn: the thread is busy until then."""
        entered, release = threading.Event(), threading.Event()

        def hold(call: Call) -> None:
            if "held" in call.path and call.operation == "write":
                entered.set()
                assert release.wait(DEADLINE_S)

        self.disk.observer = hold
        held = self.offsets.commit("held", [at("held", 0, 1)])
        assert entered.wait(DEADLINE_S)
        self.disk.observer = None
        try:
            yield
        finally:
            release.set()
        self.turns.wait(held)


def at(
    topic: str, partition: int, offset: int, *, epoch: int | None = None, metadata: str | None = None
) -> Position:
    return Position((topic, partition), offset, epoch, metadata)


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench(FaultDisk())
    yield bench
    bench.offsets.close()


@contextmanager
def reopened(disk: FaultDisk) -> Iterator[Bench]:
    bench = Bench(disk)
    try:
        yield bench
    finally:
        bench.offsets.close()


# --- committing and fetching ------------------------------------------------------------------------


def test_what_was_committed_comes_back(bench: Bench) -> None:
    outcomes = bench.commit("g", at("t", 0, 5, epoch=3, metadata="m-ü"), at("t", 1, 7, metadata=""))
    assert outcomes == {("t", 0): None, ("t", 1): None}
    assert bench.fetch("g") == {("t", 0): Committed(5, 3, "m-ü"), ("t", 1): Committed(7, -1, "")}
    assert bench.fetch("g", [("t", 1), ("t", 2), ("u", 0)]) == {("t", 1): Committed(7, -1, "")}
    assert bench.fetch("nobody") == {}


def test_a_position_can_go_back(bench: Bench) -> None:
    bench.commit("g", at("t", 0, 9, metadata="far"))
    bench.commit("g", at("t", 0, 2))
    assert bench.fetch("g") == {("t", 0): Committed(2, -1, None)}


def test_the_last_of_two_positions_counts(bench: Bench) -> None:
    bench.commit("g", at("t", 0, 9), at("t", 0, 2))
    assert bench.fetch("g") == {("t", 0): Committed(2, -1, None)}


def test_groups_and_their_places(bench: Bench) -> None:
    bench.commit("b", at("t", 1, 1), at("t", 0, 1))
    bench.commit("a", at("u", 0, 1))
    assert bench.offsets.groups() == ["a", "b"]
    assert bench.offsets.places("b") == [("t", 0), ("t", 1)]
    assert bench.offsets.places("nobody") == []


def test_what_the_files_cannot_hold_is_an_outcome(bench: Bench) -> None:
    outcomes = bench.commit("g", at("t", 0, -1), at("t", 1, 1), at("t", 2, 1, metadata="\ud800"))
    assert isinstance(outcomes["t", 0], BarbicelError)
    assert isinstance(outcomes["t", 2], BarbicelError)
    assert outcomes["t", 1] is None
    assert bench.offsets.places("g") == [("t", 1)]


def test_an_answered_commit_survives_kill_9(bench: Bench) -> None:
    bench.commit("g", at("t", 0, 5, epoch=0, metadata="m"))
    with reopened(bench.disk.crash(Fate.KEEP, Random(1))) as after:
        assert after.offsets.groups() == ["g"]
        assert after.fetch("g") == {("t", 0): Committed(5, 0, "m")}


def test_a_closed_one_loses_nothing_in_a_power_cut() -> None:
    bench = Bench(FaultDisk())
    bench.commit("g", at("t", 0, 5))
    bench.offsets.close()
    with reopened(bench.disk.crash(Fate.DROP, Random(1))) as after:
        assert after.fetch("g") == {("t", 0): Committed(5, -1, None)}


# --- turns ------------------------------------------------------------------------------------------


def test_what_arrives_during_a_write_is_one_turn(bench: Bench) -> None:
    with bench.one_turn():
        answers = [bench.offsets.commit(f"g{number}", [at("t", 0, number)]) for number in range(50)]
        last = bench.offsets.fetch("g49", None)
    before = bench.turns.count
    assert bench.turns.wait(last) == {("t", 0): Committed(49, -1, None)}
    assert bench.turns.count == before + 1
    assert all(answer.called for answer in answers)


def test_a_write_that_fails_is_told_to_all_who_have_seen_it(bench: Bench) -> None:
    bench.commit("g", at("t", 0, 1))
    bench.disk.fail("write", errno.EIO, path_contains="t-0_g.delta")
    with bench.one_turn():
        committed = bench.offsets.commit("g", [at("t", 0, 5), at("t", 1, 5)])
        seen = bench.offsets.fetch("g", None)
        others = bench.offsets.commit("other", [at("t", 0, 5)])
    outcomes = bench.turns.wait(committed)
    assert isinstance(outcomes["t", 0], DiskError)
    assert outcomes["t", 1] is None
    assert isinstance(bench.turns.wait(seen)["t", 0], DiskError)
    assert bench.turns.wait(others) == {("t", 0): None}
    assert bench.fetch("g") == {("t", 0): Committed(1, -1, None), ("t", 1): Committed(5, -1, None)}


def test_no_fault_ends_the_thread(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Any:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(bench.offsets.store, "commit", broken)
        with pytest.raises(ZeroDivisionError):
            bench.commit("g", at("t", 0, 1))
        with pytest.raises(ZeroDivisionError):
            bench.offsets.topic_deleted("t")
    assert bench.commit("g", at("t", 0, 2)) == {("t", 0): None}


# --- deleting ---------------------------------------------------------------------------------------


def test_deleting_some_and_all(bench: Bench) -> None:
    bench.commit("g", at("t", 0, 1), at("t", 1, 1), at("u", 0, 1))
    assert bench.delete("g", [("t", 1), ("t", 9)]) == {("t", 1): None}
    assert bench.offsets.places("g") == [("t", 0), ("u", 0)]
    with reopened(bench.disk.crash(Fate.DROP, Random(1))) as after:
        assert ("t", 1) not in after.fetch("g")
    assert bench.delete("g") == {("t", 0): None, ("u", 0): None}
    assert bench.offsets.groups() == []
    assert bench.fetch("g") == {}
    with reopened(bench.disk.crash(Fate.DROP, Random(1))) as after:
        assert after.offsets.groups() == []


def test_a_deletion_that_fails_is_an_outcome_and_can_be_repeated(bench: Bench) -> None:
    bench.commit("g", at("t", 0, 1), at("t", 1, 1))
    bench.disk.fail("unlink", errno.EIO, path_contains="t-0_g")
    outcomes = bench.delete("g")
    assert isinstance(outcomes["t", 0], DiskError)
    assert outcomes["t", 1] is None
    assert bench.offsets.places("g") == [("t", 0)]
    assert bench.delete("g") == {("t", 0): None}


def test_others_commit_while_a_group_of_many_positions_is_deleted(bench: Bench) -> None:
    many = [at("t", number, 1) for number in range(3 * DELETED_IN_A_TURN)]
    bench.commit("g", *many)
    deleting = bench.offsets.delete("g")
    bench.turns.wait(bench.offsets.commit("other", [at("t", 0, 7)]))
    assert not deleting.called
    assert bench.turns.wait(deleting) == {position.place: None for position in many}
    assert bench.offsets.groups() == ["other"]


def test_what_is_asked_of_a_group_that_is_being_deleted_is_done_after_it(bench: Bench) -> None:
    many = [at("t", number, 1) for number in range(2 * DELETED_IN_A_TURN)]
    bench.commit("g", *many)
    deleting = bench.offsets.delete("g")
    first = bench.offsets.commit("g", [at("t", 0, 7), many[-1]])
    found = bench.offsets.fetch("g", None)
    again, last = bench.offsets.delete("g"), bench.offsets.commit("g", [at("t", 3, 9)])
    assert len(bench.turns.wait(deleting)) == len(many)
    assert bench.turns.wait(first) == {("t", 0): None, many[-1].place: None}
    assert bench.turns.wait(found) == {
        ("t", 0): Committed(7, -1, None),
        many[-1].place: Committed(1, -1, None),
    }
    assert len(bench.turns.wait(again)) == 2
    bench.turns.wait(last)
    assert bench.fetch("g") == {("t", 3): Committed(9, -1, None)}


def test_a_topic_that_goes_meanwhile_does_not_spoil_a_groups_deletion(bench: Bench) -> None:
    many = [at("t", number, 1) for number in range(3 * DELETED_IN_A_TURN)]
    bench.commit("g", *many)
    deleting = bench.offsets.delete("g")
    thread = threading.Thread(target=bench.offsets.topic_deleted, args=("t",))
    thread.start()
    assert set(bench.turns.wait(deleting).values()) == {None}
    thread.join()
    assert bench.offsets.groups() == []


def test_a_deleted_topic_takes_the_commits_with_it_that_are_on_their_way(bench: Bench) -> None:
    bench.commit("g", at("t", 0, 1), at("kept", 0, 1))
    with bench.one_turn():
        late = bench.offsets.commit("late", [at("t", 1, 5)])
        deletion = threading.Thread(target=bench.offsets.topic_deleted, args=("t",))
        deletion.start()
    deletion.join(DEADLINE_S)
    bench.turns.wait(late)
    assert not deletion.is_alive()
    assert bench.offsets.places("g") == [("kept", 0)]
    assert bench.offsets.places("late") == []
    with reopened(bench.disk.crash(Fate.KEEP, Random(1))) as after:
        assert after.offsets.groups() == ["g", "held"]


def test_others_commit_while_a_topic_of_many_groups_is_deleted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3 * DELETED_IN_A_TURN):
        bench.commit(f"g{number}", at("t", 0, 1))
    delete, deleted = bench.offsets.store.delete_all, 0
    commits: list[Deferred[Any]] = []
    deleted_before_it: list[int] = []

    def delete_some(keys: Sequence[GroupKey]) -> Any:
        nonlocal deleted
        if not deleted:
            commits.append(bench.offsets.commit("other", [at("u", 0, 7)]))
        deleted += len(keys)
        return delete(keys)

    def record(key: GroupKey, events: Any) -> Any:
        deleted_before_it.append(deleted)
        return original_record(key, events)

    original_record = bench.offsets.store.record
    monkeypatch.setattr(bench.offsets.store, "delete_all", delete_some)
    monkeypatch.setattr(bench.offsets.store, "record", record)
    bench.offsets.topic_deleted("t")
    assert bench.turns.wait(commits[0]) == {("u", 0): None}
    assert deleted_before_it == [DELETED_IN_A_TURN]
    assert bench.offsets.groups() == ["other"]


def test_deleting_a_topic_looks_at_no_group_without_a_position_in_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(50):
        bench.commit(f"g{number}", at("kept", 0, 1))
    bench.commit("g7", at("t", 0, 1), at("t", 1, 1))
    monkeypatch.setattr(bench.offsets, "places", None)
    monkeypatch.setattr(bench.offsets, "groups", None)
    bench.offsets.topic_deleted("t")
    monkeypatch.undo()
    assert bench.offsets.places("g7") == [("kept", 0)]
    assert len(bench.offsets.groups()) == 50


def test_deleting_a_topic_tells_its_first_error_after_the_rest(bench: Bench) -> None:
    for group in ("a", "b", "c"):
        bench.commit(group, at("t", 0, 1))
    bench.disk.fail("unlink", errno.EIO, path_contains="t-0_b")
    with pytest.raises(DiskError):
        bench.offsets.topic_deleted("t")
    assert bench.offsets.groups() == ["b"]
    bench.offsets.topic_deleted("t")
    assert bench.offsets.groups() == []


def test_places_are_those_of_the_files_whatever_happens_at_once(bench: Bench) -> None:
    def delete_again_and_again() -> None:
        for _ in range(30):
            bench.offsets.topic_deleted("t")

    deletions = threading.Thread(target=delete_again_and_again)
    deletions.start()
    answers = []
    for number in range(300):
        answers.append(bench.offsets.commit(f"g{number % 7}", [at("t", number % 3, number), at("u", 0, 1)]))
        assert bench.offsets.groups() == sorted(set(bench.offsets.groups()))
    deletions.join(DEADLINE_S)
    for answer in answers:
        bench.turns.wait(answer)
    bench.offsets.topic_deleted("absent")
    known = {
        GroupKey(*place, group) for group in bench.offsets.groups() for place in bench.offsets.places(group)
    }
    assert known == set(bench.offsets.store.groups())


# --- opening and closing ----------------------------------------------------------------------------


def test_a_log_that_lost_its_end_sets_groups_back(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.commit("ahead", at("t", 0, 9, metadata="m"))
    bench.commit("behind", at("t", 0, 3))
    bench.offsets.log_opened("t", 0, 5)
    assert bench.fetch("ahead")["t", 0].offset == 5
    assert bench.fetch("behind")["t", 0].offset == 3
    bench.offsets.tell_set_back()
    bench.offsets.tell_set_back()
    assert [record.getMessage() for record in caplog.records] == [
        "group ahead had consumed beyond the end of t-0, and was set back"
    ]


def test_many_groups_that_are_set_back_in_many_logs_are_a_few_lines(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    groups = [f"g{number:02}" for number in range(MAX_NAMED + 2)]
    for group in groups:
        bench.commit(group, *[at("t", number, 9) for number in range(3)])
    for number in range(3):
        bench.offsets.log_opened("t", number, 5)
    bench.offsets.tell_set_back()
    told = [record.getMessage() for record in caplog.records]
    assert (
        told[0] == "group g00 had consumed beyond the end of t-0 and of 2 more partitions, and was set back"
    )
    assert told[MAX_NAMED:] == ["2 more groups had consumed beyond the ends of logs, and were set back"]


def test_closing_finishes_what_was_asked_for_and_takes_nothing_more() -> None:
    bench = Bench(FaultDisk())
    answers = [bench.offsets.commit("g", [at("t", number, 1)]) for number in range(20)]
    bench.offsets.close()
    for number, answer in enumerate(answers):
        assert bench.turns.wait(answer) == {("t", number): None}
    with pytest.raises(LogClosed):
        bench.commit("g", at("t", 0, 1))
    with pytest.raises(LogClosed):
        bench.offsets.topic_deleted("t")
