"""One queue of a data directory: a topic's only partition, and its groups. No server runs on it.

Batches are built here and written by Keratin's writer: while one is synced the next is built. The groups are
Stroma's, as the gateway has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from barbicel.clock import Clock
from barbicel.codecs.kafka.new_batch import NewRecord, build_appendable
from barbicel.codecs.kafka.record_batch import BadBatch, BatchHeader, decode_header, stamp
from barbicel.codecs.kafka.records import decode_records
from barbicel.codecs.topic_file import Topic
from barbicel.disk import Disk
from barbicel.errors import BarbicelError
from barbicel.gateway.broker.partition import LEADER_EPOCH
from barbicel.gateway.broker.producer_file import ProducerFile
from barbicel.gateway.broker.topic_settings import is_queue
from barbicel.gateway.migration.group_names import GroupNames
from barbicel.gateway.migration.marks import StoredItem, stored_item
from barbicel.gateway.migration.target import (
    NOT_NUMBERED,
    Begun,
    Numbers,
    Reading,
    TargetQueue,
    TargetRefused,
    parse_begun,
    render_begun,
)
from barbicel.keratin import Ack as LogAck
from barbicel.keratin import Appended, Log, Writer
from barbicel.keratin import NewRecord as LogRecord
from barbicel.kestrel_compat.items import MAX_OPENED_BYTES, Unreadable
from barbicel.kestrel_compat.names import MAIN_GROUP, guard_group, is_reserved_group
from barbicel.stroma import BumpAckedUntil, Commit, Event, GroupKey, GroupState, GroupStore, MarkInflight

__all__ = ["PARTITION", "DirectoryQueue"]

PARTITION = 0


class DirectoryQueue(TargetQueue):
    """A topic's only partition and its groups. Whoever opens it closes it."""

    def __init__(
        self,
        disk: Disk,
        topic: Topic,
        log: Log,
        store: GroupStore,
        names: GroupNames,
        writer: Writer,
        clock: Clock,
    ) -> None:
        if log.damage:
            raise TargetRefused(
                f"the log of {topic.name!r} is damaged", path=log.path, hint="see 'barbicel log repair'"
            )
        self.topic = topic
        self._log = log
        self._store = store
        self._names = names
        self._writer = writer
        self._failed: list[Exception] = []
        self._appended = 0
        # What was stored, with its offset; a gateway that goes on must know the numbers.
        self._stored: list[tuple[BatchHeader, int]] = []
        self._clock = clock
        if not log.was_clean:
            self._store.clamp(topic.name, PARTITION, log.end_offset, names.of(topic.name, PARTITION))
        self._producer_file = ProducerFile(disk, log.path)
        self._producers = self._producer_file.restore(log, clock)

    def close(self) -> None:
        try:
            if self._appended:
                # Also of an import that has failed: what is stored behind its back would have no number.
                with suppress(BarbicelError):
                    self._await_answers()
            if self._appended and self._log.is_writable:
                # Or the next start would read all that was appended, in search of producers.
                self._log.sync()
                for header, base_offset in self._stored:
                    self._producers.learn(header, base_offset, self._clock())
                self._producers.advance(self._log.end_offset)
                self._producer_file.write(self._producers.snapshot())
        finally:
            self._log.close()

    @property
    def start_offset(self) -> int:
        return self._log.start_offset

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    # --- lines --------------------------------------------------------------------------------------

    @property
    def groups(self) -> frozenset[str]:
        return frozenset(filter(is_reserved_group, self._names.of(self.topic.name, PARTITION)))

    def begin_lines(self, groups: Sequence[str]) -> None:
        """Those that there are stay where they are. Others begin as in the gateway: at the end, but that the
        first readers of a topic that Kafka made find all of it."""
        fresh = [key for group in groups if not self._store.exists(key := self._key(group))]
        for key in fresh:
            finds_all = key.group == MAIN_GROUP and not is_queue(self.topic.settings)
            first_offset = self._log.start_offset if finds_all else self._log.end_offset
            self._store.record(key, [BumpAckedUntil(first_offset)])
        self._names.add(fresh)
        self._store.sync(fresh)

    def state(self, group: str) -> GroupState | None:
        key = self._key(group)
        return self._store.state(key) if self._store.exists(key) else None

    def reading(self, group: str) -> Reading | None:
        state = self.state(group)
        return None if state is None else Reading(state.acked_until, state.is_acked)

    def keep_open(self, group: str, offsets: Sequence[int], deadline_ms: int) -> None:
        self._record(group, [MarkInflight(offset, deadline_ms, 0) for offset in offsets])

    def _key(self, group: str) -> GroupKey:
        return GroupKey(self.topic.name, PARTITION, group)

    def _record(self, group: str, events: Sequence[Event]) -> None:
        key = self._key(group)
        self._names.add([key])
        self._store.record(key, events)
        self._store.sync([key])

    # --- an import ----------------------------------------------------------------------------------

    def begun(self) -> Begun | None:
        state = self.state(guard_group(self.topic.name))
        if state is None or state.metadata is None:
            return None
        return parse_begun(state.metadata.decode("utf-8", "replace"), state.acked_until)

    def begin(self, import_id: str, *, is_again: bool = False) -> Begun:
        begun = Begun(import_id, self._log.end_offset, is_again)
        commit = Commit(begun.first_offset, None, render_begun(begun).encode())
        self._record(guard_group(self.topic.name), [commit])
        return begun

    def end(self) -> None:
        guard = self._key(guard_group(self.topic.name))
        self._store.delete(guard)
        self._names.remove(guard)

    # --- records ------------------------------------------------------------------------------------

    def append(self, batch: Sequence[NewRecord], numbers: Numbers = NOT_NUMBERED) -> None:
        data = build_appendable(batch, numbers[:3])
        max_timestamp = max(record.timestamp_ms for record in batch)
        record = LogRecord(
            data,
            timestamp_ms=max_timestamp if max_timestamp >= 0 else None,
            span=len(batch),
            stamp=partial(_stamp, data),
        )
        self._raise_failed()
        self._appended += 1
        # Nobody waits for it: what counts is that all is durable before the ledger says so.
        header = decode_header(memoryview(data)) if numbers is not NOT_NUMBERED else None
        self._writer.submit(self._log, (record,), partial(self._answered, header), LogAck.AFTER_WRITE)

    def _answered(self, header: BatchHeader | None, outcome: Appended | Exception) -> None:
        if isinstance(outcome, Exception):
            self._failed.append(outcome)
        elif header is not None:
            self._stored.append((header, outcome.base_offset))

    def settle(self) -> None:
        if self._appended:
            self._await_answers()
        self._raise_failed()

    def _await_answers(self) -> None:
        """Answers come in order: this one is the last."""
        self._writer.append(self._log, ())

    def _raise_failed(self) -> None:
        if self._failed:
            raise self._failed[0]

    def scan(
        self, from_offset: int, passed_over: Callable[[Unreadable], None] = lambda unreadable: None
    ) -> Iterator[StoredItem]:
        """Everything that is an item to a reader of the gateway. Raises CorruptLog.

        What a producer has put into a batch nobody looks at before: what cannot be read is passed over, as it
        is for readers.
        """
        for record in self._log.scan(max(from_offset, self._log.start_offset)):
            try:
                yield from _items(record.payload, from_offset)
            except BadBatch as error:
                passed_over(Unreadable(record.offset, record.end_offset, error.message))


def _items(batch: memoryview, from_offset: int) -> Iterator[StoredItem]:
    header = decode_header(batch)
    if header.is_control:
        return
    max_bytes = MAX_OPENED_BYTES if header.codec else max(MAX_OPENED_BYTES, len(batch))
    for offset, added_ms, _, data, headers in decode_records(batch, max_bytes=max_bytes):
        if data is not None and offset >= from_offset:
            yield stored_item(offset, added_ms, data, headers)


def _stamp(batch: bytearray, base_offset: int) -> None:
    stamp(batch, base_offset, LEADER_EPOCH)
