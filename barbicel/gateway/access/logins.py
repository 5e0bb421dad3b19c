"""Logins that wait for their passwords or tokens to be checked, which is slow on purpose.

One is checked at a time, one of each address after the other: whoever sends thousands of them waits for
itself, and others wait for one of them. A login whose client is gone is not checked, and nothing is kept of
it: what waits is bounded by the connections that there are. Reactor thread only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar

from twisted.internet.defer import Deferred

__all__ = ["Login", "Logins"]

T = TypeVar("T")

# Calls something in a thread.
InThread: TypeAlias = Callable[[Callable[[], Any]], Deferred[Any]]


class Login(Generic[T]):
    """One check: `answer` fires with what it finds, unless it is forgotten before its turn comes."""

    def __init__(self, logins: Logins, host: str, check: Callable[[], T]) -> None:
        self._logins = logins
        self.host = host
        self.check = check
        self.answer: Deferred[T] = Deferred()

    def forget(self) -> None:
        """Its client is gone."""
        self._logins.leave(self)


class Logins:
    def __init__(self, in_thread: InThread) -> None:
        self._in_thread = in_thread
        # Those that wait by their address, the address first whose turn it is, and the first login first.
        self._waiting: dict[str, dict[Login[Any], None]] = {}
        self._is_busy = False

    def __len__(self) -> int:
        """How many wait."""
        return sum(map(len, self._waiting.values()))

    def begin(self, host: str, check: Callable[[], T]) -> Login[T]:
        login = Login(self, host, check)
        self._waiting.setdefault(host, {})[login] = None
        self._go_on()
        return login

    def leave(self, login: Login[Any]) -> None:
        of_host = self._waiting.get(login.host, {})
        of_host.pop(login, None)
        if not of_host:
            self._waiting.pop(login.host, None)

    def _go_on(self) -> None:
        if self._is_busy or not self._waiting:
            return
        host = next(iter(self._waiting))
        of_host = self._waiting.pop(host)
        login = next(iter(of_host))
        del of_host[login]
        if of_host:
            self._waiting[host] = of_host  # behind the others
        self._is_busy = True
        self._in_thread(login.check).addBoth(self._done, login)

    def _done(self, result: Any, login: Login[Any]) -> None:
        self._is_busy = False
        self._go_on()
        login.answer.callback(result)  # a Failure makes it fail
