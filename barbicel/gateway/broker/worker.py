"""Threads for calls that wait for the disk, taken up in the order they were asked for.

One thread alone makes the calls one after the other. Twisted's pool does the same for several, at five times
the price: a consumer that reads old data needs a call for every megabyte.
"""

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
    """`run` it from the reactor's thread; the answer comes there too. Threads are started as they are needed,
    up to `max_threads`, and stay."""

    def __init__(self, reactor: Reactor, name: str, max_threads: int = 1) -> None:
        self._reactor = reactor
        self._name = name
        self._max_threads = max_threads
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        # Threads with nothing to do, less the jobs that wait for one.
        self._idle = 0
        self._mutex = threading.Lock()

    def run(self, function: Callable[[], T]) -> Deferred[T]:
        answer, job = answering(self._reactor, function)
        with self._mutex:
            self._idle -= 1
            is_short = self._idle < 0
        if is_short and len(self._threads) < self._max_threads:
            self._start_thread()
        self._jobs.put(job)
        return answer

    def _start_thread(self) -> None:
        name = self._name if self._max_threads == 1 else f"{self._name}-{len(self._threads)}"
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        with self._mutex:
            self._idle += 1
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            with self._mutex:
                self._idle += 1

    def close(self) -> None:
        """Finish what was asked for, then end."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
