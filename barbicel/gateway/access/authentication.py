"""What all ways of saying who one is have in common: messages to and fro, then a name or a refusal.

A refusal has two texts: what the client is told, which never says whether there is such a user, and the
reason for the log.
"""

from __future__ import annotations

from typing import Protocol

from barbicel.errors import BarbicelError

__all__ = ["AuthenticationFailed", "Exchange", "NotAdmitted"]


class AuthenticationFailed(BarbicelError):
    """The client is not who it says, or does not say it properly. The message is for the log alone."""


class NotAdmitted(BarbicelError):
    """A request that may not be served now; the connection is closed."""


class Exchange(Protocol):
    """One attempt. No I/O."""

    # A step takes milliseconds or more, so it belongs into a thread.
    is_slow: bool

    @property
    def user(self) -> str | None:
        """Who the client is, when that is shown."""

    @property
    def refusal(self) -> AuthenticationFailed | None:
        """Why the client is not let in, where it is to say something to that before it is sent away."""

    @property
    def expires_at_ms(self) -> int | None:
        """Until when that holds, by the wall clock; None is for ever."""

    def step(self, message: bytes) -> bytes:
        """The answer to the client's next message. Raises AuthenticationFailed."""
