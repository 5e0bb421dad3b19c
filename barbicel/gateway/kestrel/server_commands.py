"""What the memcache protocol does with queues and the server: flush, delete, stats, status and the like."""

from __future__ import annotations

from barbicel import __version__
from barbicel.errors import BarbicelError
from barbicel.gateway.kestrel.memcache_serving import CLIENT_ERROR, Doing, MaybeSilent, MemcacheServing
from barbicel.gateway.kestrel.reporting import moment_of
from barbicel.gateway.kestrel.status import BadStatus
from barbicel.kestrel_compat.memcache import replies
from barbicel.kestrel_compat.memcache.requests import (
    Bad,
    Delete,
    DumpStats,
    Flush,
    FlushAll,
    FlushAllExpired,
    FlushExpired,
    ListQueues,
    Quit,
    Reload,
    Shutdown,
    Stats,
    Status,
    Version,
)
from barbicel.kestrel_compat.stats import queue_rows, stats_rows

__all__ = [
    "ChangingStatus",
    "Deleting",
    "DumpingStats",
    "Flushing",
    "FlushingAll",
    "FlushingAllExpired",
    "FlushingExpired",
    "Listing",
    "Quitting",
    "Refusing",
    "Reloading",
    "ShuttingDown",
    "TellingStats",
    "TellingVersion",
]

# Operators' commands that the settings do not allow. Kestrel has no such answer, so a reason does no harm.
NOT_ALLOWED = b"SERVER_ERROR not allowed, see %b\r\n"

# --- queues ---------------------------------------------------------------------------------------------


class Flushing(Doing):
    """flush"""

    __slots__ = ()

    def serve(self, request: Flush) -> None:
        shared = self.client.shared
        if shared.status.level.blocks_writes:
            self.refuse_for_status("flush")
        else:
            shared.queues.flush(request.queue, self.done)

    def refuse_name(self, error: BaseException) -> None:
        self.finish(self.reply)  # there is no such queue, as with any other name that is not used


class Deleting(MaybeSilent):
    """delete"""

    __slots__ = ()

    reply = replies.DELETED

    def serve(self, request: Delete) -> None:
        shared = self.client.shared
        self.is_silent = request.noreply and shared.config.kestrel_noreply
        if shared.status.level.blocks_writes:
            self.refuse_for_status("delete")
        else:
            shared.queues.delete(request.queue, self.done)

    def refuse_name(self, error: BaseException) -> None:
        self.finish(self.reply)


class FlushingAll(MaybeSilent):
    """flush_all"""

    __slots__ = ()

    reply = replies.FLUSHED_ALL

    def serve(self, request: FlushAll) -> None:
        shared = self.client.shared
        self.is_silent = request.noreply and shared.config.kestrel_noreply
        if not shared.config.kestrel_allow_flush_all:
            self.finish(NOT_ALLOWED % b"kestrel.allow.flush.all")
        elif shared.status.level.blocks_writes:
            self.refuse_for_status("flushAll")
        else:
            shared.queues.flush_all(self.done)


class FlushingExpired(MemcacheServing):
    """flush_expired"""

    __slots__ = ()

    def serve(self, request: FlushExpired) -> None:
        shared = self.client.shared
        if shared.status.level.blocks_writes:
            self.refuse_for_status("flushExpired")
        else:
            shared.queues.flush_expired(request.queue, self.counted)

    def counted(self, result: int | Exception) -> None:
        """For the queues to call."""
        if isinstance(result, Exception):
            self.fail(result)
        else:
            self.finish(replies.count(result))

    def refuse_name(self, error: BaseException) -> None:
        self.finish(replies.count(0))


class FlushingAllExpired(FlushingExpired):
    """flush_all_expired, which Kestrel does whatever its status is"""

    __slots__ = ()

    def serve(self, request: FlushAllExpired) -> None:  # type: ignore[override]  # its own request
        self.client.shared.queues.flush_all_expired(self.counted)


# --- about the server -----------------------------------------------------------------------------------


class TellingStats(MemcacheServing):
    """stats"""

    __slots__ = ()

    def serve(self, request: Stats) -> None:
        shared = self.client.shared
        queues = shared.queues.stats()
        self.finish(replies.stats(stats_rows(shared.counters, moment_of(shared, queues), queues)))


class DumpingStats(MemcacheServing):
    """dump_stats"""

    __slots__ = ()

    def serve(self, request: DumpStats) -> None:
        queues = self.client.shared.queues
        names = request.queues or queues.names()
        self.finish(replies.dump_stats([(name, queue_rows(queues.queue_stats(name))) for name in names]))


class Listing(MemcacheServing):
    """list_queues"""

    __slots__ = ()

    def serve(self, request: ListQueues) -> None:
        self.finish(replies.queue_names(self.client.shared.queues.names()))


class TellingVersion(MemcacheServing):
    """version"""

    __slots__ = ()

    def serve(self, request: Version) -> None:
        self.finish(replies.version(__version__))


class ChangingStatus(Doing):
    """status, with and without a level"""

    __slots__ = ()

    def serve(self, request: Status) -> None:
        status = self.client.shared.status
        if request.level is None:
            self.finish(replies.status(status.level.name))
            return
        try:
            status.change(request.level, self.done)
        except BadStatus:
            self.finish_and_close(CLIENT_ERROR)


class Reloading(Doing):
    """reload"""

    __slots__ = ()

    reply = replies.RELOADED

    def serve(self, request: Reload) -> None:
        shared = self.client.shared
        if shared.config.kestrel_allow_reload:
            shared.controls.reload(self.done)
        else:
            self.finish(NOT_ALLOWED % b"kestrel.allow.reload")


class ShuttingDown(MemcacheServing):
    """shutdown"""

    __slots__ = ()

    def serve(self, request: Shutdown) -> None:
        shared = self.client.shared
        if shared.config.kestrel_allow_shutdown:
            self.finish_and_close(b"")
            shared.controls.shutdown()
        else:
            self.finish(NOT_ALLOWED % b"kestrel.allow.shutdown")


class Quitting(MemcacheServing):
    """quit"""

    __slots__ = ()

    def serve(self, request: Quit) -> None:
        self.finish_and_close(b"")


class Refusing(MemcacheServing):
    """What is no request"""

    __slots__ = ()

    def serve(self, request: Bad) -> None:
        self.client.report(BarbicelError(request.reason))
        answer = replies.REFUSALS[request.kind]
        if request.closes:
            self.finish_and_close(answer)
        else:
            self.finish(answer)
