"""The topics that are open: their partitions by name and by id, created, changed and deleted.

Changes wait for the disk in one thread of their own, in the order they were asked for; what they made is
shown in the reactor's thread, all at once and in the same order. A topic that is being deleted is hidden
before that, so what is shown may lag behind what is open, and only the worker's thread looks at the latter.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from barbicel.clock import Clock
from barbicel.codecs.topic_file import Topic
from barbicel.config.settings import Config
from barbicel.disk import Disk
from barbicel.errors import BarbicelError, offsets_text
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
OPENING_THREADS = 8


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


class _Held(NamedTuple):
    """A topic as the worker knows it: these partitions are open, perhaps more than are shown yet."""

    topic: OpenTopic
    partitions: list[Partition]


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
        # For the worker's thread, and for nobody else while it runs.
        self._held: dict[str, _Held] = {}

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

    def _tell_of_new_logs(self, opened: OpenTopic) -> None:
        """A crash within a creation leaves a topic without its logs; so does somebody who deletes them."""
        for partition in opened.partitions:
            if partition.log.found.is_fresh:
                _log.warning("%s-%d had no log: it begins at offset 0", opened.name, partition.number)

    def open_all(self) -> None:
        """Before the reactor runs: finish what a crash cut short, and recover every log."""
        for path in self._catalogue.strays:
            _log.warning("%s does not belong to any topic and is left alone", path)
        for deleted in self._catalogue.deleted:
            if self._catalogue.by_name(deleted.name) is None:
                self._forget_consumption(deleted.name)
            self._catalogue.remove_deleted(deleted)
        with ThreadPoolExecutor(OPENING_THREADS, thread_name_prefix="opening") as threads:
            for opened in threads.map(self._open, list(self._catalogue)):
                self._tell_of_new_logs(self._show(opened))

    def close_all(self) -> None:
        """Waits for the disk. Every log is closed whatever becomes of the others; raises the first error."""
        with ExitStack() as steps:
            for held in self._held.values():
                steps.callback(_close, held.partitions)
            self._held = {}
            self._by_name.clear()
            self._by_id.clear()

    def _open(self, topic: Topic) -> OpenTopic:
        values = effective_settings(topic.settings, self._config)
        opened = OpenTopic(topic, values, [])
        self._open_partitions(opened, range(topic.partitions))
        self._held[topic.name] = _Held(opened, list(opened.partitions))
        return opened

    def _open_partitions(self, opened: OpenTopic, numbers: range) -> None:
        """All of them, or none and an error. Each waits for the disk many times, so some at once."""
        if len(numbers) == 1:
            opened.partitions.append(self._open_partition(opened, numbers[0]))
            return
        failed: list[BaseException] = []
        with ThreadPoolExecutor(OPENING_THREADS, thread_name_prefix="opening") as threads:
            jobs = [threads.submit(self._open_partition, opened, number) for number in numbers]
            for job in jobs:
                error = job.exception()
                if error is None:
                    opened.partitions.append(job.result())
                else:
                    failed.append(error)
        if failed:
            _close(opened.partitions)
            raise failed[0]

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
            _tell_what_was_found(f"{topic.name}-{number}", log)
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

    def _forget_consumption(self, name: str) -> None:
        """What cannot be forgotten does no harm: a new topic's groups are set back to its empty log's end."""
        try:
            self._consumption.topic_deleted(name)
        except BarbicelError as error:
            _log.error("a group's position in the deleted topic %s is left: %s", name, error)

    def _hide(self, name: str) -> OpenTopic | None:
        opened = self._by_name.pop(name, None)
        if opened is not None:
            del self._by_id[opened.id_bytes]
            for partition in opened.partitions:
                partition.retire()
        return opened

    # --- changes ------------------------------------------------------------------------------------

    def create(
        self, name: str, partitions: int, settings: Mapping[str, str], *, may_collide: bool = False
    ) -> Deferred[OpenTopic]:
        """Fails with what Catalogue.create raises, or what the disk says."""

        def work() -> OpenTopic:
            topic = self._catalogue.create(name, partitions, settings, may_collide=may_collide)
            try:
                return self._open(topic)
            except BarbicelError:
                # Or it could be neither used nor created again.
                with suppress(BarbicelError):
                    self._catalogue.remove_deleted(self._catalogue.delete(name))
                raise

        return self._worker.run(work).addCallback(self._show)

    def delete(self, name: str) -> Deferred[None]:
        """Its name is free when this is done; its files go after that."""
        hidden = self._hide(name)

        def work() -> Topic:
            deleted = self._catalogue.delete(name)
            held = self._held.pop(name, None)
            if held is not None:
                _close(held.partitions, keep_producers=False)
            self._forget_consumption(name)
            return deleted

        def show_again(failure: Failure) -> Failure:
            if hidden is not None and self._catalogue.by_name(name) is not None:
                for partition in self._show(hidden).partitions:
                    partition.revive()
            return failure

        def remove_files(deleted: Topic) -> None:
            self._hide(name)  # it may have been on its way when its deletion was asked for
            self._worker.run(lambda: self._catalogue.remove_deleted(deleted)).addErrback(
                lambda failure: _log.error("the files of %s are left: %s", name, failure.value)
            )

        return self._worker.run(work).addCallbacks(remove_files, show_again)

    def add_partitions(self, name: str, total: int) -> Deferred[OpenTopic]:
        def work() -> tuple[OpenTopic, Topic, list[Partition]]:
            topic = self._catalogue.add_partitions(name, total)
            known, held = self._held[name]
            opened = OpenTopic(topic, effective_settings(topic.settings, self._config), [])
            self._open_partitions(opened, range(len(held), total))
            held += opened.partitions
            return known, topic, opened.partitions

        def show(made: tuple[OpenTopic, Topic, list[Partition]]) -> OpenTopic:
            known, topic, fresh = made
            return self._change(known, topic, [*known.partitions, *fresh])

        return self._worker.run(work).addCallback(show)

    def change_settings(
        self, name: str, change: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> Deferred[OpenTopic]:
        """`change` makes the new settings out of those in force, in the worker's thread; it may raise."""

        def work() -> tuple[OpenTopic, Topic]:
            before = self._catalogue.by_name(name)
            topic = self._catalogue.change_settings(name, change(before.settings if before else {}))
            values = effective_settings(topic.settings, self._config)
            for partition in self._held[name].partitions:
                partition.log.resize(values.segment_bytes, values.segment_ms)
            return self._held[name].topic, topic

        def show(made: tuple[OpenTopic, Topic]) -> OpenTopic:
            known, topic = made
            return self._change(known, topic, known.partitions)

        return self._worker.run(work).addCallback(show)

    def _change(self, known: OpenTopic, topic: Topic, partitions: list[Partition]) -> OpenTopic:
        known.topic, known.partitions = topic, partitions
        known.values = effective_settings(topic.settings, self._config)
        for partition in partitions:
            partition.topic, partition.values = topic, known.values
        return known


def _tell_what_was_found(partition: str, log: Log) -> None:
    """What recovery did is done without a question, but not without a word."""
    for damage in log.damage:
        _log.error("%s takes no writes: %s; see 'barbicel log repair'", partition, damage)
    for segment in log.found.segments:
        if segment.torn is None:
            continue
        if not segment.torn.whole_records:
            _log.warning("%s: a torn write was cut off and kept aside: %s", partition, segment.torn.reason)
        for run in segment.torn.whole_records:
            _log.error(
                "%s: %s were behind a torn or damaged place, and were cut off with it; kept aside beside %s",
                partition,
                offsets_text(run.first_offset, run.end_offset),
                log.path,
            )


def _close(partitions: Sequence[Partition], *, keep_producers: bool = True) -> None:
    """Close every log, whatever becomes of the others; raises the first error."""
    with ExitStack() as steps:
        for partition in partitions:
            steps.callback(partition.log.close)
            if keep_producers and partition.log.is_writable:
                steps.callback(partition.keep_producers, partition.producers.snapshot())
