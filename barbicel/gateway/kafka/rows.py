"""The rows of an answer: made a few at a time, some of them later, and how long they are waited for.

A request of a few hundred kilobytes asks for tens of thousands of rows. Everybody waits for the reactor's
thread, so after some rows it serves others first, and an answer that has become that long is encoded
elsewhere. An API that uses this is served alone (Api.is_alone), or requests behind a long one would overtake
it, and one client could have a hundred of them under way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, gatherResults

from barbicel.codecs.kafka.messages import encode_response
from barbicel.gateway.kafka.api import Call, Encoded, Reply

__all__ = ["OneByOne", "gather", "within"]

T = TypeVar("T")

# The most expensive row takes 0.1 ms.
ROWS_A_TURN = 250


def _one(_: Any) -> int:
    return 1


def gather(
    call: Call,
    rows: Iterable[Any],
    finish: Callable[[list[Any]], Reply],
    size: Callable[[Any], int] = _one,
) -> Reply:
    """What `finish` makes of all rows in their order, as soon as none is a Deferred any more.

    It may gather again. `size` says for how many a row counts that has rows of its own.
    """
    iterator = iter(rows)
    found: list[Any] = []
    if _take_some(iterator, found, size):
        return Deferred.fromCoroutine(_gather_by_turns(call, iterator, found, finish, size))
    waiting = _late_rows(found)
    return finish(found) if waiting is None else waiting.addCallback(lambda _: finish(found))


async def _gather_by_turns(
    call: Call,
    rest: Iterator[Any],
    found: list[Any],
    finish: Callable[[list[Any]], Reply],
    size: Callable[[Any], int],
) -> Encoded:
    is_more = True
    while is_more:
        await _others_first(call)
        is_more = _take_some(rest, found, size)
    waiting = _late_rows(found)
    if waiting is not None:
        await waiting
    answer: Any = finish(found)
    if isinstance(answer, Deferred):
        answer = await answer
    if isinstance(answer, Encoded):
        return answer
    return Encoded(await call.broker.work_long(partial(encode_response, answer, call.version)))


def _take_some(rows: Iterator[Any], found: list[Any], size: Callable[[Any], int]) -> bool:
    """Whether this was as much as is made in one turn."""
    taken = 0
    for row in rows:
        found.append(row)
        taken += size(row)
        if taken >= ROWS_A_TURN:
            return True
    return False


def _others_first(call: Call) -> Deferred[None]:
    turn: Deferred[None] = Deferred()
    call.broker.reactor.callLater(0, partial(turn.callback, None))
    return turn


def _late_rows(found: list[Any]) -> Deferred[Any] | None:
    """Fires when the rows that come later are in their places; None if there are none."""
    late = [place for place, row in enumerate(found) if isinstance(row, Deferred)]
    if not late:
        return None

    def put(rows: list[Any]) -> None:
        for place, row in zip(late, rows, strict=True):
            found[place] = row

    return gatherResults([found[place] for place in late], consumeErrors=True).addCallback(put)


class OneByOne:
    """The long work of one request: a piece at a time, so that others' pieces come in between."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._waiting: deque[tuple[Callable[[], Any], bool, Deferred[Any]]] = deque()
        self._is_busy = False

    def run(self, function: Callable[[], T], *, is_remote: bool = False) -> Deferred[T]:
        """`is_remote`: it may wait for the network, where nobody waits who does not."""
        answer: Deferred[T] = Deferred()
        self._waiting.append((function, is_remote, answer))
        self._go_on()
        return answer

    def give_up(self) -> None:
        """Nobody is left to read the answer: what has not begun need not."""
        self._waiting.clear()

    def _go_on(self) -> None:
        if self._is_busy or not self._waiting:
            return
        function, is_remote, answer = self._waiting.popleft()
        self._is_busy = True
        broker = self._call.broker
        (broker.read_remote if is_remote else broker.work_long)(function).addBoth(self._done, answer)

    def _done(self, result: Any, answer: Deferred[Any]) -> None:
        self._is_busy = False
        self._go_on()
        answer.callback(result)  # a Failure makes it fail


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
