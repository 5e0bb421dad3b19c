"""All queues, for whatever protocol asks: what clients can do with them.

Names are as clients spell them. What is open is found in a dictionary; what is not yet is opened first, and
the request goes on when that is done. Callbacks are called in the reactor's thread, some at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Any, Protocol, TypeAlias

from twisted.internet.defer import Deferred, inlineCallbacks, succeed
from twisted.python.failure import Failure

from barbicel.config.queue_settings import QueueSettings
from barbicel.config.settings import Config
from barbicel.gateway.broker.broker import Broker
from barbicel.gateway.broker.queue_groups import QueueGroups
from barbicel.gateway.kestrel.ahead import AheadBudget
from barbicel.gateway.kestrel.line_reader import LineReader
from barbicel.gateway.kestrel.opening import PARTITION, Opening
from barbicel.gateway.kestrel.queue import PutDone, Queue
from barbicel.gateway.kestrel.session import Session
from barbicel.gateway.kestrel.turns import Turns
from barbicel.gateway.kestrel.waiter import TakeDone, Waiter
from barbicel.gateway.twisted_types import Timer
from barbicel.kestrel_compat.items import Item
from barbicel.kestrel_compat.names import MAIN_GROUP, QueueName, child_of, parse_queue_name, queue_of
from barbicel.kestrel_compat.queue_settings import SettingsBook
from barbicel.kestrel_compat.stats import AliasStats, Counters, QueueStats

__all__ = ["Done", "Queues", "Taken", "Waiting"]

_log = logging.getLogger(__name__)

Done: TypeAlias = Callable[[Exception | None], None]
# What a reader gets.
Taken: TypeAlias = Item


class Waiting(Protocol):
    """Somebody who waits for an item."""

    def cancel(self) -> None:
        """Nobody is there any more: no item may go there, and no answer."""


class Queues:
    """Reactor thread only."""

    def __init__(self, broker: Broker, config: Config) -> None:
        self.broker = broker
        self.reactor = broker.reactor
        self.settings = config
        self.counters = Counters()
        self.groups = QueueGroups(broker.offsets)
        self.turns = Turns(self.groups, self.reactor)
        self.ahead = AheadBudget()
        self._book = SettingsBook(config.kestrel_queues)
        self._opening = Opening(self)
        self._by_master: dict[str, Queue] = {}
        self._readers: dict[str, LineReader] = {}
        # How many of those that a start has found are not open yet.
        self.unopened = 0
        # (items, bytes) that were put by each alias.
        self._put_by_alias: dict[str, tuple[int, int]] = {}

    # --- what is open -------------------------------------------------------------------------------

    def by_master(self, master: str) -> Queue | None:
        return self._by_master.get(master)

    def open_queues(self) -> list[Queue]:
        return list(self._by_master.values())

    def show(self, queue: Queue) -> None:
        """The queue is open, or has another line."""
        self._by_master[queue.master] = queue
        for reader in queue.readers.values():
            self._readers[reader.name] = reader

    def hide(self, name: str) -> None:
        self._readers.pop(name, None)

    def forget(self, queue: Queue) -> None:
        """It is opened anew when somebody asks for it."""
        if self._by_master.get(queue.master) is queue:
            del self._by_master[queue.master]
            for reader in queue.readers.values():
                self.hide(reader.name)

    def settings_of(self, name: str) -> QueueSettings:
        return self._book.for_queue(name)

    def reload(self, config: Config) -> None:
        """Take the settings of queues and aliases anew."""
        self.settings = config
        self._book = SettingsBook(config.kestrel_queues)
        for queue in self.open_queues():
            queue.look_at_settings()

    def open_all(self) -> None:
        """After a start: find everybody's items, one queue after the other, while clients are served."""
        masters = sorted({parse_queue_name(name).master for name in self.names()})
        self.unopened = len(masters)
        self._open_next(iter(masters))

    def _open_next(self, masters: Iterator[str]) -> None:
        master = next(masters, None)
        if master is not None:
            self._opening.open(QueueName(master), create=False).addBoth(
                partial(self._opened_one, master, masters)
            )

    def _opened_one(self, master: str, masters: Iterator[str], outcome: object) -> None:
        self.unopened -= 1
        if isinstance(outcome, Failure):
            _log.error("queue %s could not be opened: %s", master, outcome.value)
        self.reactor.callLater(0, partial(self._open_next, masters))

    # --- putting ------------------------------------------------------------------------------------

    def put(
        self,
        name: str,
        data: bytes,
        flags: int,
        expiry_ms: int | None,
        done: PutDone,
        *,
        is_limited: bool = True,
    ) -> None:
        """Raises BadQueueName. Without limits a full queue takes it all the same."""
        reader = self._readers.get(name)
        # What waits for a line of this queue to be opened was put before.
        if reader is not None and not self._opening.is_busy(reader.queue.master):
            self.counters.total_items += 1
            group = reader.key.group
            only = None if group == MAIN_GROUP else group
            reader.queue.put(data, flags, expiry_ms, only, done, is_limited=is_limited)
        elif name in self._book.aliases:
            self._put_by(name, data, flags, expiry_ms, done)
        elif (queue := self._by_master.get(name)) is not None and self._keeps_nothing(name):
            self.counters.total_items += 1
            queue.put(data, flags, expiry_ms, None, done, is_limited=is_limited)
        else:
            self._put_slowly(parse_queue_name(name), data, flags, expiry_ms, done, is_limited)

    def _keeps_nothing(self, master: str) -> bool:
        """It has no line of its own, and need not be asked for one every time."""
        return self.settings_of(master).fanout_only and not self._opening.is_busy(master)

    def _put_slowly(
        self,
        name: QueueName,
        data: bytes,
        flags: int,
        expiry_ms: int | None,
        done: PutDone,
        is_limited: bool = True,
    ) -> None:
        def go_on(reader: LineReader | None) -> None:
            queue = self._by_master.get(name.master)
            if queue is None:  # gone again
                self._put_slowly(name, data, flags, expiry_ms, done, is_limited)
                return
            self.counters.total_items += 1
            only = None if name.child is None else name.group
            queue.put(data, flags, expiry_ms, only, done, is_limited=is_limited)

        _then(self._opening.open(name, create=True), go_on, done)

    def _put_by(self, alias: str, data: bytes, flags: int, expiry_ms: int | None, done: PutDone) -> None:
        """Into each of the alias's queues; stored if all have stored it."""
        destinations = self._book.aliases[alias]
        items, size = self._put_by_alias.get(alias, (0, 0))
        self._put_by_alias[alias] = (items + 1, size + len(data))
        outcomes: list[bool | Exception] = []

        def note(outcome: bool | Exception) -> None:
            outcomes.append(outcome)
            if len(outcomes) == len(destinations):
                failed = [one for one in outcomes if isinstance(one, Exception)]
                done(failed[0] if failed else all(outcomes))

        for name in destinations:
            self._put_slowly(parse_queue_name(name), data, flags, expiry_ms, note)

    # --- reading ------------------------------------------------------------------------------------

    def take(
        self, session: Session, name: str, *, is_open: bool, timeout_ms: int | None, done: TakeDone
    ) -> Waiting | None:
        """Raises BadQueueName. What is returned can be cancelled: then `done` is not called."""
        reader = self._readers.get(name)
        if reader is not None:
            return reader.take(session, is_open=is_open, timeout_ms=timeout_ms, done=done)
        return self._ask(
            name,
            timeout_ms,
            done,
            lambda found, asked: found.take(session, is_open=is_open, timeout_ms=timeout_ms, done=asked),
        )

    def peek(self, name: str, timeout_ms: int | None, done: TakeDone) -> Waiting | None:
        """Raises BadQueueName."""
        reader = self._readers.get(name)
        if reader is not None:
            return reader.peek(timeout_ms, done)
        return self._ask(name, timeout_ms, done, lambda found, asked: found.peek(timeout_ms, asked))

    def _ask(
        self,
        name: str,
        timeout_ms: int | None,
        done: TakeDone,
        ask: Callable[[LineReader, TakeDone], Waiter | None],
    ) -> _Asking:
        asking = _Asking(done)

        def go_on(reader: LineReader | None) -> None:
            if asking.is_cancelled:
                return
            if reader is not None:
                asking.waiter = ask(reader, done)
            elif timeout_ms:  # a queue that keeps nothing: nothing will come
                asking.wait(self.reactor.callLater(timeout_ms / 1000, partial(done, None)))
            else:
                done(None)

        opened = self._opening.open(parse_queue_name(name), create=name not in self._book.aliases)
        _then(opened, go_on, asking.fail)
        return asking

    def close_oldest(self, session: Session, name: str, count: int = 1) -> int:
        """How many open reads were closed: all that were asked for, or none."""
        reads = session.take_oldest(name, count)
        for read in reads:
            read.reader.close(read)
        return len(reads)

    def abort_oldest(self, session: Session, name: str) -> bool:
        reads = session.take_oldest(name, 1)
        for read in reads:
            read.reader.abort(read)
        return bool(reads)

    def settled(self, done: Done) -> None:
        """Call it once everything that happened so far is written."""
        self.turns.settled(done)

    def written(self) -> Deferred[None]:
        """Fires once everything that happened so far is written, or could not be."""
        done: Deferred[None] = Deferred()
        self.turns.settled(lambda _: done.callback(None))
        return done

    def end(self, session: Session) -> None:
        """The connection is gone: its open reads go back."""
        for read in session.take_all():
            if read.is_open:
                read.reader.abort(read)

    # --- emptying -----------------------------------------------------------------------------------

    def flush(self, name: str, done: Done) -> None:
        """Raises BadQueueName."""
        self._flush([parse_queue_name(name)], done)

    def flush_all(self, done: Done) -> None:
        self._flush([parse_queue_name(name) for name in self.names()], done)

    def _flush(self, names: list[QueueName], done: Done) -> None:
        flushed = self._each(names, lambda reader: succeed(reader.flush()))
        _then(flushed, lambda _: done(None), done)

    def flush_expired(self, name: str, done: Callable[[int | Exception], None]) -> None:
        """How many items were too old. Raises BadQueueName."""
        _then(self._each([parse_queue_name(name)], LineReader.expire_all), done, done)

    def flush_all_expired(self, done: Callable[[int | Exception], None]) -> None:
        names = [parse_queue_name(name) for name in self.names()]
        _then(self._each(names, LineReader.expire_all), done, done)

    @inlineCallbacks
    def _each(
        self, names: list[QueueName], act: Callable[[LineReader], Deferred[int]]
    ) -> Generator[Deferred[Any], Any, int]:
        """Do something with the lines that exist; the sum, when all of it is written."""
        total = 0
        errors: list[Exception | None] = []
        for name in names:
            reader = yield self._opening.open(name, create=False)
            if reader is not None:
                total += yield act(reader)
                self.settled(errors.append)  # of each, or only the last one's would be known
        yield self.written()
        for error in filter(None, errors):
            raise error
        return total

    def delete(self, name: str, done: Done) -> None:
        """Raises BadQueueName."""
        _then(self._opening.delete(parse_queue_name(name)), lambda _: self.settled(done), done)

    # --- asking about queues ------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Every queue and child, open or not."""
        found = {
            QueueName(queue_of(topic), child_of(group)).text
            for group, topic, partition in self.broker.offsets.reserved_places()
            if partition == PARTITION and self.broker.topics.by_name(topic) is not None
        }
        return sorted(found | set(self._readers))

    def stats(self) -> list[tuple[str, QueueStats | AliasStats]]:
        """Of every queue that is open, and of every alias."""
        queues = [(name, found) for name in self.names() if (found := self.queue_stats(name)) is not None]
        return [*queues, *((name, self._alias_stats(name)) for name in sorted(self._book.aliases))]

    def _alias_stats(self, name: str) -> AliasStats:
        return AliasStats(*self._put_by_alias.get(name, (0, 0)), self._book.aliases[name])

    def queue_stats(self, name: str) -> QueueStats | AliasStats | None:
        if name in self._book.aliases:
            return self._alias_stats(name)
        reader = self._readers.get(name)
        return None if reader is None else reader.stats()


class _Asking:
    """Somebody whose queue is being opened, or who asked one that keeps nothing."""

    def __init__(self, done: TakeDone) -> None:
        self._done = done
        self._timer: Timer | None = None
        self.waiter: Waiter | None = None
        self.is_cancelled = False

    def wait(self, timer: Timer) -> None:
        self._timer = timer

    def fail(self, error: Exception) -> None:
        if not self.is_cancelled:
            self._done(error)

    def cancel(self) -> None:
        self.is_cancelled = True
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        if self.waiter is not None:
            self.waiter.cancel()


def _then(opened: Deferred[Any], go_on: Callable[[Any], None], tell: Callable[[Any], None]) -> None:
    """Go on with what was opened, or tell why it could not be."""

    def fail(failure: Failure) -> None:
        error = failure.value
        tell(error if isinstance(error, Exception) else RuntimeError(repr(error)))

    opened.addCallbacks(go_on, fail).addErrback(
        lambda failure: _log.error("a request could not be finished", exc_info=failure.value)
    )
