"""Answers whose rows come later: in order, and not later than the client wants to wait."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from barbicel.gateway.kafka.api import Address, Call
from barbicel.gateway.kafka.rows import gather, within

TIMEOUT_MS = 500


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def call(clock: Clock) -> Call:
    broker: Any = SimpleNamespace(reactor=clock)
    return Call(broker, 0, None, Address("client", 1), Address("server", 2))


def caught(answer: Any) -> list[Any]:
    """What a Deferred has become so far."""
    found: list[Any] = []
    answer.addBoth(found.append)
    return found


def test_rows_that_are_there_are_answered_at_once() -> None:
    finish: Any = tuple
    assert gather(iter([1, 2]), finish) == (1, 2)
    assert gather([], finish) == ()


def test_rows_keep_their_order_whichever_comes_first() -> None:
    first: Deferred[str] = Deferred()
    third: Deferred[str] = Deferred()
    finish: Any = "".join
    found = caught(gather([first, "b", third], finish))
    third.callback("c")
    assert found == []
    first.callback("a")
    assert found == ["abc"]


def test_a_row_that_fails_fails_the_answer() -> None:
    row: Deferred[str] = Deferred()
    finish: Any = list
    found = caught(gather([row, "b"], finish))
    row.errback(KeyError("a fault of ours"))
    assert found[0].value.subFailure.check(KeyError)


def test_work_that_is_done_in_time_is_the_answer(clock: Clock, call: Call) -> None:
    work: Deferred[str] = Deferred()
    found = caught(within(call, TIMEOUT_MS, work, lambda: "late"))
    clock.advance(TIMEOUT_MS / 1000 - 0.001)
    work.callback("done")
    assert (found, clock.getDelayedCalls()) == (["done"], [])


def test_work_that_was_done_before_is_the_answer(clock: Clock, call: Call) -> None:
    work: Deferred[str] = Deferred()
    work.callback("done")
    assert caught(within(call, TIMEOUT_MS, work, lambda: "late")) == ["done"]
    assert clock.getDelayedCalls() == []


def test_work_that_takes_too_long_goes_on(clock: Clock, call: Call) -> None:
    shown: list[str] = []
    work: Deferred[str] = Deferred()

    def show(result: str) -> str:
        shown.append(result)
        return result

    work.addCallback(show)
    found = caught(within(call, TIMEOUT_MS, work, lambda: "late"))
    clock.advance(TIMEOUT_MS / 1000)
    assert (found, shown) == (["late"], [])
    work.callback("done")
    assert (found, shown) == (["late"], ["done"])


def test_work_that_fails_fails_the_answer(clock: Clock, call: Call) -> None:
    work: Deferred[str] = Deferred()
    found = caught(within(call, TIMEOUT_MS, work, lambda: "late"))
    work.errback(KeyError("a fault of ours"))
    assert found[0].check(KeyError)
    assert clock.getDelayedCalls() == []
