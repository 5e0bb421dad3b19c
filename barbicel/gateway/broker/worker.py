"""A thread for calls that wait for the disk, one at a time and in the order they were asked for."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from twisted.internet.defer import Deferred

from barbicel.gateway.twisted_types import Reactor

__all__ = ["Worker", "answering"]

T = TypeVar("T")


def answering(reactor: Reactor, function: Callable[[], T]) -> tuple[Deferred[T], Callable[[], None]]:
    """The answer, which comes in the reactor's thread, and the job for whatever thread is to make it."""
    answer: Deferred[T] = Deferred()

    def job() -> None:
        try:
            result = function()
        except BaseException as error:
            reactor.callFromThread(answer.errback, error)
        else:
            reactor.callFromThread(answer.callback, result)

    return answer, job


class Worker:
    """`run` it from the reactor's thread; the answer comes there too."""

    def __init__(self, reactor: Reactor, name: str) -> None:
        self._reactor = reactor
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def run(self, function: Callable[[], T]) -> Deferred[T]:
        answer, job = answering(self._reactor, function)
        self._jobs.put(job)
        return answer

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def close(self) -> None:
        """Finish what was asked for, then end."""
        self._jobs.put(None)
        self._thread.join()
