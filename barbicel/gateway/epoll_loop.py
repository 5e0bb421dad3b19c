"""Twisted's epoll reactor without what each turn of it can do without. Linux only.

- No logging context around every event and every turn: errors are logged all the same.
- Threads wake it by an eventfd that is never read: epoll tells of each write to it once (EPOLLET).
- What is to be told to a thread can be told once a turn, before it sleeps (`call_before_sleep`): one that is
  woken earlier finds the interpreter taken, and sleeps again. What threads tell can be heard there too.
- Calls are looked through when there is one to make, rather than every turn.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from select import EPOLLET, EPOLLIN
from typing import Any

from twisted.internet.epollreactor import EPollReactor

__all__ = ["PlainEPollReactor"]

_log = logging.getLogger(__name__)

# The kernel counts milliseconds in 31 bits.
LONGEST_SLEEP_S = 2_000_000.0
# As many as Twisted keeps.
CANCELLED_CALLS_MAX = 50


class PlainEPollReactor(EPollReactor):
    def __init__(self) -> None:
        self._before_sleep: list[Callable[[], None]] = []
        super().__init__()  # type: ignore[no-untyped-call]  # Twisted's reactors have no types
        # Not among what the reactor reads from: its events lead to nothing, but they end the sleep.
        # (Twisted's own pipe for that is there too, unused.)
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        own: Any = self
        own._poller.register(self._wake, EPOLLIN | EPOLLET)

    def wakeUp(self) -> None:
        """From any thread, or a signal's handler."""
        os.eventfd_write(self._wake, 1)

    def call_before_sleep(self, function: Callable[[], None]) -> None:
        """Before every sleep, from now on."""
        self._before_sleep.append(function)

    def mainLoop(self) -> None:
        own: Any = self
        while own._started:
            try:
                while own._started:
                    if self._has_calls:
                        own.runUntilCurrent()
                    self._end_turn()
                    self.doPoll(self._seconds_to_sleep)
            except BaseException:  # as Twisted does
                _log.exception("the event loop goes on after this")

    @property
    def _has_calls(self) -> bool:
        """Of threads or of timers, or so many that were cancelled that Twisted wants to clear them away."""
        own: Any = self
        timed = own._pendingTimedCalls
        return bool(
            own._newTimedCalls
            or own.threadCallQueue
            or own._justStopped
            or (timed and timed[0].time <= own.seconds())
            or own._cancellations > max(CANCELLED_CALLS_MAX, len(timed) >> 1)
        )

    @property
    def _seconds_to_sleep(self) -> float:
        own: Any = self
        if own._newTimedCalls or own.threadCallQueue or own._justStopped or not own.running:
            return 0.0
        timed = own._pendingTimedCalls
        left_s = timed[0].time - own.seconds() if timed else LONGEST_SLEEP_S
        return min(max(left_s, 0.0), LONGEST_SLEEP_S)

    def _end_turn(self) -> None:
        for function in self._before_sleep:
            try:
                function()
            except BaseException:  # or nobody would be read from again
                _log.exception("what is called before the event loop sleeps has failed")

    def doPoll(self, timeout: float) -> None:
        own: Any = self
        try:
            events = own._poller.poll(timeout, len(own._selectables) + 1)
        except InterruptedError:
            return
        selectables, act = own._selectables, own._doReadOrWrite
        for number, event in events:
            # One that was closed by an earlier event of this round is not here any more.
            selectable = selectables.get(number)
            if selectable is not None:
                act(selectable, number, event)

    doIteration = doPoll
