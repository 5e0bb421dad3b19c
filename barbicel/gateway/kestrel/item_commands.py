"""What the memcache protocol does with items: set, get with its options, monitor, confirm."""

from __future__ import annotations

from barbicel.gateway.kestrel.memcache_serving import ERROR, Doing, MemcacheServing
from barbicel.gateway.kestrel.serving import Awaiting, Monitoring
from barbicel.kestrel_compat.expiry import expiry_ms
from barbicel.kestrel_compat.items import Item
from barbicel.kestrel_compat.memcache import replies
from barbicel.kestrel_compat.memcache.requests import Confirm, Get, Monitor, Set

__all__ = [
    "Aborting",
    "Closing",
    "Confirming",
    "MonitoringItems",
    "Opening",
    "Peeking",
    "Reopening",
    "Storing",
    "Taking",
]


class Storing(MemcacheServing):
    """set"""

    __slots__ = ("_is_silent", "size_bytes")

    @staticmethod
    def size_of(request: Set) -> int:
        return 0 if request.data is None else len(request.data)

    def serve(self, request: Set) -> None:
        shared, data = self.client.shared, request.data
        config = shared.config
        self.size_bytes = 0 if data is None else len(data)
        self._is_silent = request.noreply and config.kestrel_noreply
        if shared.status.level.blocks_writes:
            self.refuse_for_status("setItem")
            return
        shared.counters.cmd_set += 1
        if data is None:
            self.stored(False)
            return
        flags = request.flags if config.kestrel_keep_flags else 0
        expires_ms = expiry_ms(request.expiry_s, shared.clock()) if request.expiry_s else None
        shared.queues.put(request.queue, data, flags, expires_ms, self.stored)

    def stored(self, result: bool | Exception) -> None:
        """For the queues to call."""
        if result is True:
            self.finish(replies.STORED)
        elif result is False:
            self.finish(replies.NOT_STORED)
        else:
            self.fail(result)

    def finish(self, answer: bytes) -> None:
        self.answer = b"" if self._is_silent else answer
        self.client.answered(self)


class Taking(MemcacheServing, Awaiting):
    """get q"""

    __slots__ = ("_key",)

    def serve(self, request: Get) -> None:
        if self.client.session.open_count(request.queue):
            # Kestrel's rule: who has begun to open reads cannot mean to lose an item.
            self.finish_and_close(ERROR)
        else:
            self._take(request)

    def _take(self, request: Get) -> None:
        client, shared = self.client, self.client.shared
        if shared.status.level.blocks_reads:
            self.refuse_for_status("getItem")
            return
        shared.counters.cmd_get += 1
        self._key = request.key if shared.config.kestrel_echo_key else request.queue
        self.waiting = shared.queues.take(
            client.session,
            request.queue,
            is_open=request.is_open,
            timeout_ms=request.timeout_ms,
            done=self.taken,
        )

    def taken(self, result: Item | Exception | None) -> None:
        shared = self.client.shared
        if isinstance(result, Exception):
            self.fail(result)
        elif result is None:
            shared.counters.get_misses += 1
            self.miss()
        else:
            shared.counters.get_hits += 1
            flags = result.flags if shared.config.kestrel_keep_flags else 0
            self.finish(replies.value(self._key, flags, result.data))

    def miss(self) -> None:
        self.finish(replies.END)


class Opening(Taking):
    """get q/open"""

    __slots__ = ()

    def serve(self, request: Get) -> None:
        client = self.client
        if client.session.open_count(request.queue) >= client.shared.config.kestrel_max_open_transactions:
            self.finish_and_close(ERROR)
        else:
            self._take(request)


class Reopening(Opening):
    """get q/close/open"""

    __slots__ = ()

    def serve(self, request: Get) -> None:
        client = self.client
        client.shared.queues.close_oldest(client.session, request.queue)
        super().serve(request)

    def miss(self) -> None:
        """A hit is recorded behind the close, and answered after both."""
        self.client.shared.queues.settled(self._settled)

    def _settled(self, error: Exception | None) -> None:
        if error is None:
            self.finish(replies.END)
        else:
            self.fail(error)


class Peeking(Taking):
    """get q/peek"""

    __slots__ = ()

    def serve(self, request: Get) -> None:
        shared = self.client.shared
        if shared.status.level.blocks_reads:
            self.refuse_for_status("getItem")
            return
        shared.counters.cmd_peek += 1
        self._key = request.key if shared.config.kestrel_echo_key else request.queue
        self.waiting = shared.queues.peek(request.queue, request.timeout_ms, self.taken)


class MonitoringItems(MemcacheServing, Monitoring):
    """monitor"""

    __slots__ = ()

    def serve(self, request: Monitor) -> None:
        most = self.client.shared.config.kestrel_max_open_transactions
        self.start(request.queue, request.seconds, most if request.max_items is None else request.max_items)

    def render_item(self, item: Item) -> bytes:
        flags = item.flags if self.client.shared.config.kestrel_keep_flags else 0
        return replies.value(self._queue, flags, item.data)

    def render_end(self) -> bytes:
        return replies.END


# --- what is open ---------------------------------------------------------------------------------------


class Closing(Doing):
    """get q/close"""

    __slots__ = ()

    def serve(self, request: Get) -> None:
        client = self.client
        if client.shared.queues.close_oldest(client.session, request.queue):
            client.shared.queues.settled(self.done)
        else:
            self.finish(self.reply)


class Aborting(Doing):
    """get q/abort"""

    __slots__ = ()

    def serve(self, request: Get) -> None:
        client = self.client
        if client.shared.queues.abort_oldest(client.session, request.queue):
            client.shared.queues.settled(self.done)
        else:
            self.finish(self.reply)


class Confirming(Doing):
    """confirm"""

    __slots__ = ()

    def serve(self, request: Confirm) -> None:
        client, queues = self.client, self.client.shared.queues
        if request.count > 0 and queues.close_oldest(client.session, request.queue, request.count):
            queues.settled(self.done)
        else:
            self.finish(ERROR)
