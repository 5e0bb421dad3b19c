"""One queue: a topic's only partition, those who put into it, and the lines that read it.

What is put in one turn of the reactor is one batch. What others append to the partition, Kafka's producers
for example, is counted in a thread, so that statistics and limits hold for it too. Reactor thread only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from twisted.internet.defer import Deferred

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.new_batch import NewRecord, build_appendable
from barbicel.codecs.kafka.record_batch import Batch, decode_header
from barbicel.errors import BarbicelError, LogClosed
from barbicel.gateway.broker.partition import Partition, Produced
from barbicel.gateway.broker.topics import OpenTopic
from barbicel.gateway.kestrel.counting import Found, count_items
from barbicel.gateway.kestrel.line_reader import LineReader
from barbicel.kestrel_compat.items import Audience, Item, new_record
from barbicel.kestrel_compat.names import MAIN_GROUP, QueueName
from barbicel.stroma.ranges import RangeSet

if TYPE_CHECKING:
    from barbicel.gateway.kestrel.queues import Queues

__all__ = ["PutDone", "Queue"]

_log = logging.getLogger(__name__)

T = TypeVar("T")
# Whether it was stored, or refused by the queue's rules.
PutDone: TypeAlias = Callable[[bool | Exception], None]

# A batch is closed at this size: Kafka's consumers get at least one whole batch, and no more than they want.
MAX_BATCH_BYTES = 512 << 10


class _Put(NamedTuple):
    record: NewRecord
    size: int
    audience: Audience
    # Whose limits it counts against until it is appended.
    takers: Sequence[LineReader]
    done: PutDone


class Queue:
    """Made by Queues, which opens its topic. It waits for its partition's appends for as long as it lives."""

    def __init__(self, queues: Queues, master: str, opened: OpenTopic) -> None:
        self.queues = queues
        self.master = master
        self.opened = opened
        self.partition: Partition = opened.partitions[0]
        self.readers: dict[str, LineReader] = {}
        self.reactor = queues.reactor
        self.clock = queues.broker.clock
        self.turns = queues.turns
        self.main_group = MAIN_GROUP
        self.is_dropped = False
        # Only then every put asks the lines.
        self.is_limited = False
        self._puts: list[_Put] = []
        # While there is one, what is put gathers: the more there is to do, the more goes in one batch.
        self._appends_under_way = 0
        self._unanswered_puts = 0
        self._counted_until = self.partition.end_offset
        self._counts_under_way = 0
        # Of these, those that look through what a line found when it was opened.
        self._backlogs_under_way = 0
        self._when_counted: list[Callable[[], None]] = []
        self.partition.waiters.add(self)

    @property
    def topic(self) -> str:
        return self.opened.name

    @property
    def is_counting(self) -> bool:
        """Whether the lines' counts are still to be found."""
        return self._counts_under_way > 0

    @property
    def is_counted(self) -> bool:
        """Whether the lines' counts are of all that the log has."""
        return not self._counts_under_way and self._counted_until == self.partition.end_offset

    @property
    def has_puts_under_way(self) -> bool:
        return self._unanswered_puts > 0 or bool(self._when_counted)

    @property
    def is_queue_topic(self) -> bool:
        """Made by Kestrel: what all groups are past is dropped. Kafka's own topics have Kafka's retention."""
        return self.opened.values.is_queue

    # --- lines --------------------------------------------------------------------------------------

    def add(self, reader: LineReader) -> None:
        self.readers[reader.key.group] = reader
        self.look_at_settings()
        line = reader.line
        if line.frontier < self._counted_until:
            self._backlogs_under_way += 1
            self._count([reader], line.frontier, self._counted_until, line.acked.copy()).addBoth(
                self._backlog_counted
            )

    def remove(self, group: str) -> None:
        self.readers.pop(group).end()
        self.look_at_settings()

    def look_at_settings(self) -> None:
        """They may have changed, or the lines have."""
        for reader in self.readers.values():
            reader.settings = self.queues.settings_of(reader.name)
        rules = [reader.settings for reader in self.readers.values()]
        self.is_limited = any(
            rule.fanout_only
            or rule.max_items is not None
            or rule.max_size_bytes is not None
            or rule.max_item_size_bytes is not None
            for rule in rules
        )

    def name_of(self, child: str | None) -> str:
        return QueueName(self.master, child).text

    def errors_queue(self, name: str) -> str:
        """Where items go that were handed out too often. A child's is no child: it would get all the rest."""
        return f"{name.replace('+', '_')}_errors"

    def put_elsewhere(self, name: str, item: Item, done: PutDone) -> None:
        """Whatever the limits are there: an item that leaves one queue must not be lost on its way."""
        self.queues.put(name, item.data, item.flags, None, done, is_limited=False)

    def read_cold(self, function: Callable[[], T]) -> Deferred[T]:
        broker, stored = self.queues.broker, self.partition.stored
        # Of a queue that is partly in an object store any read may wait for the network.
        return (broker.read_cold if stored.tiered is None else broker.read_remote)(function)

    # --- putting ------------------------------------------------------------------------------------

    def put(
        self,
        data: bytes,
        flags: int,
        expiry_ms: int | None,
        only: str | None,
        done: PutDone,
        *,
        is_limited: bool = True,
    ) -> None:
        """For all lines, or `only` for one group's. Answered when it is as durable as the setting says."""
        audience: Audience = None if only is None else frozenset((only,))
        takers: Sequence[LineReader] = ()
        if self.is_limited and is_limited:
            if self._backlogs_under_way:  # what the limits are about is not known yet
                self._when_counted.append(partial(self.put, data, flags, expiry_ms, only, done))
                return
            is_stored, audience, takers = self._judge(len(data), audience)
            if not is_stored and not audience:
                done(False)
                return
            if not is_stored:
                done = partial(_answer_refused, done)
        if not self._puts and not self._appends_under_way:
            self.reactor.callLater(0, self._append)
        record = new_record(data, flags, expiry_ms, audience, self.clock())
        self._puts.append(_Put(record, len(data), audience, takers, done))
        self._unanswered_puts += 1

    def _judge(self, size: int, audience: Audience) -> tuple[bool, Audience, Sequence[LineReader]]:
        """What the client is told, and who gets the item. As in Kestrel, a queue's own line decides on the
        answer, and a child that is full goes without."""
        asked = [one for group, one in self.readers.items() if audience is None or group in audience]
        takers = [reader for reader in asked if reader.accepts(size)]
        for reader in takers:
            reader.coming_items += 1
            reader.coming_bytes += size
        if len(takers) == len(asked):
            return True, audience, takers
        refused = [reader for reader in asked if reader not in takers]
        is_stored = not any(self._decides(reader, audience) for reader in refused)
        return is_stored, frozenset(reader.key.group for reader in takers), takers

    def _decides(self, reader: LineReader, audience: Audience) -> bool:
        if reader.settings.fanout_only and reader.key.group == MAIN_GROUP:
            return False
        return audience is not None or reader.key.group == MAIN_GROUP

    def _append(self) -> None:
        puts, self._puts = self._puts, []
        for batch in _batches(puts):
            data = memoryview(build_appendable([put.record for put in batch]))
            self._appends_under_way += 1
            self.partition.produce(
                Batch(decode_header(data), data), self.queues.broker.append, partial(self._appended, batch)
            )

    def _appended(self, puts: list[_Put], produced: Produced) -> None:
        self._unanswered_puts -= len(puts)
        self._appends_under_way -= 1
        if self._puts and not self._appends_under_way:
            self.reactor.callLater(0, self._append)
        if produced.error_code != ErrorCode.NONE:
            error = BarbicelError(produced.message or ErrorCode(produced.error_code).name)
            self._forget_coming(puts)
            for put in puts:
                put.done(error)
            return
        self._take_count_of(produced.base_offset, puts)
        for put in puts:
            put.done(True)

    def _forget_coming(self, puts: Iterable[_Put]) -> None:
        for put in puts:
            for reader in put.takers:
                reader.coming_items -= 1
                reader.coming_bytes -= put.size

    def _take_count_of(self, base_offset: int, puts: list[_Put]) -> None:
        self._count_up_to(base_offset)
        self._counted_until = base_offset + len(puts)
        everybodys = [put.size for put in puts if put.audience is None]
        for group, reader in self.readers.items():
            sizes = everybodys
            if len(everybodys) < len(puts):
                sizes = [put.size for put in puts if put.audience is None or group in put.audience]
            if sizes:
                reader.count(len(sizes), sum(sizes))
                reader.total_items += len(sizes)
                reader.newest_bytes = sizes[-1]
        self._forget_coming(puts)

    # --- what others append -------------------------------------------------------------------------

    def wake(self) -> None:
        """The partition was appended to, or its topic is gone."""
        if self.queues.broker.topics.by_name(self.topic) is not self.opened:
            self.drop()
            return
        self._count_up_to(self.partition.end_offset)
        for reader in list(self.readers.values()):
            reader.serve()

    def _count_up_to(self, end_offset: int) -> None:
        start, self._counted_until = self._counted_until, max(self._counted_until, end_offset)
        if start < end_offset and self.readers:
            for reader in self.readers.values():
                reader.total_items += end_offset - start
            # What was taken of it already has been subtracted, and has to be counted too.
            self._count(list(self.readers.values()), start, end_offset, RangeSet())

    def _count(
        self, readers: list[LineReader], start: int, end_offset: int, acked: RangeSet
    ) -> Deferred[None]:
        """Look through what is there already, in a thread."""
        self._counts_under_way += 1
        wanted = {reader.key.group: acked for reader in readers}
        flushed = [reader.flushed_to for reader in readers]
        for reader in readers:
            if reader.flushed_to > start:
                wanted[reader.key.group] = ranges = acked.copy()
                ranges.add(start, reader.flushed_to)
        return (
            count_items(self.read_cold, self.partition, start, end_offset, wanted)
            .addCallback(self._count_found, readers, flushed)
            .addErrback(lambda failure: self._count_failed(failure.value))
            .addBoth(self._count_ended)
        )

    def _count_found(self, found: Found, readers: list[LineReader], flushed: list[int]) -> None:
        for reader, flushed_to in zip(readers, flushed, strict=True):
            if reader.flushed_to == flushed_to and not reader.is_ended:
                reader.count(*found[reader.key.group])
                reader.serve()  # there may be too many now

    def _count_failed(self, error: BaseException | None) -> None:
        if not isinstance(error, LogClosed):
            _log.error("the items of %s could not be counted: %s", self.master, error)

    def _count_ended(self, _: object) -> None:
        self._counts_under_way -= 1

    def _backlog_counted(self, _: object) -> None:
        self._backlogs_under_way -= 1
        if not self._backlogs_under_way:
            waiting, self._when_counted = self._when_counted, []
            for put in waiting:
                put()

    # --- ending -------------------------------------------------------------------------------------

    def drop(self, error: BarbicelError | None = None) -> None:
        """Nothing here counts any more: the topic is gone, or a line's events could not be written."""
        if self.is_dropped:
            return
        self.is_dropped = True
        self.partition.waiters.discard(self)
        self.queues.forget(self)
        for reader in list(self.readers.values()):
            reader.end(error)


def _answer_refused(done: PutDone, outcome: bool | Exception) -> None:
    """Others got the item, but the queue that was asked did not."""
    done(False if outcome is True else outcome)


def _batches(puts: list[_Put]) -> Iterable[list[_Put]]:
    batch: list[_Put] = []
    size = 0
    for put in puts:
        if batch and size + put.size > MAX_BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(put)
        size += put.size
    if batch:
        yield batch
