"""Where the segments of partitions are, in numbers: of a running server, or of the files that one left.

What is told of files may be told beside a running server: they are only read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from barbicel.clock import Clock, wall_clock_ms
from barbicel.codecs.manifest_snapshot import Progress
from barbicel.codecs.topic_file import Topic
from barbicel.disk import Disk
from barbicel.errors import BarbicelError
from barbicel.gateway.broker.data_layout import DataLayout
from barbicel.gateway.broker.tiering.keratin_log import KeratinLog
from barbicel.gateway.broker.topic_survey import survey_topics
from barbicel.keratin import Log
from barbicel.tier.catalogue import Catalogue
from barbicel.tier.local_log import LocalLog
from barbicel.tier.manifest_log.stream import ManifestStream

__all__ = ["PartitionTier", "Unreadable", "status_of", "survey_tier"]


class PartitionTier(NamedTuple):
    """From start_offset up to end_offset can be read, what is below local_start_offset from the store."""

    topic: str
    partition: int
    start_offset: int
    tiered_end_offset: int | None
    local_start_offset: int
    end_offset: int
    tiered_segments: int
    tiered_bytes: int
    # Sealed, and not in the store yet.
    waiting_segments: int
    waiting_bytes: int
    local_bytes: int
    failing_uploads: int
    queued_deletes: int
    needing_repair: int


class Unreadable(NamedTuple):
    topic: str
    partition: int
    problem: str


def status_of(topic: str, partition: int, catalogue: Catalogue, log: LocalLog) -> PartitionTier:
    tiered = [
        entry for entry in catalogue.segments if entry.is_tiered and entry.end_offset > catalogue.start_offset
    ]
    have = {entry.segment_id for entry in tiered}
    sealed = log.sealed()
    waiting = [segment for segment in sealed if segment.base_offset not in have]
    first = min(tiered[0].base_offset, log.start_offset) if tiered else log.start_offset
    return PartitionTier(
        topic=topic,
        partition=partition,
        start_offset=max(first, catalogue.start_offset),
        tiered_end_offset=tiered[-1].end_offset if tiered else None,
        local_start_offset=log.start_offset,
        end_offset=log.end_offset,
        tiered_segments=len(tiered),
        tiered_bytes=sum(entry.description.object_bytes for entry in tiered if entry.description is not None),
        waiting_segments=len(waiting),
        waiting_bytes=sum(segment.size_bytes for segment in waiting),
        local_bytes=log.active_bytes + sum(segment.size_bytes for segment in sealed),
        failing_uploads=sum(entry.upload is Progress.FAILED for entry in catalogue.pending_uploads),
        queued_deletes=len(catalogue.pending_deletes),
        needing_repair=len(catalogue.needing_repair),
    )


def survey_tier(
    disk: Disk, layout: DataLayout, clock: Clock = wall_clock_ms
) -> Iterator[PartitionTier | Unreadable]:
    """Of every partition that has a manifest, in the order of the topics' names."""
    topics = survey_topics(disk, layout).live
    for name in sorted(topics):
        topic = topics[name]
        for number in range(topic.partitions):
            if disk.exists(layout.manifest(topic, number)):
                yield _look(disk, layout, clock, topic, number)


def _look(
    disk: Disk, layout: DataLayout, clock: Clock, topic: Topic, number: int
) -> PartitionTier | Unreadable:
    try:
        with (
            ManifestStream.open(
                layout.manifest(topic, number),
                stream_id=layout.stream(topic, number),
                disk=disk,
                clock=clock,
                read_only=True,
            ) as stream,
            Log.open(layout.partition(topic, number), disk=disk, clock=clock, read_only=True) as log,
        ):
            return status_of(topic.name, number, stream.catalogue, KeratinLog(log))
    except BarbicelError as error:
        return Unreadable(topic.name, number, str(error))
