"""The topics that are open: their partitions by name and by id, created, changed and deleted.

Changes wait for the disk in one thread of their own, in the order they were asked for; what they made is
shown in the reactor's thread, all at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from barbicel.clock import Clock
from barbicel.codecs.topic_file import Topic
from barbicel.config.settings import Config
from barbicel.disk import Disk
from barbicel.gateway.broker.catalogue import Catalogue
from barbicel.gateway.broker.partition import Partition
from barbicel.gateway.broker.producer_file import ProducerFile
from barbicel.gateway.broker.tail import TailBudget
from barbicel.gateway.broker.topic_settings import TopicValues, effective_settings
from barbicel.gateway.broker.worker import Worker
from barbicel.keratin import Log, LogSettings

__all__ = ["Consumption", "OpenTopic", "Topics"]

_log = logging.getLogger(__name__)

# Read handles of one log: there may be thousands of logs.
OPEN_SEGMENTS_OF_A_LOG = 16
OPENING_THREADS = 4


class Consumption(Protocol):
    """What has to know about logs: whoever keeps what was consumed of them."""

    def log_opened(self, topic: str, partition: int, end_offset: int) -> None:
        """Before anything is appended: what was consumed beyond the end never was."""

    def topic_deleted(self, topic: str) -> None: ...


@dataclass(slots=True)
class OpenTopic:
    topic: Topic
    values: TopicValues
    partitions: list[Partition]

    @property
    def name(self) -> str:
        return self.topic.name

    @property
    def id_bytes(self) -> bytes:
        return self.topic.id.bytes


class Topics:
    """Lookups and changes from the reactor's thread."""

    def __init__(
        self,
        disk: Disk,
        catalogue: Catalogue,
        config: Config,
        clock: Clock,
        worker: Worker,
        consumption: Consumption,
    ) -> None:
        self._disk = disk
        self._catalogue = catalogue
        self._config = config
        self._clock = clock
        self._worker = worker
        self._consumption = consumption
        self._budget = TailBudget(config.tail_bytes)
        # Appended to in this turn; whoever ends the turn empties it.
        self.touched: set[Partition] = set()
        self._by_name: dict[str, OpenTopic] = {}
        self._by_id: dict[bytes, OpenTopic] = {}

    # --- lookups ------------------------------------------------------------------------------------

    def by_name(self, name: str) -> OpenTopic | None:
        return self._by_name.get(name)

    def by_id(self, id_bytes: bytes) -> OpenTopic | None:
        return self._by_id.get(id_bytes)

    def find(self, name: str | None, id_bytes: bytes | None) -> OpenTopic | None:
        """By whichever of the two a request has."""
        if name is not None:
            return self._by_name.get(name)
        return None if id_bytes is None else self._by_id.get(id_bytes)

    def partition(self, name: str, number: int) -> Partition | None:
        found = self._by_name.get(name)
        if found is None or not 0 <= number < len(found.partitions):
            return None
        return found.partitions[number]

    def __iter__(self) -> Iterator[OpenTopic]:
        """In the order of their names."""
        return iter(sorted(self._by_name.values(), key=lambda topic: topic.name))

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def catalogue(self) -> Catalogue:
        return self._catalogue

    # --- starting and stopping ----------------------------------------------------------------------

    def open_all(self) -> None:
        """Before the reactor runs: finish what a crash cut short, and recover every log."""
        for path in self._catalogue.strays:
            _log.warning("%s does not belong to any topic and is left alone", path)
        for deleted in self._catalogue.deleted:
            if self._catalogue.by_name(deleted.name) is None:
                self._consumption.topic_deleted(deleted.name)
            self._catalogue.remove_deleted(deleted)
        with ThreadPoolExecutor(OPENING_THREADS, thread_name_prefix="opening") as threads:
            for opened in threads.map(self._open, list(self._catalogue)):
                self._show(opened)

    def close_all(self) -> None:
        """Waits for the disk."""
        for topic in self._by_name.values():
            _close(topic)
        self._by_name.clear()
        self._by_id.clear()

    def _open(self, topic: Topic) -> OpenTopic:
        values = effective_settings(topic.settings, self._config)
        opened = OpenTopic(topic, values, [])
        try:
            for number in range(topic.partitions):
                opened.partitions.append(self._open_partition(opened, number))
        except BaseException:
            _close(opened)
            raise
        return opened

    def _open_partition(self, opened: OpenTopic, number: int) -> Partition:
        topic, values = opened.topic, opened.values
        directory = self._catalogue.layout.partition(topic, number)
        settings = LogSettings(
            segment_max_bytes=values.segment_bytes,
            segment_max_age_ms=values.segment_ms,
            max_open_segments=OPEN_SEGMENTS_OF_A_LOG,
        )
        log = Log.open(directory, disk=self._disk, settings=settings, clock=self._clock)
        try:
            for damage in log.damage:
                _log.error("%s-%d takes no writes: %s", topic.name, number, damage)
            if not log.damage and not log.was_clean:
                self._consumption.log_opened(topic.name, number, log.end_offset)
            producer_file = ProducerFile(self._disk, directory)
            producers = producer_file.restore(log, self._clock)
            return Partition(
                topic,
                number,
                log,
                producers,
                producer_file,
                values,
                self._budget,
                self._config.tail_partition_bytes,
                self._clock,
                self.touched,
            )
        except BaseException:
            log.close()
            raise

    def _show(self, opened: OpenTopic) -> OpenTopic:
        self._by_name[opened.name] = opened
        self._by_id[opened.id_bytes] = opened
        return opened

    # --- changes ------------------------------------------------------------------------------------

    def create(self, name: str, partitions: int, settings: Mapping[str, str]) -> Deferred[OpenTopic]:
        """Fails with what Catalogue.create raises, or what the disk says."""

        def work() -> OpenTopic:
            return self._open(self._catalogue.create(name, partitions, settings))

        return self._worker.run(work).addCallback(self._show)

    def delete(self, name: str) -> Deferred[None]:
        """Its name is free when this is done; its files go after that."""
        opened = self._by_name.get(name)
        if opened is not None:
            del self._by_name[name], self._by_id[opened.id_bytes]
            for partition in opened.partitions:
                partition.forget_tail()
                partition.wake_all()

        def work() -> Topic:
            deleted = self._catalogue.delete(name)
            if opened is not None:
                _close(opened, keep_producers=False)
            self._consumption.topic_deleted(name)
            return deleted

        def restore(failure: Failure) -> Failure:
            if opened is not None and self._catalogue.by_name(name) is opened.topic:
                self._show(opened)
            return failure

        def remove_files(deleted: Topic) -> None:
            self._worker.run(lambda: self._catalogue.remove_deleted(deleted)).addErrback(
                lambda failure: _log.error("the files of %s are left: %s", name, failure.value)
            )

        return self._worker.run(work).addCallbacks(remove_files, restore)

    def add_partitions(self, name: str, total: int) -> Deferred[OpenTopic]:
        def work() -> tuple[Topic, list[Partition]]:
            before = self._catalogue.by_name(name)
            topic = self._catalogue.add_partitions(name, total)
            first = before.partitions if before is not None else 0
            values = effective_settings(topic.settings, self._config)
            opened = OpenTopic(topic, values, [])
            return topic, [self._open_partition(opened, number) for number in range(first, total)]

        def show(made: tuple[Topic, list[Partition]]) -> OpenTopic:
            topic, fresh = made
            known = self._by_name[name]
            return self._change(known, topic, [*known.partitions, *fresh])

        return self._worker.run(work).addCallback(show)

    def change_settings(
        self, name: str, change: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> Deferred[OpenTopic]:
        """`change` makes the new settings out of those in force, in the worker's thread; it may raise."""

        def work() -> Topic:
            before = self._catalogue.by_name(name)
            return self._catalogue.change_settings(name, change(before.settings if before else {}))

        def show(topic: Topic) -> OpenTopic:
            known = self._by_name[name]
            return self._change(known, topic, known.partitions)

        return self._worker.run(work).addCallback(show)

    def _change(self, known: OpenTopic, topic: Topic, partitions: list[Partition]) -> OpenTopic:
        known.topic, known.partitions = topic, partitions
        known.values = effective_settings(topic.settings, self._config)
        for partition in partitions:
            partition.topic, partition.values = topic, known.values
            partition.log.resize(known.values.segment_bytes, known.values.segment_ms)
        return known


def _close(topic: OpenTopic, *, keep_producers: bool = True) -> None:
    for partition in topic.partitions:
        try:
            if keep_producers and partition.log.is_writable:
                partition.producer_file.write(partition.producers.snapshot())
        finally:
            partition.log.close()
