"""The events of a turn: written once, answered in order, and with an error to those whom it concerns."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from barbicel.codecs.stroma_events import BumpAckedUntil, Event
from barbicel.errors import BarbicelError
from barbicel.gateway.broker.consumption import Errors
from barbicel.gateway.broker.queue_groups import QueueGroups, Turn
from barbicel.gateway.kestrel.turns import Turns
from barbicel.stroma import GroupKey
from tests.gateway.kafka.in_memory import untyped


class Groups:
    """Writes when the test says so."""

    def __init__(self) -> None:
        self.turns: list[list[tuple[str, list[Event]]]] = []
        self._answers: list[Deferred[Errors]] = []

    def record(self, turn: Turn) -> Deferred[Errors]:
        self.turns.append([(key.topic, list(events)) for key, events in turn])
        self._answers.append(Deferred())
        return self._answers[-1]

    def write(self, **errors: BarbicelError) -> None:
        """The oldest turn; `errors` are by topic."""
        self._answers.pop(0).callback({key_of(topic): error for topic, error in errors.items()})

    def break_down(self, error: Exception) -> None:
        self._answers.pop(0).errback(error)


def key_of(topic: str) -> GroupKey:
    return GroupKey(topic, 0, "kestrel")


class Source:
    def __init__(self, topic: str) -> None:
        self.key = key_of(topic)
        self.acked = 0
        self._told = 0
        self.failures: list[BarbicelError] = []
        self.error: BarbicelError | None = None

    def take_events(self) -> list[Event]:
        if self.error is not None:
            raise self.error
        if self._told == self.acked:
            return []
        self._told = self.acked
        return [BumpAckedUntil(self.acked)]

    def fail(self, error: BarbicelError) -> None:
        """As a line that fails: what it still had to tell is lost with the rest."""
        self.failures.append(error)
        self.error = error


class Bench:
    def __init__(self) -> None:
        self.clock = untyped(Clock())
        self.groups = Groups()
        self.turns = Turns(cast(QueueGroups, self.groups), self.clock)
        self.told: list[Any] = []
        self.a, self.b = Source("a"), Source("b")

    def take(self, source: Source, value: str) -> None:
        source.acked += 1
        self.turns.answer(source, self.told.append, value)

    def close(self, source: Source) -> None:
        source.acked += 1
        self.turns.touch(source)

    def settled(self, name: str) -> None:
        self.turns.settled(lambda error: self.told.append((name, error)))

    def turn(self) -> None:
        self.clock.advance(0)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def bump(offset: int) -> list[Event]:
    return [BumpAckedUntil(offset)]


def test_a_turn_is_one_write_for_all_lines(bench: Bench) -> None:
    for number in range(3):
        bench.take(bench.a, f"a{number}")
    bench.close(bench.b)
    assert bench.groups.turns == []
    bench.turn()
    assert bench.groups.turns == [[("a", bump(3)), ("b", bump(1))]]


def test_answers_come_after_the_write_in_the_order_of_asking(bench: Bench) -> None:
    bench.take(bench.a, "1")
    bench.take(bench.b, "2")
    bench.settled("3")
    bench.take(bench.a, "4")
    bench.turn()
    assert bench.told == []
    bench.groups.write()
    assert bench.told == ["1", "2", ("3", None), "4"]


def test_what_comes_during_a_write_is_the_next_turn(bench: Bench) -> None:
    bench.take(bench.a, "1")
    bench.turn()
    bench.take(bench.a, "2")
    bench.take(bench.b, "3")
    bench.turn()
    assert len(bench.groups.turns) == 1
    bench.groups.write()
    assert bench.told == ["1"]
    bench.turn()
    assert bench.groups.turns[1] == [("a", bump(2)), ("b", bump(1))]
    bench.groups.write()
    assert bench.told == ["1", "2", "3"]


def test_settled_is_called_at_once_when_nothing_is_to_be_written(bench: Bench) -> None:
    bench.settled("idle")
    assert bench.told == [("idle", None)]
    bench.take(bench.a, "1")
    bench.turn()
    bench.groups.write()
    bench.settled("idle again")
    assert bench.told[-1] == ("idle again", None)


def test_settled_waits_for_the_write_that_is_under_way(bench: Bench) -> None:
    bench.close(bench.a)
    bench.turn()
    bench.settled("under way")
    assert bench.told == []
    bench.groups.write()
    assert bench.told == [("under way", None)]


def test_settled_waits_for_the_next_turn_when_something_is_in_it(bench: Bench) -> None:
    bench.close(bench.a)
    bench.turn()
    bench.close(bench.b)
    bench.settled("both")
    bench.groups.write()
    assert bench.told == []
    bench.turn()
    bench.groups.write()
    assert bench.told == [("both", None)]


def test_a_line_without_events_is_answered_without_a_write(bench: Bench) -> None:
    bench.turns.answer(bench.a, bench.told.append, "nothing new")
    bench.settled("nor here")
    bench.turn()
    assert bench.groups.turns == []
    assert bench.told == ["nothing new", ("nor here", None)]


# --- errors ---------------------------------------------------------------------------------------------


def test_an_error_reaches_its_line_and_those_who_asked_it(bench: Bench) -> None:
    error = BarbicelError("disk full")
    bench.take(bench.a, "1")
    bench.take(bench.b, "2")
    bench.settled("all")
    bench.turn()
    bench.groups.write(a=error)
    assert bench.told == [error, "2", ("all", error)]
    assert (bench.a.failures, bench.b.failures) == ([error], [])


def test_the_turn_after_an_error_is_written_for_the_others(bench: Bench) -> None:
    error = BarbicelError("disk full")
    bench.close(bench.a)
    bench.turn()
    bench.take(bench.b, "b")
    bench.groups.write(a=error)
    bench.turn()
    bench.groups.write()
    assert bench.told == ["b"]


def test_what_followed_an_error_is_not_written_and_not_answered_as_if_it_were(bench: Bench) -> None:
    """A frontier covers what lies before it: it would ack the items whose readers were told of an error."""
    error = BarbicelError("disk full")
    bench.take(bench.a, "1")
    bench.turn()
    bench.take(bench.a, "2")
    bench.take(bench.b, "3")
    bench.settled("all")
    bench.groups.write(a=error)
    bench.turn()
    assert bench.groups.turns[1] == [("b", bump(1))]
    bench.groups.write()
    assert bench.told == [error, error, "3", ("all", error)]
    assert bench.a.failures == [error]


def test_when_the_writing_itself_breaks_down_everybody_is_told(bench: Bench) -> None:
    bench.take(bench.a, "1")
    bench.take(bench.b, "2")
    bench.settled("all")
    bench.turn()
    bench.groups.break_down(RuntimeError("a bug"))
    first, second, (_, third) = bench.told
    assert all(isinstance(error, BarbicelError) and "a bug" in str(error) for error in (first, second, third))
    assert (len(bench.a.failures), len(bench.b.failures)) == (1, 1)


def test_a_closed_store_is_told_as_it_is(bench: Bench) -> None:
    error = BarbicelError("closed")
    bench.take(bench.a, "1")
    bench.turn()
    bench.groups.break_down(error)
    assert bench.told == [error]


def test_one_who_cannot_be_answered_keeps_nobody_else_from_it(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def raise_error(_: object) -> None:
        raise RuntimeError("a connection's bug")

    with caplog.at_level(logging.ERROR):
        bench.take(bench.a, "1")
        bench.turns.answer(bench.a, raise_error, "2")
        bench.take(bench.a, "3")
        bench.turn()
        bench.groups.write()
    assert bench.told == ["1", "3"]
    assert "a connection's bug" in caplog.text
    bench.take(bench.a, "4")
    bench.turn()
    bench.groups.write()
    assert bench.told == ["1", "3", "4"]


# --- who is answered asks again at once -------------------------------------------------------------------


def test_what_is_asked_in_an_answer_is_the_next_turn(bench: Bench) -> None:
    def ask_again(value: str) -> None:
        bench.told.append(value)
        bench.take(bench.a, "2")
        bench.settled("second")

    bench.a.acked += 1
    bench.turns.answer(bench.a, ask_again, "1")
    bench.take(bench.b, "b")
    bench.turn()
    bench.groups.write()
    assert bench.told == ["1", "b"]
    bench.turn()
    bench.groups.write()
    assert bench.told == ["1", "b", "2", ("second", None)]


def test_a_line_that_fails_may_touch_another(bench: Bench) -> None:
    """Whoever waited there asks elsewhere at once."""
    failed = bench.a.fail

    def fail(error: BarbicelError) -> None:
        failed(error)
        bench.take(bench.b, "elsewhere")

    bench.a.fail = fail  # type: ignore[method-assign]
    bench.close(bench.a)
    bench.turn()
    bench.groups.write(a=BarbicelError("disk full"))
    bench.turn()
    assert bench.groups.turns[1] == [("b", bump(1))]
    bench.groups.write()
    assert bench.told == ["elsewhere"]
