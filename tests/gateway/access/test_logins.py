"""Logins wait in turns: whoever sends many waits for itself, and nothing is kept of clients that are gone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from barbicel.gateway.access.authentication import AuthenticationFailed
from barbicel.gateway.access.logins import Login, Logins


class HandThread:
    """Does what it is given when the test says so; more than one thing at a time is an error."""

    def __init__(self) -> None:
        self._given: tuple[Callable[[], Any], Deferred[Any]] | None = None

    def call(self, function: Callable[[], Any]) -> Deferred[Any]:
        assert self._given is None
        answer: Deferred[Any] = Deferred()
        self._given = function, answer
        return answer

    @property
    def is_busy(self) -> bool:
        return self._given is not None

    def finish_all(self) -> None:
        while self._given is not None:
            (function, answer), self._given = self._given, None
            try:
                found = function()
            except AuthenticationFailed as error:
                answer.errback(error)
            else:
                answer.callback(found)


@pytest.fixture
def thread() -> HandThread:
    return HandThread()


@pytest.fixture
def logins(thread: HandThread) -> Logins:
    return Logins(thread.call)


def test_whoever_sends_thousands_keeps_nobody_else_waiting(logins: Logins, thread: HandThread) -> None:
    order: list[str] = []
    for number in range(1000):
        logins.begin("10.0.0.66", partial(order.append, f"attacker {number}"))
    for host in ("10.0.0.1", "10.0.0.2"):
        logins.begin(host, partial(order.append, host))
    thread.finish_all()
    # One was under way, and one of its kind came before theirs.
    assert order[:5] == ["attacker 0", "attacker 1", "10.0.0.1", "10.0.0.2", "attacker 2"]
    assert len(order) == 1002


def test_whoever_is_gone_is_not_checked_and_not_kept(logins: Logins, thread: HandThread) -> None:
    checked: list[int] = []
    begun: list[Login[None]] = [logins.begin("10.0.0.66", partial(checked.append, n)) for n in range(1000)]
    for login in begun[:999]:
        login.forget()
    # The first is under way already.
    assert len(logins) == 1
    thread.finish_all()
    assert checked == [0, 999]
    assert not len(logins)
    begun[0].forget()


def test_each_hears_of_its_own_outcome(logins: Logins, thread: HandThread) -> None:
    outcomes: list[Any] = []

    def refuse() -> str:
        raise AuthenticationFailed("no")

    logins.begin("a", refuse).answer.addErrback(lambda failure: outcomes.append(failure.value))
    logins.begin("a", lambda: "let in").answer.addCallback(outcomes.append)
    thread.finish_all()
    assert isinstance(outcomes[0], AuthenticationFailed)
    assert outcomes[1] == "let in"
    logins.begin("b", lambda: "later").answer.addCallback(outcomes.append)
    assert thread.is_busy
    thread.finish_all()
    assert outcomes[2] == "later"
