"""The rows of an answer, of which some come later, and how long they are waited for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, gatherResults, succeed

from barbicel.codecs.kafka.messages import Message
from barbicel.gateway.kafka.api import Call, Reply

__all__ = ["gather", "within"]

T = TypeVar("T")


def gather(rows: Iterable[Any], finish: Callable[[list[Any]], Message]) -> Reply:
    """What `finish` makes of all rows in their order, as soon as none is a Deferred any more."""
    found = list(rows)
    if not any(isinstance(row, Deferred) for row in found):
        return finish(found)
    waiting = [row if isinstance(row, Deferred) else succeed(row) for row in found]
    return gatherResults(waiting, consumeErrors=True).addCallback(finish)


def within(call: Call, timeout_ms: int, work: Deferred[T], late: Callable[[], T]) -> Deferred[T]:
    """What becomes of `work`, or `late()` if it takes longer.

    The work goes on in any case, as Kafka's does: cancelled half-way it would leave a topic that is on the
    disk and that nobody sees.
    """
    answer: Deferred[T] = Deferred()
    timer = call.broker.reactor.callLater(timeout_ms / 1000, lambda: answer.callback(late()))

    def settle(result: Any) -> None:
        if timer.active():
            timer.cancel()
            answer.callback(result)

    work.addBoth(settle)
    return answer
