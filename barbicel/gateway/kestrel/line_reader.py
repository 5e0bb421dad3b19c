"""A line in use: filled from the log, asked by clients, who wait in order until there is something for them.

Reactor thread only. What is in the partition's tail is decoded at once, everything else in a thread.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Generator
from functools import partial
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.python.failure import Failure

from barbicel.codecs.stroma_events import Event
from barbicel.config.queue_settings import QueueSettings
from barbicel.errors import BarbicelError
from barbicel.gateway.broker.partition import Partition
from barbicel.gateway.kestrel.session import OpenRead, Session
from barbicel.gateway.kestrel.stretches import FILL_BYTES, decode_from, is_cheap, read_stretch
from barbicel.gateway.kestrel.waiter import TakeDone, Waiter
from barbicel.gateway.twisted_types import Timer
from barbicel.kestrel_compat.items import Item, Mark, Stretch
from barbicel.kestrel_compat.line import Line
from barbicel.kestrel_compat.stats import QueueStats
from barbicel.stroma import GroupKey

if TYPE_CHECKING:
    from barbicel.gateway.kestrel.queue import Queue

__all__ = ["LineReader"]

_log = logging.getLogger(__name__)

# What is read ahead at a time in a thread.
COLD_FILL_BYTES = 1 << 20
# A larger item is not kept for as long as it is open: if it comes back it is read again.
KEPT_BYTES = 16 << 10
# Deadlines of reads that are not open any more are thrown out when there are so many.
SPARE_DEADLINES = 64


class LineReader:
    """See the module. `name` is the queue's as clients spell it, a child's with its master's."""

    def __init__(self, queue: Queue, name: str, key: GroupKey, line: Line, settings: QueueSettings) -> None:
        self.queue = queue
        self.name = name
        self.key = key
        self.line = line
        self.settings = settings
        self.is_ended = False
        self.begun_ms = queue.clock()
        self.used_ms = self.begun_ms
        # Kestrel's statistics of a queue, since the start.
        self.total_items = self.expired_items = self.discarded = 0
        self.transactions = self.canceled_transactions = self.total_flushes = 0
        self.age_ms = 0
        # Of what is put and not appended yet: it counts against the limits.
        self.coming_items = self.coming_bytes = 0
        self.newest_bytes = 0
        # Whatever is in the log below it is done with, and is not to be counted.
        self.flushed_to = 0
        self._error: BarbicelError | None = None
        # The first first.
        self._waiting: OrderedDict[Waiter, None] = OrderedDict()
        # How many of them are not patient.
        self._hasty = 0
        self._is_filling = False
        self._is_sweeping = False
        self._deadlines: list[tuple[int, int, OpenRead]] = []
        self._deadline_timer: Timer | None = None
        self._watched_ms = 0
        self._when_filled: list[Deferred[None]] = []

    @property
    def partition(self) -> Partition:
        return self.queue.partition

    @property
    def waiters(self) -> int:
        return len(self._waiting)

    # --- for Turns ----------------------------------------------------------------------------------

    def take_events(self) -> list[Event]:
        """None when the line has ended: its group may be gone, and what is written would bring it back. What
        followed an error was made of what nobody has got."""
        if self._error is not None:
            raise self._error
        return [] if self.is_ended else self.line.take_events()

    def fail(self, error: BarbicelError) -> None:
        if not self.is_ended:
            _log.error("queue %s is read again from its files: %s", self.name, error)
            self.queue.drop(error)

    # --- asking -------------------------------------------------------------------------------------

    def take(
        self, session: Session, *, is_open: bool, timeout_ms: int | None, done: TakeDone
    ) -> Waiter | None:
        if not self._waiting:
            item = self._next()
            if item is not None:
                self._give(session, is_open, done)
                return None
        return self._wait(
            Waiter(self, session, is_open=is_open, is_patient=bool(timeout_ms), done=done), timeout_ms
        )

    def peek(self, timeout_ms: int | None, done: TakeDone) -> Waiter | None:
        item = self._next()
        if item is not None:
            done(item)
            return None
        return self._wait(
            Waiter(self, None, is_open=False, is_patient=bool(timeout_ms), done=done), timeout_ms
        )

    def _wait(self, waiting: Waiter, timeout_ms: int | None) -> Waiter | None:
        if self._is_known_empty:
            self._correct_counts()
            if not waiting.is_patient:
                waiting.done(None)
                return None
        self._waiting[waiting] = None
        self._hasty += not waiting.is_patient
        if timeout_ms:
            waiting.timer = self.queue.reactor.callLater(timeout_ms / 1000, partial(self._time_out, waiting))
        return waiting

    def _time_out(self, waiting: Waiter) -> None:
        self.forget(waiting)
        waiting.done(None)

    def forget(self, waiting: Waiter) -> None:
        if waiting in self._waiting:
            del self._waiting[waiting]
            self._hasty -= not waiting.is_patient

    def serve(self) -> None:
        """Something has changed: give what there is to those who wait, in their order."""
        while self._waiting and (item := self._next()) is not None:
            waiting, _ = self._waiting.popitem(last=False)
            self._hasty -= not waiting.is_patient
            if waiting.timer is not None and waiting.timer.active():
                waiting.timer.cancel()
            if waiting.session is None:
                waiting.done(item)
            else:
                self._give(waiting.session, waiting.is_open, waiting.done)
        if self.settings.discard_old_when_full:  # what somebody waits for is not too much
            self._discard_surplus()
        if self._waiting and self._is_known_empty:
            self._correct_counts()
            if self._hasty:  # thousands may wait patiently, and need not be looked at for every item
                self._send_away(lambda waiting: not waiting.is_patient, None)

    def _send_away(self, which: Callable[[Waiter], bool], answer: Exception | None) -> None:
        sent = [waiting for waiting in self._waiting if which(waiting)]
        for waiting in sent:
            waiting.cancel()
        for waiting in sent:
            waiting.done(answer)

    @property
    def _is_known_empty(self) -> bool:
        return not self._is_filling and self.line.head() is None and not self._has_more

    @property
    def _has_more(self) -> bool:
        return self.line.cursor < self.partition.end_offset or self.line.missing is not None

    # --- handing out --------------------------------------------------------------------------------

    def _next(self) -> Item | None:
        """The item at the head, which is still to be popped. What is too old, or was handed out too often,
        is got out of the way."""
        line, settings = self.line, self.settings
        while True:
            item = line.head()
            if item is None:
                if not self._fill():
                    return None
            elif self._is_expired(item):
                self._expire()
            elif settings.delivery_limit and self._is_handed_out_too_often(item):
                self._move(line.pop(), self.queue.errors_queue(self.name))
            else:
                return item

    def _is_expired(self, item: Item | Mark) -> bool:
        if item.expiry_ms is None and self.settings.max_age_ms is None:
            return False
        deadline_ms = item.deadline_ms(self.settings.max_age_ms)
        return deadline_ms is not None and deadline_ms <= self.queue.clock()

    def _is_handed_out_too_often(self, item: Item) -> bool:
        return self.line.deliveries.get(item.offset, 0) >= self.settings.delivery_limit

    def _give(self, session: Session, is_open: bool, done: TakeDone) -> None:
        now_ms = self.used_ms = self.queue.clock()
        item = self.line.pop()
        self.age_ms = max(0, now_ms - item.added_ms)
        if is_open:
            self._open(item, session, now_ms)
        else:
            self.line.ack(item.offset)
        self.queue.turns.answer(self, done, item)

    def _open(self, item: Item, session: Session, now_ms: int) -> None:
        timeout_ms = self.settings.open_transaction_timeout_ms
        deadline_ms = None if timeout_ms is None else now_ms + timeout_ms
        read = OpenRead(self, _kept(item), self.line.hand_out(item, deadline_ms))
        session.add(self.name, read)
        self.transactions += 1
        if deadline_ms is not None:
            if len(self._deadlines) > SPARE_DEADLINES + 2 * len(self.line.open):
                self._deadlines = [due for due in self._deadlines if due[2].is_open]
                heapify(self._deadlines)
            heappush(self._deadlines, (deadline_ms, item.offset, read))
            self._watch_deadlines()

    # --- what becomes of open reads -----------------------------------------------------------------

    def close(self, read: OpenRead) -> None:
        self.line.ack(read.item.offset)
        self.queue.turns.touch(self)

    def abort(self, read: OpenRead) -> None:
        """Back to the head; whoever waits gets it."""
        self.canceled_transactions += 1
        self.line.give_back(_kept(read.item))
        self.queue.queues.ahead.note(self)
        self.queue.turns.touch(self)
        self.serve()

    def _watch_deadlines(self) -> None:
        """Deadlines rise, but for a change of the setting: the timer is for the first one or an earlier."""
        if not self._deadlines:
            return
        due_ms = self._deadlines[0][0]
        if self._deadline_timer is not None and self._deadline_timer.active():
            if self._watched_ms <= due_ms:
                return
            self._deadline_timer.cancel()
        self._watched_ms = due_ms
        delay_s = max(0, due_ms - self.queue.clock()) / 1000
        self._deadline_timer = self.queue.reactor.callLater(delay_s, self._end_overdue)

    def _end_overdue(self) -> None:
        now_ms = self.queue.clock()
        self._deadline_timer = None
        while self._deadlines and (self._deadlines[0][0] <= now_ms or not self._deadlines[0][2].is_open):
            read = heappop(self._deadlines)[2]
            if read.is_open:
                self.line.lapses += 1
                self.abort(read)
        self._watch_deadlines()

    # --- getting rid of items -----------------------------------------------------------------------

    def _expire(self) -> None:
        item = self.line.pop()
        self.expired_items += 1
        to_queue = self.settings.expire_to_queue
        if to_queue and to_queue != self.name:  # a default speaks of that queue too
            self._move(item, to_queue)
        else:
            self.line.ack(item.offset)
            self.queue.turns.touch(self)

    def expire_heads(self, limit: int | None) -> int:
        """How many were too old, of those that are in front of all that are not."""
        before = self.expired_items
        while (first := self._first_or_fill()) is not None and self._is_expired(first):
            if limit is not None and self.expired_items - before >= limit:
                break
            if self.line.head() is not None:
                self._expire()
            elif not self._fill():
                break
        return self.expired_items - before

    def sweep(self) -> None:
        """Look for expired items, wherever they are, or for as many as the settings say."""
        if not self._is_sweeping:
            self._is_sweeping = True
            # What cannot be read is told where that is found out.
            self.expire_all(self.settings.max_expire_sweep).addBoth(lambda _: self._end_sweep())

    def _end_sweep(self) -> None:
        self._is_sweeping = False
        if not self.is_ended:
            self.serve()

    @inlineCallbacks
    def expire_all(self, limit: int | None = None) -> Generator[Deferred[None], Any, int]:
        """The same, wherever they are. Fails if the log cannot be read."""
        found = self.expire_heads(limit)
        while self._is_filling and (limit is None or found < limit):
            filled: Deferred[None] = Deferred()
            self._when_filled.append(filled)
            yield filled
            found += self.expire_heads(None if limit is None else limit - found)
        return found

    def _first_or_fill(self) -> Item | Mark | None:
        """A mark tells how old it is, and nothing has to be read for that."""
        return self.line.first() or self._head_or_fill()

    def _head_or_fill(self) -> Item | None:
        while (item := self.line.head()) is None and self._fill():
            pass
        return item

    def _move(self, item: Item, to_queue: str) -> None:
        """It is done with here when it is stored there. If that fails it is found here after a restart."""
        moved = partial(self._moved, item, to_queue)
        try:
            self.queue.put_elsewhere(to_queue, item, moved)
        except BarbicelError as error:  # of the name, which may be too long for a queue of errors
            moved(error)

    def _moved(self, item: Item, to_queue: str, outcome: bool | Exception) -> None:
        if isinstance(outcome, Exception):
            _log.error("an item of %s could not be moved to %s: %s", self.name, to_queue, outcome)
            return
        if not self.is_ended:
            self.line.ack(item.offset)
            self.queue.turns.touch(self)

    def accepts(self, size: int) -> bool:
        """Whether an item of this size may be put, by the queue's rules."""
        settings, line = self.settings, self.line
        if settings.fanout_only and self.key.group == self.queue.main_group:
            return False
        if settings.max_item_size_bytes is not None and size > settings.max_item_size_bytes:
            return False
        if settings.discard_old_when_full:
            return True
        return not (
            (settings.max_items is not None and line.items + self.coming_items >= settings.max_items)
            or (
                settings.max_size_bytes is not None
                and line.bytes + self.coming_bytes >= settings.max_size_bytes
            )
        )

    def _discard_surplus(self) -> None:
        while self._is_over_full and (item := self._head_or_fill()) is not None:
            if self._is_expired(item):
                self._expire()
                continue
            self.line.ack(self.line.pop().offset)
            self.discarded += 1
            self.queue.turns.touch(self)

    @property
    def _is_over_full(self) -> bool:
        """As Kestrel sees it: with the newest item came one too many."""
        settings, line = self.settings, self.line
        return (settings.max_items is not None and line.items > settings.max_items) or (
            settings.max_size_bytes is not None
            and line.items > 1
            and line.bytes - self.newest_bytes >= settings.max_size_bytes
        )

    def flush(self) -> int:
        self.total_flushes += 1
        self.flushed_to = self.partition.end_offset
        flushed = self.line.flush(self.flushed_to)
        self.queue.turns.touch(self)
        return flushed

    # --- counting -----------------------------------------------------------------------------------

    def stats(self) -> QueueStats:
        line, log = self.line, self.partition.log
        children: list[str] = []
        if self.key.group == self.queue.main_group:
            children = [reader.name for reader in self.queue.readers.values() if reader is not self]
        return QueueStats(
            items=max(0, line.items),
            bytes=max(0, line.bytes),
            total_items=self.total_items,
            logsize=log.size_bytes,
            expired_items=self.expired_items,
            mem_items=line.held_items,
            mem_bytes=line.ahead_bytes,
            age_ms=self.age_ms if line.items > 0 else 0,
            discarded=self.discarded,
            waiters=self.waiters,
            open_transactions=len(line.open) + len(line.lent),
            transactions=self.transactions,
            canceled_transactions=self.canceled_transactions,
            total_flushes=self.total_flushes,
            journal_rewrites=0,  # there are none: segments are dropped whole
            journal_rotations=len(log.segments),
            children=sorted(children) if children else None,
        )

    def count(self, items: int, item_bytes: int) -> None:
        """Items of this line are in the log, to be had."""
        self.line.items += items
        self.line.bytes += item_bytes

    def _correct_counts(self) -> None:
        """Of a line that is known to be empty: what retention has taken was counted, and never handed out."""
        if self.line.items and self.queue.is_counted:
            self.line.items = self.line.bytes = 0

    # --- filling ------------------------------------------------------------------------------------

    def _fill(self) -> bool:
        """Get more from the log; whether that was done at once. If there is more, `serve` follows."""
        if self._is_filling or self.is_ended or not self._has_more:
            return False
        partition, line, missing = self.partition, self.line, self.line.missing
        if missing is None:
            take, start, end_offset = line.receive, line.cursor, partition.end_offset
            most_bytes = self.settings.max_memory_size_bytes
        else:
            take, start, end_offset = line.restore, missing, missing + 1
            most_bytes = 1  # so that it is one batch
        if partition.is_in_tail(start):
            fill_bytes = min(FILL_BYTES, most_bytes)
            batches = partition.read_tail(start, fill_bytes, at_least_one=True)
            if all(is_cheap(batch) for batch in batches):
                self._receive(take, decode_from(batches, start, partition, fill_bytes))
                return True
        self._is_filling = True
        self.queue.read_cold(
            partial(read_stretch, partition, start, end_offset, min(COLD_FILL_BYTES, most_bytes))
        ).addCallbacks(partial(self._filled, take), self._fill_failed)
        return False

    def _receive(self, take: Callable[[Stretch], None], stretch: Stretch) -> None:
        take(stretch)
        self.queue.queues.ahead.note(self)
        self.queue.turns.touch(self)
        for base_offset, end_offset, reason in stretch.unreadable:
            _log.error(
                "%s: items in offsets %d to %d cannot be read, and are passed over: %s",
                self.name,
                base_offset,
                end_offset - 1,
                reason,
            )

    def _filled(self, take: Callable[[Stretch], None], stretch: Stretch) -> None:
        self._is_filling = False
        if not self.is_ended:
            self._receive(take, stretch)
            self.serve()
        self._tell_filled()

    def _tell_filled(self, error: BaseException | None = None) -> None:
        waiting, self._when_filled = self._when_filled, []
        for filled in waiting:
            if error is None:
                filled.callback(None)
            else:
                filled.errback(error)

    def _fill_failed(self, failure: Failure) -> None:
        self._is_filling = False
        error = failure.value
        if isinstance(error, BarbicelError):
            self.partition.report_damage(error)
        else:
            _log.error("queue %s cannot be read", self.name, exc_info=error)
        if not self.is_ended:
            answer = error if isinstance(error, Exception) else None
            self._send_away(lambda waiting: True, answer)
        self._tell_filled(error)

    def take_back(self, now_ms: int) -> None:
        """What an import has left open is due."""
        if self.line.lent and self.line.take_back(now_ms):
            self.queue.turns.touch(self)
            self.serve()

    def rest(self, now_ms: int, idle_ms: int) -> None:
        """Nobody has asked for long: what was read ahead goes, and is read again when somebody asks."""
        if now_ms - self.used_ms > idle_ms:
            self.let_go()

    # --- for AheadBudget ----------------------------------------------------------------------------

    @property
    def held_bytes(self) -> int:
        return self.line.held_bytes

    def let_go(self) -> None:
        if not self._is_filling and not self._waiting:
            self.line.forget_ahead()

    # --- ending -------------------------------------------------------------------------------------

    def end(self, error: BarbicelError | None = None) -> None:
        """The queue is gone, or its files are read anew: nobody gets anything from here any more."""
        self.is_ended, self._error = True, error
        self.line.lapse_all()
        self.queue.queues.ahead.leave(self)
        self._deadlines.clear()
        if self._deadline_timer is not None and self._deadline_timer.active():
            self._deadline_timer.cancel()
        self._send_away(lambda waiting: True, None)


def _kept(item: Item | Mark) -> Item | Mark:
    """What of an item that somebody has open is held here."""
    return item if isinstance(item, Mark) or len(item.data) <= KEPT_BYTES else item.mark
