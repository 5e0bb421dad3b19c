"""Twisted's epoll reactor without what each turn of it can do without. Linux only.

- No logging context around every event and every turn: errors are logged all the same.
- Threads wake it by an eventfd that is never read: epoll tells of each write to it once (EPOLLET).
- What is to be told to a thread can be told once a turn, before it sleeps (`call_before_sleep`): one that is
  woken earlier finds the interpreter taken, and sleeps again.
- The clock is looked at once a turn, and calls are looked through when one is due.
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
                    sleep_s = self._make_calls()
                    self._end_turn()
                    self.doPoll(0.0 if own._newTimedCalls else sleep_s)
            except BaseException:  # as Twisted does
                _log.exception("the event loop goes on after this")

    def _make_calls(self) -> float:
        """Those that are due, of threads and of timers; for how long the loop may sleep then."""
        own: Any = self
        if own._newTimedCalls:
            own._insertNewDelayedCalls()
        timed = own._pendingTimedCalls
        left_s = timed[0].time - own.seconds() if timed else LONGEST_SLEEP_S
        if left_s > 0 and not (own.threadCallQueue or own._justStopped):
            return left_s if left_s < LONGEST_SLEEP_S else LONGEST_SLEEP_S
        own.runUntilCurrent()
        return 0.0

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
