"""Memory for what clients have sent and is not done with yet, and for answers that they do not read, of all
of Kestrel's connections together.

When the first is used up nobody is read from until there is room, but for those who hold little, and for one
whose request has begun: or else the beginnings of requests could use it up, none of them whole. When the
second is used up, whoever has read nothing for longest is sent away.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["Reading", "ReadingBudget", "Unread", "UnreadBudget"]


# Who holds less is read from in any case, and so is every small request.
LITTLE_BYTES = 64 << 10


class Reading(Protocol):
    """A connection, as far as its reading goes."""

    @property
    def is_within_a_request(self) -> bool: ...

    @property
    def held_bytes(self) -> int:
        """Of what has arrived and was not taken."""

    def go_on(self) -> None:
        """There is room."""


class ReadingBudget:
    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self.held_bytes = 0
        self.is_full = False
        # Those who wait for room, the first first; and the one that need not.
        self._crowded: dict[Reading, None] = {}
        self._favoured: Reading | None = None

    def change(self, by_bytes: int) -> None:
        was_full = self.is_full
        self.held_bytes += by_bytes
        self.is_full = self.held_bytes >= self._max_bytes
        if self._crowded and was_full and not self.is_full:
            crowded, self._crowded = self._crowded, {}
            for connection in crowded:
                connection.go_on()

    def may_read(self, connection: Reading) -> bool:
        """If not, the connection is called when it may."""
        if self._favoured is connection and not connection.is_within_a_request:
            self._favour_another()
        if not self.is_full or self._favoured is connection or connection.held_bytes < LITTLE_BYTES:
            return True
        if self._favoured is None and connection.is_within_a_request:
            self._favoured = connection
            return True
        self._crowded[connection] = None
        return False

    def leave(self, connection: Reading) -> None:
        """The connection is gone."""
        self._crowded.pop(connection, None)
        if self._favoured is connection:
            self._favour_another()

    def _favour_another(self) -> None:
        self._favoured = next((one for one in self._crowded if one.is_within_a_request), None)
        if self._favoured is not None:
            del self._crowded[self._favoured]
            self._favoured.go_on()


class Unread(Protocol):
    """A connection, as far as its client's reading goes."""

    @property
    def unread_bytes(self) -> int:
        """Of answers, as far as the kernel does not have them."""

    def close(self, reason: str) -> None: ...


class UnreadBudget:
    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self.held_bytes = 0
        # Those who have answers to read, the one that has read nothing for longest first.
        self._unread: dict[Unread, None] = {}

    def change(self, connection: Unread, by_bytes: int) -> None:
        """It has so much more to read than before, or less."""
        self.held_bytes += by_bytes
        if by_bytes < 0:
            self._unread.pop(connection, None)
        if connection.unread_bytes:
            self._unread.setdefault(connection)
        while self.held_bytes > self._max_bytes and self._unread:
            slowest = next(iter(self._unread))
            del self._unread[slowest]
            slowest.close("its answers are not read, and there is no room for more")
