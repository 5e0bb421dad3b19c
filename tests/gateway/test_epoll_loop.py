"""The event loop: what threads hand over is done, the loop sleeps and wakes, and goes on after an error."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barbicel.gateway.epoll_loop import CANCELLED_CALLS_MAX, LONGEST_SLEEP_S, PlainEPollReactor
from barbicel.gateway.event_loop import call_before_sleep
from tests.gateway.kafka.in_memory import HandReactor, untyped

DEADLINE_S = 30.0


class Loop:
    """A reactor that is not the process's; it stops by itself if the test does not make it."""

    def __init__(self) -> None:
        self.reactor: Any = PlainEPollReactor()
        self._threads: list[threading.Thread] = []

    def run(self) -> None:
        late = self.reactor.callLater(DEADLINE_S, self.reactor.stop)
        self.reactor.run(installSignalHandlers=False)
        assert late.active(), "nothing has stopped the loop in time"
        late.cancel()

    def beside(self, function: Callable[[], None]) -> None:
        """Call it in a thread, once the loop runs."""
        thread = threading.Thread(target=function)
        self._threads.append(thread)
        self.reactor.callWhenRunning(thread.start)

    def close(self) -> None:
        """The reactor leaves its descriptors to the end of the process."""
        for thread in self._threads:  # it may be about to wake a loop that has ended
            thread.join(DEADLINE_S)
        self.reactor.removeAll()
        self.reactor._poller.close()
        os.close(self.reactor._wake)
        untyped(self.reactor).waker.connectionLost(None)


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


def test_what_threads_hand_over_is_done_in_their_order(loop: Loop) -> None:
    done: list[tuple[int, int]] = []
    ended = threading.Semaphore(0)

    def hand_over(thread: int) -> None:
        for number in range(500):
            loop.reactor.callFromThread(done.append, (thread, number))
        ended.release()

    def end() -> None:
        for _ in range(4):
            assert ended.acquire(timeout=DEADLINE_S)
        loop.reactor.callFromThread(loop.reactor.stop)

    for thread in range(4):
        loop.beside(lambda thread=thread: hand_over(thread))  # type: ignore[misc]  # a default for the loop
    loop.beside(end)
    loop.run()
    for thread in range(4):
        assert [number for one, number in done if one == thread] == [*range(500)]


def test_a_loop_that_sleeps_is_woken_each_time(loop: Loop) -> None:
    """Whoever waits for an answer before asking again finds the loop asleep: no waking call may be lost."""
    answered = threading.Semaphore(0)

    def ask() -> None:
        for _ in range(1000):
            loop.reactor.callFromThread(answered.release)
            assert answered.acquire(timeout=DEADLINE_S)
        loop.reactor.callFromThread(loop.reactor.stop)

    loop.beside(ask)
    loop.run()


def test_before_it_sleeps_all_of_a_turn_is_done(loop: Loop) -> None:
    happened: list[str] = []
    assert call_before_sleep(loop.reactor, lambda: happened.append("sleeps"))

    def hand_over() -> None:
        happened.append("handed over")
        loop.reactor.callLater(0, loop.reactor.stop)

    loop.reactor.callFromThread(hand_over)
    loop.reactor.callFromThread(happened.append, "more")
    loop.run()
    assert happened[:3] == ["handed over", "more", "sleeps"]


def test_what_is_to_be_done_next_is_done_without_sleep(loop: Loop) -> None:
    """A call that is made before it sleeps ends the loop, though nothing wakes it and no timer is near."""
    calls = iter([lambda: loop.reactor.callLater(0, loop.reactor.stop)])
    loop.reactor.call_before_sleep(lambda: next(calls, lambda: None)())
    loop.run()


def test_a_stop_before_it_sleeps_is_heard_at_once(loop: Loop) -> None:
    stops = iter([loop.reactor.stop])
    loop.reactor.call_before_sleep(lambda: next(stops, lambda: None)())
    loop.run()


def test_a_timer_may_be_set_sooner_before_it_sleeps(loop: Loop) -> None:
    timer = loop.reactor.callLater(2 * DEADLINE_S, loop.reactor.stop)
    sooner = iter([lambda: timer.reset(0.01)])
    loop.reactor.call_before_sleep(lambda: next(sooner, lambda: None)())
    loop.run()


def test_timers_that_were_cancelled_are_not_kept(loop: Loop) -> None:
    """Each fetch that waits has one, and most are answered in time."""
    left = iter(range(1000))
    most = 0

    def go_on() -> None:
        nonlocal most
        loop.reactor.callLater(DEADLINE_S, lambda: None).cancel()
        timer = loop.reactor.callLater(DEADLINE_S, lambda: None)
        # As one of a fetch, it is there for some turns.
        waiting.append(timer)
        if len(waiting) > 3:
            waiting.pop(0).cancel()
        most = max(most, len(loop.reactor._pendingTimedCalls))
        if next(left, None) is None:
            loop.reactor.stop()
        else:
            loop.reactor.wakeUp()

    waiting: list[Any] = []
    loop.reactor.call_before_sleep(go_on)
    loop.run()
    for timer in waiting:
        timer.cancel()
    assert most < 3 * CANCELLED_CALLS_MAX


def test_timers_come_in_their_order_and_one_beyond_what_the_kernel_counts_is_no_harm(loop: Loop) -> None:
    happened: list[str] = []
    far = loop.reactor.callLater(10**10, happened.append, "far")
    loop.reactor.callLater(0.02, happened.append, "second")
    loop.reactor.callLater(0.01, happened.append, "first")
    loop.reactor.callLater(0.03, loop.reactor.stop)
    loop.run()
    assert happened == ["first", "second"]
    far.cancel()


def test_without_a_timer_it_sleeps_until_it_is_woken(loop: Loop) -> None:
    sleeps: list[float] = []
    is_asleep = threading.Event()
    poll = loop.reactor.doPoll

    def sleep(seconds: float) -> None:
        sleeps.append(seconds)
        if seconds:
            is_asleep.set()
        poll(seconds)

    def stop() -> None:
        assert is_asleep.wait(DEADLINE_S)
        loop.reactor.callFromThread(loop.reactor.stop)

    loop.reactor.doPoll = sleep
    loop.reactor.callLater(10**10, lambda: None)
    loop.beside(stop)
    loop.reactor.run(installSignalHandlers=False)
    assert max(sleeps) == LONGEST_SLEEP_S
    # It sleeps, rather than to look all the time whether there is something to do.
    assert len(sleeps) < 10


def test_a_reactor_of_another_kind_tells_nobody_that_it_sleeps() -> None:
    assert not call_before_sleep(untyped(HandReactor()), lambda: None)


def test_it_goes_on_after_an_error(
    loop: Loop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("a fault")

    loop.reactor.call_before_sleep(fail)
    monkeypatch.setattr(loop.reactor, "_doReadOrWrite", fail)
    loop.beside(lambda: loop.reactor.callFromThread(loop.reactor.callLater, 0, loop.reactor.stop))
    with caplog.at_level(logging.ERROR):
        untyped(loop.reactor).waker.wakeUp()
        loop.run()
    assert "what is called before the event loop sleeps has failed" in caplog.text
    assert "the event loop goes on after this" in caplog.text
