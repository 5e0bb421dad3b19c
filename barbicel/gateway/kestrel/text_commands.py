"""What each request of the text protocol does. Fetching confirms: that is how this protocol says "done".

The table at the end is the protocol; each class is one row.
"""

from __future__ import annotations

from collections.abc import Mapping

from barbicel import __version__
from barbicel.gateway.kestrel.serving import Awaiting, Client, Kind, Monitoring, Plan, Serving
from barbicel.gateway.kestrel.status import BadStatus
from barbicel.kestrel_compat.expiry import lifetime_expiry_ms
from barbicel.kestrel_compat.items import Item
from barbicel.kestrel_compat.text import replies
from barbicel.kestrel_compat.text.requests import (
    Bad,
    Confirm,
    Delete,
    Flush,
    Get,
    Monitor,
    Peek,
    Put,
    Quit,
    Request,
    Shutdown,
    Status,
    Version,
)

__all__ = ["PLANS", "plan_of"]

DONE = replies.count(0)


class _Text(Serving):
    """How this protocol says that something cannot be done. The connection goes on."""

    __slots__ = ()

    def refuse_name(self, error: BaseException) -> None:
        self.finish(replies.error("Queue name contains illegal characters (one of: ~ . /)."))

    def refuse_for_status(self, operation: str) -> None:
        self.finish(replies.unavailable(operation))

    def fail(self, error: BaseException) -> None:
        self.client.report(error)
        self.finish(replies.error("The server could not do it."))


def _close_all(client: Client, queue: str) -> bool:
    """Whether anything was open."""
    count = client.session.open_count(queue)
    return bool(count and client.shared.queues.close_oldest(client.session, queue, count))


# --- items ----------------------------------------------------------------------------------------------


class Putting(_Text):
    __slots__ = ("_left", "_stored", "size_bytes")

    @staticmethod
    def size_of(request: Put) -> int:
        return sum(map(len, request.items))

    def serve(self, request: Put) -> None:
        shared = self.client.shared
        self.size_bytes = self.size_of(request)
        self._left, self._stored = len(request.items), 0
        if shared.status.level.blocks_writes:
            self.refuse_for_status("setItem")
            return
        shared.counters.cmd_set += len(request.items) + request.dropped
        if not request.items:
            self.finish(replies.count(0))
        expires_ms = lifetime_expiry_ms(request.lifetime_ms, shared.clock())
        for item in request.items:
            shared.queues.put(request.queue, item, 0, expires_ms, self.stored)

    def stored(self, result: bool | Exception) -> None:
        """For the queues to call, once an item."""
        self._left -= 1
        if self.answer is not None:
            return
        if isinstance(result, Exception):
            self.fail(result)
            return
        self._stored += result
        if not self._left:
            self.finish(replies.count(self._stored))


class _Fetching(_Text, Awaiting):
    """What it closes is recorded before it is answered."""

    __slots__ = ("_has_closed", "_reply")

    _has_closed: bool

    def taken(self, result: Item | Exception | None) -> None:
        counters = self.client.shared.counters
        if isinstance(result, Exception):
            self.fail(result)
            return
        if result is None:
            counters.get_misses += 1
            reply = replies.NO_ITEM
        else:
            counters.get_hits += 1
            reply = replies.item(result.data)
        if self._has_closed:
            self._reply = reply
            self.client.shared.queues.settled(self._settled)
        else:
            self.finish(reply)

    def _settled(self, error: Exception | None) -> None:
        reply, self._reply = self._reply, b""  # it may be large
        if error is None:
            self.finish(reply)
        else:
            self.fail(error)


class Getting(_Fetching):
    __slots__ = ()

    def serve(self, request: Get) -> None:
        client, shared = self.client, self.client.shared
        self._has_closed = _close_all(client, request.queue)
        if shared.status.level.blocks_reads:
            self.refuse_for_status("getItem")
            return
        shared.counters.cmd_get += 1
        self.waiting = shared.queues.take(
            client.session, request.queue, is_open=True, timeout_ms=request.timeout_ms, done=self.taken
        )


class Peeking(_Fetching):
    __slots__ = ()

    def serve(self, request: Peek) -> None:
        shared = self.client.shared
        self._has_closed = _close_all(self.client, request.queue)
        if shared.status.level.blocks_reads:
            self.refuse_for_status("getItem")
            return
        shared.counters.cmd_peek += 1
        self.waiting = shared.queues.peek(request.queue, request.timeout_ms, self.taken)


class MonitoringItems(_Text, Monitoring):
    __slots__ = ()

    def serve(self, request: Monitor) -> None:
        _close_all(self.client, request.queue)
        most = self.client.shared.config.kestrel_max_open_transactions
        self.start(request.queue, request.timeout_ms / 1000, most)

    def render_item(self, item: Item) -> bytes:
        return replies.item(item.data)

    def render_end(self) -> bytes:
        return replies.NO_ITEM


# --- what is done, and then answered --------------------------------------------------------------------


class _Doing(_Text):
    __slots__ = ()

    def done(self, error: Exception | None) -> None:
        """For the queues to call."""
        if error is None:
            self.finish(DONE)
        else:
            self.fail(error)


class Confirming(_Doing):
    __slots__ = ("_count",)

    def serve(self, request: Confirm) -> None:
        client, queues = self.client, self.client.shared.queues
        self._count = request.count
        if request.count > 0 and queues.close_oldest(client.session, request.queue, request.count):
            queues.settled(self.done)
        else:
            self.finish(replies.TOO_FEW_OPEN)

    def done(self, error: Exception | None) -> None:
        if error is None:
            self.finish(replies.count(self._count))
        else:
            self.fail(error)


class Flushing(_Doing):
    __slots__ = ()

    def serve(self, request: Flush) -> None:
        shared = self.client.shared
        if shared.status.level.blocks_writes:
            self.refuse_for_status("flush")
        else:
            shared.queues.flush(request.queue, self.done)

    def refuse_name(self, error: BaseException) -> None:
        self.finish(DONE)


class Deleting(_Doing):
    __slots__ = ()

    def serve(self, request: Delete) -> None:
        shared = self.client.shared
        if shared.status.level.blocks_writes:
            self.refuse_for_status("delete")
        else:
            shared.queues.delete(request.queue, self.done)

    def refuse_name(self, error: BaseException) -> None:
        self.finish(DONE)


class ChangingStatus(_Doing):
    """With and without a level."""

    __slots__ = ()

    def serve(self, request: Status) -> None:
        status = self.client.shared.status
        if request.level is None:
            self.finish(replies.text(status.level.name))
            return
        try:
            status.change(request.level, self.done)
        except BadStatus as error:
            self.finish(replies.error(error.message))


# --- about the server -----------------------------------------------------------------------------------


class TellingVersion(_Text):
    __slots__ = ()

    def serve(self, request: Version) -> None:
        self.finish(replies.text(__version__))


class ShuttingDown(_Text):
    __slots__ = ()

    def serve(self, request: Shutdown) -> None:
        shared = self.client.shared
        if shared.config.kestrel_allow_shutdown:
            self.finish(DONE)
            shared.controls.shutdown()
        else:
            self.finish(replies.error("Not allowed, see kestrel.allow.shutdown."))


class Quitting(_Text):
    __slots__ = ()

    def serve(self, request: Quit) -> None:
        self.finish_and_close(b"")


class Refusing(_Text):
    __slots__ = ()

    def serve(self, request: Bad) -> None:
        answer = replies.error(request.message)
        if request.closes:
            self.finish_and_close(answer)
        else:
            self.finish(answer)


PLANS: Mapping[type, Plan] = {
    Put: Plan(Kind.SETS, Putting),
    Get: Plan(Kind.ALONE, Getting),
    Peek: Plan(Kind.ALONE, Peeking),
    Monitor: Plan(Kind.ALONE, MonitoringItems),
    Confirm: Plan(Kind.CLOSES, Confirming),
    Flush: Plan(Kind.ALONE, Flushing),
    Delete: Plan(Kind.ALONE, Deleting),
    Status: Plan(Kind.ALONE, ChangingStatus),
    Version: Plan(Kind.ALONE, TellingVersion),
    Shutdown: Plan(Kind.ALONE, ShuttingDown),
    Quit: Plan(Kind.ALONE, Quitting),
    Bad: Plan(Kind.ALONE, Refusing),
}


def plan_of(request: Request) -> Plan:
    return PLANS[type(request)]
