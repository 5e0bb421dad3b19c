"""Work beside the server's reactor: in short slices, with a pause after each in which others have their turn.

A thread that computes in Python lets go of the interpreter every 5 ms, and only then. A reactor that does
small system calls beside it would wait those 5 ms after each of them. So whoever goes through many batches
calls `rest` every few of them. While the reactor has next to nothing to do, the pauses are short.
What is not done by this thread, such as sending an object, or a piece of it, begins when the reactor has
nothing to do, or after a while: `give_way`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cache
from math import exp

from barbicel.disk import RealDisk
from barbicel.errors import DiskError

__all__ = ["Foreground", "Pace", "reactor_of_this_process"]

# Long enough that a pause's own cost (some 60 microseconds) is small, short enough that nobody notices.
SLICE_SECONDS = 0.000_2
# The part of its time that a thread works while nobody else wants to. The rest is how the reactor, if it has
# something to do after all, gets to do it and is noticed.
IDLE_SHARE = 0.75
# So much of its time the reactor spends on nothing in particular.
IDLE_FOREGROUND = 0.08
LOOK_SECONDS = 0.02
# Clients send in bursts: that nothing came for a look or two does not mean that nothing comes.
LATELY_SECONDS = 1.0
# Of a thread: its nanoseconds on a processor, those in the queue for one, and how often it got one.
SCHEDSTAT = "/proc/self/task/{thread}/schedstat"
SCHEDSTAT_BYTES = 128


class Foreground:
    """Whether the reactor, which runs in the main thread, has had work lately."""

    def __init__(
        self,
        *,
        wanted_seconds: Callable[[], float] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`wanted_seconds` is how long it has had work so far, whether or not a processor was free for it."""
        self._wanted_seconds = wanted_seconds or _main_thread_wanted
        self._clock = clock
        self._looked_at, self._wanted = clock(), self._wanted_seconds()
        self._is_busy = True
        self._lately = 0.0

    @property
    def is_busy(self) -> bool:
        """As of the last look; before the first one it counts as busy."""
        self._look()
        return self._is_busy

    @property
    def was_busy_lately(self) -> bool:
        """On average, what is longer ago counting less."""
        self._look()
        return self._lately > IDLE_FOREGROUND

    def _look(self) -> None:
        now = self._clock()
        passed = now - self._looked_at
        if passed >= LOOK_SECONDS:
            wanted = self._wanted_seconds()
            share = (wanted - self._wanted) / passed
            self._is_busy = share > IDLE_FOREGROUND
            self._lately += (share - self._lately) * (1 - exp(-passed / LATELY_SECONDS))
            self._looked_at, self._wanted = now, wanted

    def give_way(self, seconds: float, is_over: Callable[[], bool], pause: Callable[[float], None]) -> None:
        """Wait until it had next to nothing to do for a while, or the time is over, or something else is."""
        end = self._clock() + seconds
        while (left := end - self._clock()) > 0 and self.was_busy_lately and not is_over():
            pause(min(left, LOOK_SECONDS))


@cache
def reactor_of_this_process() -> Foreground:
    """One for all threads: each look of one tells the others, and nobody has to begin by looking."""
    return Foreground()


def _main_thread_wanted() -> float:
    """Its time on a processor and in the queue for one; where Linux does not tell, all the time there is."""
    try:
        file = RealDisk().open(SCHEDSTAT.format(thread=threading.main_thread().native_id), "read")
        try:
            ran_ns, queued_ns, _ = map(int, file.pread(SCHEDSTAT_BYTES, 0).split())
        finally:
            file.close()
    except (DiskError, ValueError):
        return time.perf_counter()
    return (ran_ns + queued_ns) / 1e9


class Pace:
    """For one thread. `share` is the part of its time that it works while the reactor is busy.

    `idle_share` is that part while it is not; whoever lets go of the interpreter now and then by itself needs
    no pauses for that. What a thread waits for does not count.
    """

    def __init__(
        self,
        share: float,
        *,
        idle_share: float = IDLE_SHARE,
        cpu_seconds: Callable[[], float] = time.thread_time,
        pause: Callable[[float], None] = time.sleep,
        foreground: Foreground | None = None,
    ) -> None:
        self._pauses = 1 / share - 1
        self._short_pauses = 1 / max(share, idle_share) - 1
        self._cpu_seconds = cpu_seconds
        self._pause = pause
        self._foreground = foreground or reactor_of_this_process()
        self._since = cpu_seconds()

    def rest(self) -> None:
        """Pause if there was a slice's work since the last pause."""
        worked = self._cpu_seconds() - self._since
        if worked >= SLICE_SECONDS:
            pauses = self._pauses if self._foreground.is_busy else self._short_pauses
            self._pause(worked * pauses)
            self._since = self._cpu_seconds()

    def restart(self) -> None:
        """What was done since the last pause was done without the interpreter: it needs none."""
        self._since = self._cpu_seconds()
