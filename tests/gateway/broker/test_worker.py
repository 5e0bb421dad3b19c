"""Calls in threads: the order they are taken up in, how many threads there are, and the end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, cast

import pytest

from barbicel.errors import BarbicelError
from barbicel.gateway.broker.worker import Worker

DEADLINE_S = 30


class Reactor:
    """Takes calls from threads, and makes them here."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def callFromThread(self, function: Callable[..., None], *arguments: Any) -> None:  # noqa: N802
        self._calls.put(lambda: function(*arguments))

    def turn(self) -> None:
        self._calls.get(timeout=DEADLINE_S)()


def make(max_threads: int) -> tuple[Reactor, Worker]:
    reactor = Reactor()
    return reactor, Worker(cast(Any, reactor), "test", max_threads)


def test_one_thread_makes_the_calls_in_order() -> None:
    reactor, worker = make(1)
    done: list[int] = []
    for number in range(20):
        worker.run(lambda number=number: number).addCallback(done.append)  # type: ignore[misc]
    for _ in range(20):
        reactor.turn()
    worker.close()
    assert done == list(range(20))


def test_there_are_as_many_threads_as_are_needed_and_no_more_than_allowed() -> None:
    reactor, worker = make(3)
    names: set[str] = set()

    def call() -> None:
        names.add(threading.current_thread().name)

    for _ in range(5):  # one after the other
        worker.run(call)
        reactor.turn()
    assert len(names) <= 2  # the first may still be on its way back
    names.clear()
    together = threading.Barrier(3)

    def wait_for_others() -> None:
        call()
        together.wait(DEADLINE_S)

    for _ in range(6):
        worker.run(wait_for_others)
    for _ in range(6):
        reactor.turn()
    worker.close()
    assert names == {"test-0", "test-1", "test-2"}


def test_an_error_is_the_answer_and_ends_no_thread() -> None:
    reactor, worker = make(1)

    def fail() -> None:
        raise BarbicelError("no")

    failed = worker.run(fail)
    reactor.turn()
    with pytest.raises(BarbicelError):
        cast(Any, failed.result).raiseException()
    failed.addErrback(lambda _: None)
    answer = worker.run(lambda: 7)
    reactor.turn()
    worker.close()
    assert answer.result == 7


def test_what_was_asked_for_is_done_before_the_end() -> None:
    _, worker = make(2)
    done: list[int] = []
    for number in range(50):
        worker.run(lambda number=number: done.append(number))  # type: ignore[misc]
    worker.close()
    assert sorted(done) == list(range(50))


def test_who_never_had_a_call_has_no_thread_to_end() -> None:
    before = threading.active_count()
    _, worker = make(4)
    assert threading.active_count() == before
    worker.close()
