"""The topics that are open: their partitions by name and by id, created, changed and deleted.

Changes wait for the disk in one thread of their own, in the order they were asked for; what they made is
shown in the reactor's thread, all at once and in the same order. A topic that is being deleted is hidden
before that, so what is shown may lag behind what is open, and only the worker's thread looks at the latter.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from barbicel.clock import Clock, steady_clock_ms
from barbicel.codecs.topic_file import Topic
from barbicel.config.settings import Config
from barbicel.disk import Disk, remove_tree
from barbicel.errors import BarbicelError
from barbicel.gateway.broker.catalogue import Catalogue
from barbicel.gateway.broker.data_layout import has_manifest
from barbicel.gateway.broker.partition import Partition
from barbicel.gateway.broker.partition_opening import Consumption, PartitionOpening, tell_of_new_logs
from barbicel.gateway.broker.recovered import wait_for_all
from barbicel.gateway.broker.reopening import Reopening
from barbicel.gateway.broker.topic_settings import TopicValues, effective_settings
from barbicel.gateway.broker.worker import Worker
from barbicel.gateway.descriptors import Descriptors
from barbicel.gateway.log_pace import LogPace

if TYPE_CHECKING:  # a server without a tier does not import it
    from barbicel.gateway.broker.tiering.tiering import Tiering
    from barbicel.tier.tiered_partition import TieredPartition

__all__ = ["Consumption", "OpenTopic", "Topics"]

_log = logging.getLogger(__name__)

OPENING_THREADS = 8


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
        descriptors: Descriptors | None = None,
        tiering: Tiering | None = None,
    ) -> None:
        self._disk = disk
        self._catalogue = catalogue
        self._config = config
        self._clock = clock
        self._worker = worker
        self._consumption = consumption
        self._descriptors = descriptors or Descriptors()
        # Appended to in this turn; whoever ends the turn empties it.
        self.touched: set[Partition] = set()
        self._opening = PartitionOpening(
            disk,
            catalogue.layout,
            config,
            clock,
            consumption,
            self.touched,
            self._descriptors.readers,
            tiering,
        )
        self._tiering = tiering
        self.reopening = Reopening(self._opening, catalogue, worker, clock)
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

    def open_all(self) -> None:
        """Before the reactor runs: finish what a crash cut short, and recover every log."""
        for path in self._catalogue.strays:
            _log.warning("%s does not belong to any topic and is left alone", path)
        for deleted in self._catalogue.deleted:
            if self._catalogue.by_name(deleted.name) is None:
                self._forget_consumption(deleted.name)
            self._remove(deleted, self._catalogue.remove_deleted)
        found = [self._unopened(topic) for topic in self._catalogue]
        self._descriptors.start_with(sum(opened.topic.partitions for opened in found))
        # One pool for all: a start must not have more files open at once than serving has.
        with ThreadPoolExecutor(OPENING_THREADS, thread_name_prefix="opening") as threads:
            jobs = [
                threads.submit(self._opening.open_or_not, opened.topic, opened.values, number)
                for opened in found
                for number in range(opened.topic.partitions)
            ]
            wait_for_all(jobs, LogPace(steady_clock_ms))
        self._consumption.tell_set_back()
        partitions = (job.result() for job in jobs)
        for opened in found:
            opened.partitions += islice(partitions, opened.topic.partitions)
            self._hold(self._show(opened))
            self.reopening.add(opened.partitions)
            tell_of_new_logs(opened.topic, opened.partitions, self._consumption)

    def close_all(self) -> None:
        """Waits for the disk. Every log is closed whatever becomes of the others; raises the first error."""
        held, self._held = self._held, {}
        self._by_name.clear()
        self._by_id.clear()
        with ThreadPoolExecutor(OPENING_THREADS, thread_name_prefix="closing") as threads:
            jobs = [threads.submit(self._close, one.partitions) for one in held.values()]
        for job in jobs:
            job.result()

    def _unopened(self, topic: Topic) -> OpenTopic:
        return OpenTopic(topic, effective_settings(topic.settings, self._config), [])

    def _open(self, topic: Topic) -> OpenTopic:
        opened = self._unopened(topic)
        self._open_partitions(opened, range(topic.partitions))
        self._hold(opened)
        return opened

    def _hold(self, opened: OpenTopic) -> None:
        self._held[opened.name] = _Held(opened, list(opened.partitions))

    def _open_partitions(self, opened: OpenTopic, numbers: range) -> None:
        """All of them, or none and an error. Each waits for the disk many times, so some at once."""
        failed: list[BaseException] = []
        with ThreadPoolExecutor(OPENING_THREADS, thread_name_prefix="opening") as threads:
            jobs = [
                threads.submit(self._opening.open, opened.topic, opened.values, number) for number in numbers
            ]
            for job in jobs:
                error = job.exception()
                if error is None:
                    opened.partitions.append(job.result())
                else:
                    failed.append(error)
        self._consumption.tell_set_back()
        if failed:
            self._close(opened.partitions, keep_producers=False)
            raise failed[0]

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
            self._catalogue.check_new(name, partitions, may_collide=may_collide)
            with self._claimed(partitions):
                topic = self._catalogue.create(name, partitions, settings, may_collide=may_collide)
                try:
                    return self._open(topic)
                except BarbicelError:
                    # Or it could be neither used nor created again.
                    with suppress(BarbicelError):
                        self._catalogue.remove_deleted(self._catalogue.delete(name))
                    raise

        return self._worker.run(work).addCallback(self._show)

    @contextmanager
    def _claimed(self, partitions: int) -> Iterator[None]:
        """Raises TooManyPartitions. What is claimed is given back if the creation fails."""
        self._descriptors.add_partitions(partitions)
        try:
            yield
        except BaseException:
            self._descriptors.remove_partitions(partitions)
            raise

    def delete(self, name: str) -> Deferred[None]:
        """Its name is free when this is done; its files go after that."""
        hidden = self._hide(name)

        def work() -> Topic:
            deleted = self._catalogue.delete(name)
            held = self._held.pop(name, None)
            if held is not None:
                self._descriptors.remove_partitions(len(held.partitions))
                try:
                    self._close(held.partitions, keep_producers=False)
                except BarbicelError as error:  # a full disk; its files go all the same
                    _log.warning("a log of the deleted topic %s was not closed in order: %s", name, error)
            self._forget_consumption(name)
            return deleted

        def show_again(failure: Failure) -> Failure:
            if hidden is not None and self._catalogue.by_name(name) is not None:
                for partition in self._show(hidden).partitions:
                    partition.revive()
            return failure

        def remove_files(deleted: Topic) -> None:
            self._hide(name)  # it may have been on its way when its deletion was asked for
            self._remove(deleted, self._remove_files)

        return self._worker.run(work).addCallbacks(remove_files, show_again)

    def _remove(self, deleted: Topic, remove_files: Callable[[Topic], object]) -> None:
        """What an object store has goes first: as long as there are files, they say that it is to go."""
        if not has_manifest(self._disk, self._catalogue.layout, deleted):
            remove_files(deleted)
        elif self._tiering is not None:
            self._tiering.remove(deleted).addCallback(lambda _: self._remove_files(deleted))
        else:
            _log.warning(
                "the deleted topic %s may have objects in a store: they go once tiering is switched on again",
                deleted.name,
            )

    def _remove_files(self, deleted: Topic) -> None:
        self._worker.run(lambda: self._catalogue.remove_deleted(deleted)).addErrback(
            lambda failure: _log.error("the files of %s are left: %s", deleted.name, failure.value)
        )

    def add_partitions(self, name: str, total: int) -> Deferred[OpenTopic]:
        """The logs are made first: a topic never has more partitions than can be opened. Those that a crash
        leaves behind are empty, belong to nobody, and are taken when the topic grows again."""

        def work() -> tuple[OpenTopic, Topic, list[Partition]]:
            before = self._catalogue.check_partitions(name, total)
            known, held = self._held[name]
            opened = self._unopened(before)
            with self._claimed(total - len(held)):
                try:
                    self._open_partitions(opened, range(len(held), total))
                    topic = self._catalogue.add_partitions(name, total)
                except BaseException:
                    self._take_back(opened, range(len(held), total))
                    raise
            held += opened.partitions
            return known, topic, opened.partitions

        def show(made: tuple[OpenTopic, Topic, list[Partition]]) -> OpenTopic:
            known, topic, fresh = made
            return self._change(known, topic, [*known.partitions, *fresh])

        return self._worker.run(work).addCallback(show)

    def _take_back(self, opened: OpenTopic, numbers: range) -> None:
        """Close and remove new logs, unless topic.json may name them after all."""
        with suppress(BarbicelError):
            self._close(opened.partitions, keep_producers=False)
        for number in numbers if self._catalogue.is_running else ():
            path = self._catalogue.layout.partition(opened.topic, number)
            with suppress(BarbicelError):
                if self._disk.exists(path):
                    remove_tree(self._disk, path)

    def change_settings(
        self, name: str, change: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> Deferred[OpenTopic]:
        """`change` makes the new settings out of those in force, in the worker's thread; it may raise."""

        def work() -> tuple[OpenTopic, Topic, list[tuple[Partition, TieredPartition]]]:
            before = self._catalogue.by_name(name)
            topic = self._catalogue.change_settings(name, change(before.settings if before else {}))
            values = effective_settings(topic.settings, self._config)
            begun = []
            for partition in self._held[name].partitions:
                partition.log.resize(values.segment_bytes, values.segment_ms)
                tiered = self._opening.begin_tier(partition, topic, values)
                if tiered is not None:
                    begun.append((partition, tiered))
            return self._held[name].topic, topic, begun

        def show(made: tuple[OpenTopic, Topic, list[tuple[Partition, TieredPartition]]]) -> OpenTopic:
            known, topic, begun = made
            changed = self._change(known, topic, known.partitions)
            for partition, tiered in begun:
                partition.stored.tiered = tiered
                self._opening.watch(partition, tiered)
            return changed

        return self._worker.run(work).addCallback(show)

    def _close(self, partitions: Sequence[Partition], *, keep_producers: bool = True) -> None:
        """Close every log, whatever becomes of the others; raises the first error."""
        with ExitStack() as steps:
            for partition in partitions:
                steps.callback(partition.log.close)
                if keep_producers and partition.log.is_writable:
                    steps.callback(partition.keep_producers, partition.producers.snapshot())
                steps.callback(self._opening.close, partition)

    def _change(self, known: OpenTopic, topic: Topic, partitions: list[Partition]) -> OpenTopic:
        known.topic, known.partitions = topic, partitions
        known.values = effective_settings(topic.settings, self._config)
        for partition in partitions:
            partition.topic, partition.values = topic, known.values
        return known
