"""The broker: topics, groups and producers together, for whatever protocol asks.

It owns the threads that wait for the disk and the timers; protocols see methods that never wait.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall

from barbicel.clock import Clock, steady_clock_ms, wall_clock_ms
from barbicel.config.settings import Config
from barbicel.disk import Disk
from barbicel.errors import BarbicelError, LogClosed
from barbicel.gateway.broker.appender import Appender
from barbicel.gateway.broker.catalogue import Catalogue
from barbicel.gateway.broker.client_notes import ClientNotes
from barbicel.gateway.broker.consumption import GroupOffsets
from barbicel.gateway.broker.membership import Coordinator, GroupSettings
from barbicel.gateway.broker.partition import Appends, Partition, Waiter
from barbicel.gateway.broker.read_ahead import ReadAhead
from barbicel.gateway.broker.recovered import Recovered, summarise
from barbicel.gateway.broker.tiering.leftover import has_manifests
from barbicel.gateway.broker.topics import Topics
from barbicel.gateway.broker.worker import Worker
from barbicel.gateway.descriptors import Descriptors
from barbicel.gateway.twisted_types import Reactor, Timer
from barbicel.keratin import Ack, WriterSettings
from barbicel.keratin.retention import RetentionRules
from barbicel.stroma import StoreSettings

if TYPE_CHECKING:
    from barbicel.gateway.access.access import Access
    from barbicel.gateway.broker.tiering.tiering import Tiering

__all__ = ["Broker"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

PRODUCER_EXPIRY_CHECK_SECONDS = 600.0
# For what takes long and is thought rather than read: it shares one processor with everything else anyway.
LONG_WORK_THREADS = 2


class Broker:
    """`open` it before the reactor runs, `start` it in the reactor's thread, `close` it at the end."""

    def __init__(
        self,
        disk: Disk,
        catalogue: Catalogue,
        config: Config,
        reactor: Reactor,
        clock: Clock = wall_clock_ms,
        steady_clock: Clock = steady_clock_ms,
        descriptors: Descriptors | None = None,
    ) -> None:
        self.disk = disk
        self.descriptors = descriptors or Descriptors()
        self.config = config
        self.clock = clock
        # For the time-outs of groups: whoever sets the wall clock must not end every session.
        self.steady_clock = steady_clock
        self.reactor = reactor
        self.catalogue = catalogue
        self.node_id = config.node_id
        self.cluster_id = catalogue.cluster.id
        self.data_directory = catalogue.layout.root
        self._changes = Worker(reactor, "topic-changes")
        # Changes of topics may take long, and a producer cannot begin without its id.
        self._producer_ids = Worker(reactor, "producer-ids")
        groups = StoreSettings(max_open_groups=self.descriptors.groups)
        self.offsets = GroupOffsets(disk, catalogue.layout.groups, reactor, clock, groups)
        # Also where it is switched off by now: what left the disk is nowhere else.
        is_tiered = config.remote_log_storage_system_enable or has_manifests(disk, catalogue.layout)
        self.tiering = self._open_tiering() if is_tiered else None
        self.topics = Topics(
            disk, catalogue, config, clock, self._changes, self.offsets, self.descriptors, self.tiering
        )
        self.coordinator = Coordinator(
            GroupSettings(
                initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
                min_session_timeout_ms=config.group_min_session_timeout_ms,
                max_session_timeout_ms=config.group_max_session_timeout_ms,
                max_size=config.group_max_size,
            )
        )
        self._appender = _Appends(
            self,
            reactor,
            Ack(config.durability),
            WriterSettings(flush_ms=config.flush_ms),
            config.writer_shards,
            self._end_turn,
        )
        self._readers = Worker(reactor, "cold-reads", config.background_threads)
        self._remote_readers = Worker(reactor, "remote-reads", config.remote_log_reader_threads)
        self.ahead = ReadAhead(reactor, self.read_cold)
        self._long_work = Worker(reactor, "long-work", LONG_WORK_THREADS)
        self._retention = LoopingCall(self._apply_retention)
        self._producer_expiry = LoopingCall(self._expire_producers)
        self._group_timer: Timer | None = None
        self.notes = ClientNotes(steady_clock)
        # See access/opening.py.
        self.access: Access | None = None
        self._is_closing = False
        self.recovered = Recovered()

    @classmethod
    def open(
        cls,
        disk: Disk,
        config: Config,
        reactor: Reactor,
        clock: Clock = wall_clock_ms,
        steady_clock: Clock = steady_clock_ms,
        descriptors: Descriptors | None = None,
    ) -> Broker:
        """Lock the data directory and recover all that is in it. Waits for the disk."""
        begun_ms = steady_clock()
        catalogue = Catalogue.open(disk, disk.resolve(config.data_directory), clock)
        try:
            broker = cls(disk, catalogue, config, reactor, clock, steady_clock, descriptors)
        except BaseException:
            catalogue.close()
            raise
        try:
            broker.topics.open_all()
        except BaseException:
            broker.close()
            raise
        partitions = (one for topic in broker.topics for one in topic.partitions)
        broker.recovered = summarise(partitions, steady_clock() - begun_ms)
        broker.recovered.tell()
        return broker

    def _open_tiering(self) -> Tiering:
        # A server without a tier starts without what that needs.
        from barbicel.gateway.broker.tiering.tiering import Tiering

        cluster = self.catalogue.cluster.content
        return Tiering(self.disk, self.catalogue.layout, self.config, cluster, self.reactor, self.clock)

    def start(self) -> None:
        """Timers; from here on in the reactor's thread."""
        if self.tiering is not None:
            self.tiering.start()
        for loop, seconds in (
            (self._retention, self.config.log_retention_check_interval_ms / 1000),
            (self._producer_expiry, PRODUCER_EXPIRY_CHECK_SECONDS),
        ):
            loop.clock = self.reactor  # type: ignore[assignment]  # of an interface that is no type
            loop.start(seconds, now=False)

    def close(self) -> None:
        """Make everything durable and let go of the directory. Waits; the reactor's thread or after it."""
        if self._is_closing:
            return
        self._is_closing = True
        for loop in (self._retention, self._producer_expiry):
            if loop.running:
                loop.stop()
        if self._group_timer is not None and self._group_timer.active():
            self._group_timer.cancel()
        self._appender.close()
        if self.access is not None:
            self.access.close()
        workers = self._changes, self._producer_ids, self._readers, self._remote_readers, self._long_work
        for worker in workers:
            worker.close()
        # Each step is taken whatever became of those before it.
        with ExitStack() as steps:
            steps.callback(self.catalogue.close)
            steps.callback(self.offsets.close)
            steps.callback(self.topics.close_all)
            if self.tiering is not None:
                self.tiering.close()

    # --- reading and appending ----------------------------------------------------------------------

    @property
    def append(self) -> Appends:
        """For Partition.produce."""
        return self._appender

    def when_answered(self, call: Callable[[], None]) -> bool:
        """See Appender.when_answered."""
        return self._appender.when_answered(call)

    def read_cold(self, function: Callable[[], T]) -> Deferred[T]:
        """Call something that waits for the disk, in a thread."""
        return self._readers.run(partial(self._unless_closing, function))

    def read_remote(self, function: Callable[[], T]) -> Deferred[T]:
        """The same for what waits for the network."""
        return self._remote_readers.run(partial(self._unless_closing, function))

    def work_long(self, function: Callable[[], T]) -> Deferred[T]:
        """Call something that takes long, in a thread that nobody needs who reads old data.

        Whoever has much to do asks for a piece at a time: others wait behind it.
        """
        return self._long_work.run(partial(self._unless_closing, function))

    def _unless_closing(self, function: Callable[[], T]) -> T:
        """A stop waits for what is under way, and not for all that waits for its turn."""
        if self._is_closing:
            raise LogClosed("the server stops", path=self.data_directory)
        return function()

    def change(self, function: Callable[[], T]) -> Deferred[T]:
        """Call something that changes the disk, after whatever was asked for before."""
        return self._changes.run(function)

    def new_producer_id(self) -> Deferred[int]:
        """An id that was never given out before."""
        return self._producer_ids.run(self.catalogue.cluster.new_producer_id)

    def _end_turn(self) -> None:
        """Appends were answered: wake whoever waits for them, once for all."""
        touched = self.topics.touched
        waiters: set[Waiter] = set()
        due: list[Partition] = []
        for partition in touched:
            waiters |= partition.waiters
            if partition.snapshot_is_due:
                due.append(partition)
        touched.clear()
        for waiter in waiters:
            waiter.wake()
        for partition in due:
            self._write_producers(partition)

    def _write_producers(self, partition: Partition) -> None:
        partition.bytes_since_snapshot = 0
        snapshot = partition.producers.snapshot()
        self.change(partial(partition.keep_producers, snapshot)).addErrback(
            lambda failure: _log.warning("%s", failure.value)
        )

    # --- groups -------------------------------------------------------------------------------------

    def watch_groups(self) -> None:
        """Call it after anything that may have moved the coordinator's next deadline."""
        if self._group_timer is not None and self._group_timer.active():
            self._group_timer.cancel()
        self._group_timer = None
        due_ms = self.coordinator.next_deadline_ms()
        if due_ms is not None and not self._is_closing:
            delay_s = max(0, due_ms - self.steady_clock()) / 1000
            self._group_timer = self.reactor.callLater(delay_s, self._expire_groups)

    def _expire_groups(self) -> None:
        self._group_timer = None
        self.coordinator.expire(self.steady_clock())
        self.watch_groups()

    # --- what happens by itself ---------------------------------------------------------------------

    def _apply_retention(self) -> Deferred[None]:
        """Roll and drop segments in the background; the next round begins when this one has ended.

        One thread does it for all partitions: consumers who read old data need the others. Those with a tier
        are left to that. On a full disk it may have to begin with a log that could not be recovered there.
        """
        # Or one error would be the end of it.
        return (
            self.topics.reopening.try_all()
            .addCallback(lambda _: self._retain())
            .addErrback(lambda failure: _log.error("retention failed", exc_info=failure.value))
        )

    def _retain(self) -> Deferred[None]:
        due = [
            (
                partition,
                RetentionRules(topic.values.retention_bytes, topic.values.retention_ms),
            )
            for topic in self.topics
            for partition in topic.partitions
            if partition.is_writable and partition.stored.tiered is None
        ]

        def work() -> None:
            _retain_all(due)
            self.catalogue.keep_spare()

        return self.read_cold(work)

    def _expire_producers(self) -> None:
        now_ms = self.clock()
        for topic in self.topics:
            for partition in topic.partitions:
                partition.producers.expire(now_ms, self.config.producer_id_expiration_ms)


class _Appends(Appender):
    """What Partition.produce is given: where appends go, and where a batch is opened before."""

    def __init__(self, broker: Broker, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.work_long = broker.work_long

    # No call in between: everything that is produced goes through here.
    __call__ = Appender.append


def _retain_all(due: Sequence[tuple[Partition, RetentionRules]]) -> None:
    for partition, rules in due:
        name, log = f"{partition.topic.name}-{partition.number}", partition.log
        start, size = log.start_offset, log.size_bytes
        # A full disk may have no room for the roll, and some for what is dropped after it.
        for step in (log.roll_if_due, partial(log.retain, rules, partition.keep_producers_until)):
            try:
                step()
            except LogClosed:
                continue  # its topic was deleted meanwhile
            except BarbicelError as error:
                _log.warning("retention: %s: %s", name, error)
        if log.start_offset > start:
            freed = max(0, size - log.size_bytes)
            _log.info("retention: %s begins at offset %d now, %d bytes went", name, log.start_offset, freed)
