"""Background work gives way to a reactor that has something to do, and only to that."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from barbicel.tier import pace
from barbicel.tier.pace import IDLE_FOREGROUND, IDLE_SHARE, LOOK_SECONDS, SLICE_SECONDS, Foreground, Pace

DEADLINE_S = 30.0


class Reactor:
    """Its clock, and how much of that it has had work."""

    def __init__(self) -> None:
        self.now = 0.0
        self.wanted = 0.0
        self.foreground = Foreground(wanted_seconds=lambda: self.wanted, clock=lambda: self.now)

    def spend(self, seconds: float, share: float) -> None:
        self.now += seconds
        self.wanted += seconds * share


def test_before_the_first_look_it_counts_as_busy() -> None:
    reactor = Reactor()
    assert reactor.foreground.is_busy
    reactor.spend(LOOK_SECONDS * 0.9, 0)
    assert reactor.foreground.is_busy


@pytest.mark.parametrize(
    ("share", "is_busy"),
    [(0, False), (IDLE_FOREGROUND * 0.9, False), (IDLE_FOREGROUND * 1.1, True), (1, True)],
)
def test_a_look_tells_of_the_time_since_the_last_one(share: float, is_busy: bool) -> None:
    reactor = Reactor()
    for before in (1, 0):
        reactor.spend(LOOK_SECONDS * 2, before)
        assert reactor.foreground.is_busy == bool(before)
        reactor.spend(LOOK_SECONDS * 2, share)
        assert reactor.foreground.is_busy == is_busy


def test_pauses_are_short_while_the_reactor_is_idle() -> None:
    reactor, worked = Reactor(), [0.0]
    pauses: list[float] = []
    background = Pace(0.2, cpu_seconds=lambda: worked[0], pause=pauses.append, foreground=reactor.foreground)
    for share in (1, 0):
        reactor.spend(LOOK_SECONDS * 2, share)
        worked[0] += SLICE_SECONDS
        background.rest()
    assert pauses == [
        pytest.approx(SLICE_SECONDS * 4),
        pytest.approx(SLICE_SECONDS * (1 / IDLE_SHARE - 1)),
    ]


def test_who_works_more_than_that_anyway_works_no_less() -> None:
    reactor, worked = Reactor(), [0.0]
    pauses: list[float] = []
    background = Pace(1.0, cpu_seconds=lambda: worked[0], pause=pauses.append, foreground=reactor.foreground)
    reactor.spend(LOOK_SECONDS * 2, 0)
    worked[0] += SLICE_SECONDS
    background.rest()
    assert pauses == [0]


# --- what cannot be done in slices ------------------------------------------------------------------------


def waited(reactor: Reactor, share: float, *, is_over_after_s: float = 1e9) -> float:
    """How long something gave way that would for 4 seconds, while the reactor has so much work."""
    began = reactor.now
    reactor.foreground.give_way(
        4.0, lambda: reactor.now - began >= is_over_after_s, lambda seconds: reactor.spend(seconds, share)
    )
    return reactor.now - began


def test_nobody_waits_for_a_reactor_that_has_nothing_to_do() -> None:
    reactor = Reactor()
    reactor.spend(1.0, 0)
    assert waited(reactor, 0) == 0


def test_who_waits_for_a_busy_reactor_does_not_wait_for_ever() -> None:
    reactor = Reactor()
    reactor.spend(1.0, 0.5)
    assert waited(reactor, 0.5) == pytest.approx(4.0, abs=2 * LOOK_SECONDS)


def test_who_has_little_to_send_waits_no_longer_than_for_that() -> None:
    """Pieces of an object are small: if each of them waited for a look, they would never be through."""
    reactor = Reactor()
    reactor.spend(1.0, 0.5)
    began = reactor.now
    for _ in range(100):
        reactor.foreground.give_way(
            LOOK_SECONDS / 10, lambda: False, lambda seconds: reactor.spend(seconds, 0.5)
        )
    assert reactor.now - began == pytest.approx(LOOK_SECONDS * 10)


def test_a_moment_without_work_is_not_the_end_of_it() -> None:
    reactor = Reactor()
    reactor.spend(1.0, 0.5)
    quiet_s = waited(reactor, 0)
    assert 0.5 < quiet_s < 4.0


def test_whoever_has_to_stop_does_not_wait() -> None:
    reactor = Reactor()
    reactor.spend(1.0, 0.5)
    assert waited(reactor, 0.5, is_over_after_s=0.1) == pytest.approx(0.1, abs=2 * LOOK_SECONDS)


def test_another_thread_notices_that_the_main_thread_works() -> None:
    seen: list[bool] = []
    has_begun, is_over = threading.Event(), threading.Event()

    def watch() -> None:
        foreground = Foreground()
        has_begun.set()
        is_over.wait(DEADLINE_S)
        seen.append(foreground.is_busy)

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert has_begun.wait(DEADLINE_S)
    end = time.perf_counter() + 10 * LOOK_SECONDS
    while time.perf_counter() < end:
        pass
    is_over.set()
    watcher.join(DEADLINE_S)
    assert seen == [True]


@pytest.mark.parametrize("content", [None, b"", b"1 2", b"one two three"])
def test_where_the_system_does_not_tell_it_counts_as_busy(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "schedstat"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setattr(pace, "SCHEDSTAT", str(path))
    foreground = Foreground()
    deadline = time.perf_counter() + 2 * LOOK_SECONDS
    while time.perf_counter() < deadline:
        assert foreground.is_busy


def test_what_linux_tells_is_time_at_work_and_time_in_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, now = tmp_path / "schedstat", [0.0]
    monkeypatch.setattr(pace, "SCHEDSTAT", str(path))
    path.write_bytes(b"1000000000 2000000000 7\n")
    foreground = Foreground(clock=lambda: now[0])
    now[0] += 1
    assert not foreground.is_busy
    path.write_bytes(b"1000000000 2500000000 8\n")
    now[0] += 1
    assert foreground.is_busy
