"""Queues come and go while they are used: everybody is answered once, and no queue is left half alive."""

from __future__ import annotations

import errno
import queue
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barbicel.errors import BarbicelError, CorruptGroup
from barbicel.gateway.kestrel.session import Session
from tests.gateway.kafka.in_memory import batch
from tests.gateway.kestrel.in_memory_queues import Asked, InMemoryQueues, in_memory_queues
from tests.support.fault_disk import Fate, FaultDisk

DATA = Path("/data")
SMALL = {"default_journal_size_bytes": 1 << 20}


def opened(disk: FaultDisk) -> Any:
    return in_memory_queues(DATA, disk, background_threads=1)


@pytest.fixture
def disk() -> FaultDisk:
    return FaultDisk()


@pytest.fixture
def queues(disk: FaultDisk) -> Iterator[InMemoryQueues]:
    with opened(disk) as queues:
        queues.rules(SMALL)
        yield queues


# --- many at once ---------------------------------------------------------------------------------------


def test_thousands_may_wait_for_a_queue_that_is_being_opened(queues: InMemoryQueues) -> None:
    asked = [queues.ask("q", session=Session()) for _ in range(3000)]
    waiting = [queues.ask("q", timeout_ms=1000, session=Session()) for _ in range(3000)]
    queues.reactor.until(lambda: all(one.answers for one in asked))
    queues.quiesce()
    assert {tuple(one.answers) for one in asked} == {(None,)}
    queues.advance(1000)
    assert {tuple(one.answers) for one in waiting} == {(None,)}
    assert not queues.queues._opening._steps


def test_all_of_many_queues_are_flushed(queues: InMemoryQueues) -> None:
    for number in range(300):
        queues.put(f"q{number}", b"x", expiry_ms=queues.now_ms - 1000 if number % 2 else None)
    told: list[Any] = []
    queues.queues.flush_all_expired(told.append)
    queues.reactor.until(lambda: told)
    queues.queues.flush_all(told.append)
    queues.reactor.until(lambda: len(told) == 2)
    assert told == [150, None]
    assert {queues.stats(name).items for name in queues.queues.names()} == {0}


def test_whoever_is_answered_may_ask_at_once(queues: InMemoryQueues) -> None:
    """As a connection does that has the next request already."""
    queues.put("q", b"old")
    told: list[Any] = []

    def put(error: Exception | None) -> None:
        told.append(error)
        queues.queues.put("q", b"new", 0, None, flush)

    def flush(is_stored: bool | Exception) -> None:
        told.append(is_stored)
        queues.queues.flush("q", delete)

    def delete(error: Exception | None) -> None:
        told.append(error)
        queues.queues.delete("q", told.append)

    queues.queues.delete("q", put)
    queues.reactor.until(lambda: len(told) == 4)
    assert told == [None, True, None, None]
    assert queues.queues.names() == []
    assert not queues.queues._opening._steps


def test_one_who_stops_waiting_while_the_queue_is_opened_is_not_answered(queues: InMemoryQueues) -> None:
    gone, there = queues.ask("q", timeout_ms=1000), queues.ask("q", timeout_ms=1000)
    assert gone.waiting is not None
    gone.waiting.cancel()
    queues.put("q", b"a")
    queues.reactor.until(lambda: there.answers)
    assert (gone.answers, there.data) == ([], b"a")


# --- topics that Kafka deletes in the middle ---------------------------------------------------------------


def test_a_topic_may_go_while_a_child_begins(queues: InMemoryQueues) -> None:
    queues.put("q", b"old")
    asked = queues.ask("q+a")
    queues.reactor.result(queues.broker.topics.delete("q"))
    queues.reactor.until(lambda: asked.answers)
    assert asked.data is None
    assert queues.put("q", b"new")
    assert queues.get_all("q") == [b"new"]
    assert queues.get_all("q+a") == [b"new"]


def test_a_topic_may_go_while_its_queue_is_loaded(disk: FaultDisk) -> None:
    with opened(disk) as queues:
        queues.rules(SMALL)
        queues.get("q+a")
        queues.put("q", b"old")
    with opened(disk) as queues:
        asked = queues.ask("q", timeout_ms=1000)
        queues.reactor.result(queues.broker.topics.delete("q"))
        queues.put("q", b"new")
        queues.reactor.until(lambda: asked.answers)
        assert asked.data == b"new"


def test_a_topic_may_go_while_its_queue_is_deleted(queues: InMemoryQueues) -> None:
    queues.put("q", b"old")
    told: list[Any] = []
    queues.queues.delete("q", told.append)
    queues.reactor.result(queues.broker.topics.delete("q"))
    queues.reactor.until(lambda: told)
    assert told == [None]
    assert queues.put("q", b"new")
    assert queues.get_all("q") == [b"new"]


def test_kafka_may_make_the_topic_at_the_same_time(queues: InMemoryQueues) -> None:
    made = queues.broker.topics.create("q", 1, {})
    asked = queues.ask("q")
    queues.reactor.result(made)
    queues.produce("q", batch(b"a"))
    queues.reactor.until(lambda: asked.answers)
    assert queues.put("q", b"b")
    assert queues.get_all("q")[-1] == b"b"


def test_what_was_read_of_a_topic_that_is_gone_is_not_read_of_the_next(disk: FaultDisk) -> None:
    """The acks of the old one that are still on their way would hide the new one's first items."""
    with opened(disk) as queues:
        queues.rules(SMALL)
        for number in range(5):
            queues.put("q", b"old %d" % number)
        asked = [queues.ask("q", session=Session()) for _ in range(4)]
        queues.reactor.result(queues.broker.topics.delete("q"))
        queues.reactor.until(lambda: all(one.answers for one in asked))
        for number in range(3):
            queues.put("q", b"new %d" % number)
    with opened(disk) as queues:
        assert queues.get_all("q") == [b"new 0", b"new 1", b"new 2"]


# --- deleting -------------------------------------------------------------------------------------------


def test_a_queue_that_was_deleted_while_it_was_read_does_not_come_back(disk: FaultDisk) -> None:
    with opened(disk) as queues:
        queues.rules(SMALL)
        queues.get("q+a")
        for number in range(5):
            queues.put("q", b"%d" % number)
        told: list[Any] = []
        asked = [queues.ask("q", session=Session()) for _ in range(3)]
        queues.queues.delete("q", told.append)
        queues.reactor.until(lambda: told and all(one.answers for one in asked))
        assert [one.data for one in asked] == [b"0", b"1", b"2"]
        assert queues.queues.names() == ["q+a"]
    with opened(disk) as queues:
        assert queues.queues.names() == ["q+a"]
        assert queues.get("q") is None


def test_whoever_waits_at_a_deleted_queue_is_sent_away(queues: InMemoryQueues) -> None:
    queues.get("q")
    asked = queues.ask("q", timeout_ms=1000)
    queues.delete("q")
    assert asked.data is None
    queues.advance(1000)
    assert len(asked.answers) == 1


def test_open_reads_of_a_deleted_queue_are_nobodys(queues: InMemoryQueues) -> None:
    queues.put("q", b"a")
    queues.get("q", is_open=True)
    queues.delete("q")
    queues.put("q", b"b")
    assert queues.session.open_count("q") == 0
    assert queues.close("q") == 0
    assert queues.get("q", is_open=True) == b"b"
    assert queues.session.open_count("q") == 1
    queues.disconnect()
    assert queues.get_all("q") == [b"b"]


def test_a_deletion_that_fails_is_told_and_can_be_tried_again(
    disk: FaultDisk, queues: InMemoryQueues
) -> None:
    queues.put("q", b"a")
    disk.fail("unlink", errno.EIO, path_contains="q-0_kestrel")
    with pytest.raises(BarbicelError):
        queues.delete("q")
    queues.delete("q")
    assert queues.get("q") is None


# --- what cannot be opened --------------------------------------------------------------------------------


def test_a_queue_that_cannot_be_made_is_told_and_can_be_tried_again(
    disk: FaultDisk, queues: InMemoryQueues
) -> None:
    disk.fail("create", errno.ENOSPC, times=1)
    with pytest.raises(BarbicelError):
        queues.put("q", b"a")
    assert queues.put("q", b"b")
    assert queues.get_all("q") == [b"b"]


def test_a_child_that_is_not_durable_is_not_made(disk: FaultDisk, queues: InMemoryQueues) -> None:
    queues.put("q", b"before")
    disk.fail("write", errno.ENOSPC, path_contains="kestrel%2Ba")
    with pytest.raises(BarbicelError):
        queues.get("q+a")
    queues.put("q", b"between")
    assert queues.get("q+a") is None
    queues.put("q", b"after")
    assert queues.get_all("q+a") == [b"after"]
    assert queues.get_all("q") == [b"before", b"between", b"after"]


def test_a_damaged_group_is_told_to_whoever_asks(disk: FaultDisk) -> None:
    with opened(disk) as queues:
        queues.rules(SMALL)
        queues.put("q", b"a")
        queues.put("other", b"b")
    damaged = disk.crash(Fate.KEEP, Random(0))
    (path,) = [path for path in damaged.files() if "/q-0_kestrel.delta" in path]
    damaged.put(path, b"\xff" * 200)
    with opened(damaged) as queues:
        for _ in range(2):
            with pytest.raises(CorruptGroup):
                queues.get("q")
            with pytest.raises(CorruptGroup):
                queues.put("q", b"c")
        assert queues.get_all("other") == [b"b"]


# --- at random ------------------------------------------------------------------------------------------

ACTIONS = st.sampled_from(
    [
        "put",
        "put",
        "get",
        "open",
        "wait",
        "peek",
        "flush",
        "flush_expired",
        "delete",
        "end",
        "cancel",
        "vanish",
    ]
)
STEPS = st.lists(
    st.tuples(ACTIONS, st.sampled_from(["q", "q+a"]), st.sampled_from([0, 0, 1, 3])), min_size=2, max_size=25
)


class Burst:
    """Requests of many connections that do not wait for each other."""

    def __init__(self, queues: InMemoryQueues) -> None:
        self.queues = queues
        self.told: list[list[Any]] = []
        self.waiting: list[Asked] = []
        self.sessions: list[Session] = []

    def act(self, action: str, name: str) -> None:
        engine, answers = self.queues.queues, list[Any]()
        if action == "put":
            engine.put(name, b"x", 0, None, answers.append)
        elif action in ("get", "open", "wait", "peek"):
            self._ask(action, name)
            return
        elif action == "end" and self.sessions:
            engine.end(self.sessions.pop())
            engine.settled(answers.append)
        elif action == "cancel":
            self._cancel()
            return
        elif action == "vanish" and self.queues.broker.topics.by_name("q") is not None:
            self.queues.broker.topics.delete("q").addBoth(answers.append)
        elif action in ("flush", "flush_expired", "delete"):
            getattr(engine, action)(name, answers.append)
        else:
            return
        self.told.append(answers)

    def _ask(self, action: str, name: str) -> None:
        self.sessions.append(Session())
        asked = self.queues.ask(
            name,
            is_open=action == "open",
            is_peek=action == "peek",
            timeout_ms=1000 if action == "wait" else None,
            session=self.sessions[-1],
        )
        self.told.append(asked.answers)
        self.waiting.append(asked)

    def _cancel(self) -> None:
        """One that is given an item already cannot be sent back."""
        for asked in self.waiting:
            if asked.waiting is not None and not asked.answers:
                asked.waiting.cancel()
                self.told = [answers for answers in self.told if answers is not asked.answers]
        self.waiting.clear()

    def pump(self, calls: int) -> None:
        """Let so many hand-overs of threads happen."""
        self.queues.reactor.advance(0)
        for _ in range(calls):
            try:
                function, arguments = self.queues.reactor._calls.get(timeout=0.02)
            except queue.Empty:
                return
            function(*arguments)
            self.queues.reactor.advance(0)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_everybody_is_answered_once_whatever_comes_at_once(steps: list[tuple[str, str, int]]) -> None:
    disk = FaultDisk()
    with opened(disk) as queues:
        queues.rules(SMALL)
        burst = Burst(queues)
        for action, name, calls in steps:
            burst.act(action, name)
            burst.pump(calls)
        queues.quiesce()
        queues.advance(1000)
        queues.reactor.until(lambda: all(burst.told))
        queues.quiesce()
        assert all(len(answers) == 1 for answers in burst.told)
        assert not queues.queues._opening._steps
        for name in ("q", "q+a"):  # and they go on
            assert queues.put(name, b"last")
            assert queues.get_all(name)[-1] == b"last"
        names = queues.queues.names()
    with opened(disk) as queues:
        assert queues.queues.names() == names
        # What was open comes back; everything else was read.
        assert set(queues.get_all("q")) | set(queues.get_all("q+a")) <= {b"x"}
