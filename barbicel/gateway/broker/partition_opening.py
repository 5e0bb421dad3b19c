"""Partitions are opened here: their logs recovered, their groups set right, their producers learned.

What recovery did or found is told in the log, and so is what is lost. At a start a partition that cannot be
opened is offline and all others are served. Waits for the disk: for threads other than the reactor's.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

from barbicel.clock import Clock
from barbicel.codecs.topic_file import Topic
from barbicel.config.settings import Config
from barbicel.disk import Disk
from barbicel.errors import BarbicelError, DiskError, offsets_text
from barbicel.gateway.broker.data_layout import DataLayout
from barbicel.gateway.broker.offline import OfflinePartition
from barbicel.gateway.broker.partition import Partition
from barbicel.gateway.broker.producer_file import ProducerFile
from barbicel.gateway.broker.tail import TailBudget
from barbicel.gateway.broker.tiering.keratin_log import KeratinLog
from barbicel.gateway.broker.topic_settings import TopicValues
from barbicel.keratin import Log, LogSettings
from barbicel.keratin.handles import HandleBudget
from barbicel.keratin.passing import is_full

if TYPE_CHECKING:  # a server without a tier does not import it
    from barbicel.gateway.broker.tiering.tiering import Tiering
    from barbicel.tier.tiered_partition import TieredPartition

__all__ = ["Consumption", "PartitionOpening", "tell_of_new_logs"]

_log = logging.getLogger(__name__)

# Read handles of one log: there may be thousands of logs.
OPEN_SEGMENTS_OF_A_LOG = 16


class Consumption(Protocol):
    """What has to know about logs: whoever keeps what was consumed of them."""

    def log_opened(self, topic: str, partition: int, end_offset: int) -> None:
        """Before anything is appended: what was consumed beyond the end never was."""

    def tell_set_back(self) -> None:
        """Tell of what `log_opened` did, once for all logs that were opened together."""

    def positions_in(self, topic: str, partition: int) -> Mapping[str, int]:
        """How far each group has come in a partition, as far as that can be read."""

    def topic_deleted(self, topic: str) -> None: ...


class PartitionOpening:
    """Any number of threads at a time."""

    def __init__(
        self,
        disk: Disk,
        layout: DataLayout,
        config: Config,
        clock: Clock,
        consumption: Consumption,
        touched: set[Partition],
        readers: int,
        tiering: Tiering | None = None,
    ) -> None:
        self._disk = disk
        self._layout = layout
        self._config = config
        self._clock = clock
        self._consumption = consumption
        self._touched = touched
        self._tails = TailBudget(config.tail_bytes)
        self._handles = HandleBudget(readers)
        self._tiering = tiering

    def open_or_not(self, topic: Topic, values: TopicValues, number: int) -> Partition:
        """At a start: offline if it cannot be opened, to be read if there is no room to recover it."""
        path = self._layout.partition(topic, number)
        try:
            return self._open_with_or_without_room(topic, values, number)
        except (BarbicelError, OSError) as error:
            _log.error(
                "%s-%d is offline: %s; mend that or restore %s, and restart (see 'barbicel log verify')",
                topic.name,
                number,
                error,
                path,
            )
            return OfflinePartition(topic, number, values, self._disk, path, str(error), self._clock)

    def _open_with_or_without_room(self, topic: Topic, values: TopicValues, number: int) -> Partition:
        try:
            return self.open(topic, values, number, is_start=True)
        except DiskError as error:
            if not is_full(error):
                raise
            partition = self.open(topic, values, number, is_start=True, read_only=True)
            hint = "it can be read, and is opened for writing when there is room"
            _log.error("%s-%d takes no writes: %s; %s", topic.name, number, error, hint)
            return partition

    def open(
        self,
        topic: Topic,
        values: TopicValues,
        number: int,
        *,
        is_start: bool = False,
        read_only: bool = False,
    ) -> Partition:
        """Raises BarbicelError, and leaves nothing open then."""
        directory = self._layout.partition(topic, number)
        settings = LogSettings(
            segment_max_bytes=values.segment_bytes,
            segment_max_age_ms=values.segment_ms,
            max_open_segments=OPEN_SEGMENTS_OF_A_LOG,
        )
        with ExitStack() as undo:
            tiered = None if self._tiering is None else self._tiering.open_stream(topic, number, values)
            if tiered is not None:
                undo.callback(tiered.close)
            log = Log.open(
                directory,
                disk=self._disk,
                settings=settings,
                clock=self._clock,
                read_only=read_only,
                handles=self._handles,
                # Of a lost log what is tiered is still there.
                first_offset=0 if tiered is None else tiered.end_offset or 0,
            )
            undo.callback(log.close)
            if is_start:
                self._tell_what_was_found(topic, number, log)
            if log.is_writable and not log.was_clean:
                self._consumption.log_opened(topic.name, number, log.end_offset)
            producer_file = ProducerFile(self._disk, directory)
            producers = producer_file.restore(log, self._clock)
            local = KeratinLog(log)
            if tiered is not None:
                tiered.attach(local)
            partition = Partition(
                topic,
                number,
                log,
                producers,
                producer_file,
                values,
                self._tails,
                self._config.tail_partition_bytes,
                self._clock,
                self._touched,
                tiered,
            )
            local.before_drop = partition.keep_producers_until
            self.watch(partition, tiered)
            undo.pop_all()
            return partition

    def reopen(self, partition: Partition) -> None:
        """Let one that was opened to be read take writes. Raises BarbicelError; then it is as it was."""
        name, log = f"{partition.topic.name}-{partition.number}", partition.log

        def settle() -> None:
            self._consumption.log_opened(partition.topic.name, partition.number, log.end_offset)
            partition.producer_file.begin_writing(self._clock())

        log.begin_writing(settle)
        self._consumption.tell_set_back()
        _tell_repairs(name, log)
        _log.warning("%s takes writes: there is room again", name)

    def watch(self, partition: Partition, tiered: TieredPartition | None) -> None:
        """Let the tier work for a partition, if it has one."""
        if self._tiering is not None and tiered is not None:
            self._tiering.attach(tiered, lambda: partition.topic, lambda: partition.values)

    def begin_tier(self, partition: Partition, topic: Topic, values: TopicValues) -> TieredPartition | None:
        """For a partition that is open and has no tier: one, if it shall have one now."""
        if self._tiering is None or partition.is_offline or partition.stored.tiered is not None:
            return None
        tiered = self._tiering.open_stream(topic, partition.number, values)
        if tiered is not None:
            tiered.attach(KeratinLog(partition.log, partition.keep_producers_until))
        return tiered

    def close(self, partition: Partition) -> None:
        """End the tier's work for a partition. Its log stays open."""
        tiered = partition.stored.tiered
        if self._tiering is not None and tiered is not None:
            self._tiering.detach(tiered)

    def _tell_what_was_found(self, topic: Topic, number: int, log: Log) -> None:
        """What recovery did is done without a question, but not without a word."""
        if log.found.is_fresh and log.start_offset:
            _tell_lost_end(topic, number, log)
        elif log.found.is_fresh:
            # Before they are set back to where the new log ends.
            positions = self._consumption.positions_in(topic.name, number)
            if positions:
                _tell_loss(topic, number, log.path, positions)
        _tell_repairs(f"{topic.name}-{number}", log)


def _tell_loss(topic: Topic, number: int, path: str, positions: Mapping[str, int]) -> None:
    group = max(positions, key=lambda name: positions[name])
    _log.error(
        "%s-%d had no log, so all of its records are lost, those below offset %d at least, which group %s"
        " had consumed; it begins at offset 0, and its %d groups with it. If there is a copy of %s, stop the"
        " server and restore it before anything is written",
        topic.name,
        number,
        positions[group],
        group,
        len(positions),
        path,
    )


def _tell_lost_end(topic: Topic, number: int, log: Log) -> None:
    """Of a partition whose beginning is in the object store."""
    _log.error(
        "%s-%d had no log: what the object store does not have of it is lost, whatever came from offset %d"
        " on, where it begins anew; what lies below is read from the store. If there is a copy of %s, stop"
        " the server and restore it before anything is written",
        topic.name,
        number,
        log.start_offset,
        log.path,
    )


def tell_of_new_logs(topic: Topic, partitions: Sequence[Partition], consumption: Consumption) -> None:
    """A crash within a creation leaves a topic without its logs; so does somebody who deletes them."""
    online = [partition for partition in partitions if not partition.is_offline]
    is_used = any(partition.end_offset for partition in online)
    for partition in online:
        # Of one with groups, or with a tier, the loss was told when it was found.
        is_told = partition.log.start_offset or consumption.positions_in(topic.name, partition.number)
        if not partition.log.found.is_fresh or is_told:
            continue
        if is_used:
            _log.error(
                "%s-%d had no log, though others of its topic have records: whatever was in it is lost, and"
                " it begins at offset 0. If there is a copy of %s, stop the server and restore it",
                topic.name,
                partition.number,
                partition.log.path,
            )
        else:
            _log.warning("%s-%d had no log: it begins at offset 0", topic.name, partition.number)


def _tell_repairs(partition: str, log: Log) -> None:
    for damage in log.damage:
        _log.error("%s takes no writes: %s; see 'barbicel log repair'", partition, damage)
    # Otherwise nothing was done yet.
    for segment in log.found.segments if log.is_writable else ():
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
