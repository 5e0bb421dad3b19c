"""What requests of the memcache protocol have in common: how it refuses, and how it says that it is done."""

from __future__ import annotations

from barbicel.gateway.kestrel.serving import Serving
from barbicel.kestrel_compat.memcache import replies
from barbicel.kestrel_compat.memcache.requests import Refusal

__all__ = ["CLIENT_ERROR", "ERROR", "Doing", "MaybeSilent", "MemcacheServing"]

CLIENT_ERROR = replies.REFUSALS[Refusal.CLIENT_ERROR]
ERROR = replies.REFUSALS[Refusal.ERROR]
SERVER_ERROR = replies.REFUSALS[Refusal.SERVER_ERROR]


class MemcacheServing(Serving):
    """How this protocol says that something cannot be done."""

    __slots__ = ()

    def refuse_name(self, error: BaseException) -> None:
        self.finish_and_close(CLIENT_ERROR)

    def refuse_for_status(self, operation: str) -> None:
        self.finish_and_close(SERVER_ERROR)

    def fail(self, error: BaseException) -> None:
        self.client.report(error)
        self.finish(SERVER_ERROR)


class Doing(MemcacheServing):
    """`done` is for the queues to call."""

    __slots__ = ()

    reply = replies.END

    def done(self, error: Exception | None) -> None:
        if error is None:
            self.finish(self.reply)
        else:
            self.fail(error)


class MaybeSilent(Doing):
    """A request that can have noreply."""

    __slots__ = ("is_silent",)

    is_silent: bool

    def finish(self, answer: bytes) -> None:
        super().finish(b"" if self.is_silent else answer)
