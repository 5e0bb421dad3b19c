"""Answers whose rows come later: in order, and not later than the client wants to wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from barbicel.codecs.kafka.messages import FindCoordinatorResponse, decode_response
from barbicel.gateway.kafka.api import Address, Call
from barbicel.gateway.kafka.rows import ROWS_A_TURN, OneByOne, gather, within

TIMEOUT_MS = 500
KeyRow = FindCoordinatorResponse.Coordinator


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def call(clock: Clock) -> Call:
    broker: Any = SimpleNamespace(reactor=clock, work_long=lambda function: succeed(function()))
    return Call(broker, 0, None, Address("client", 1), Address("server", 2))


def caught(answer: Any) -> list[Any]:
    """What a Deferred has become so far."""
    found: list[Any] = []
    answer.addBoth(found.append)
    return found


def test_rows_that_are_there_are_answered_at_once(call: Call) -> None:
    finish: Any = tuple
    assert gather(call, iter([1, 2]), finish) == (1, 2)
    assert gather(call, [], finish) == ()


def test_rows_keep_their_order_whichever_comes_first(call: Call) -> None:
    first: Deferred[str] = Deferred()
    third: Deferred[str] = Deferred()
    finish: Any = "".join
    found = caught(gather(call, [first, "b", third], finish))
    third.callback("c")
    assert found == []
    first.callback("a")
    assert found == ["abc"]


def key_rows(count: int, made: list[int]) -> Iterator[Any]:
    for number in range(count):
        made.append(number)
        yield KeyRow(key=str(number))


def test_others_are_served_between_some_rows_and_the_next(call: Call) -> None:
    turns: list[Callable[[], None]] = []
    broker: Any = call.broker
    broker.reactor = SimpleNamespace(callLater=lambda delay, function: turns.append(function))
    made: list[int] = []
    call.version = 4
    found = caught(
        gather(call, key_rows(1000, made), lambda rows: FindCoordinatorResponse(coordinators=rows))
    )
    for number in range(1, 5):
        assert (len(made), len(turns), found) == (number * ROWS_A_TURN, number, [])
        turns[-1]()
    answer = decode_response(10, 4, memoryview(found[0].body))
    assert [row.key for row in answer.coordinators] == [str(number) for number in range(1000)]


def test_a_row_counts_for_those_in_it(call: Call, clock: Clock) -> None:
    made: list[int] = []
    rows = key_rows(4, made)
    gather(call, rows, lambda rows: FindCoordinatorResponse(coordinators=rows), lambda _: ROWS_A_TURN // 2)
    assert len(made) == 2


def test_late_rows_of_a_long_answer_are_in_their_places(call: Call, clock: Clock) -> None:
    late: Deferred[Any] = Deferred()
    rows = [*(KeyRow(key=str(number)) for number in range(300)), late, KeyRow(key="last")]
    call.version = 4
    found = caught(gather(call, rows, lambda rows: FindCoordinatorResponse(coordinators=rows)))
    clock.advance(0)
    assert found == []
    late.callback(KeyRow(key="late"))
    answer = decode_response(10, 4, memoryview(found[0].body))
    assert [row.key for row in answer.coordinators[-3:]] == ["299", "late", "last"]


def test_long_work_is_done_a_piece_at_a_time_and_in_order(call: Call) -> None:
    begun: list[Deferred[Any]] = []

    def work_long(function: Callable[[], Any]) -> Deferred[Any]:
        begun.append(Deferred())
        return begun[-1].addCallback(lambda _: function())

    broker: Any = SimpleNamespace(work_long=work_long)
    call.broker = broker
    work = OneByOne(call)
    answers = [caught(work.run(partial(divmod, 7, number))) for number in (2, 0, 3)]
    for place in range(3):
        assert len(begun) == place + 1
        begun[place].callback(None)
    assert answers[0] == [(3, 1)]
    assert answers[1][0].check(ZeroDivisionError)
    assert answers[2] == [(2, 1)]


def test_what_nobody_wants_any_more_is_not_begun(call: Call) -> None:
    first: Deferred[Any] = Deferred()
    broker: Any = SimpleNamespace(work_long=lambda _: first)
    call.broker = broker
    work = OneByOne(call)
    done: list[str] = []
    work.run(lambda: None)
    work.run(partial(done.append, "second"))
    work.give_up()
    first.callback(None)
    assert done == []


def test_a_row_that_fails_fails_the_answer(call: Call) -> None:
    row: Deferred[str] = Deferred()
    finish: Any = list
    found = caught(gather(call, [row, "b"], finish))
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
