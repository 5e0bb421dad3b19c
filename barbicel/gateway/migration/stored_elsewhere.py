"""What a data directory alone cannot give: records that are in the object store only."""

from __future__ import annotations

from barbicel.clock import Clock, wall_clock_ms
from barbicel.disk import Disk
from barbicel.gateway.broker.data_layout import DataLayout
from barbicel.gateway.migration.directory_queue import PARTITION, DirectoryQueue
from barbicel.gateway.migration.target import TargetRefused
from barbicel.tier.catalogue import Catalogue
from barbicel.tier.manifest_log.stream import ManifestStream

__all__ = ["check_local"]


def check_local(disk: Disk, layout: DataLayout, queue: DirectoryQueue, clock: Clock = wall_clock_ms) -> None:
    """Raises TargetRefused if a line has items to read that are in the object store and not in the log."""
    directory = layout.manifest(queue.topic, PARTITION)
    if not disk.exists(directory):
        return
    stream_id = layout.stream(queue.topic, PARTITION)
    with ManifestStream.open(
        directory, stream_id=stream_id, disk=disk, clock=clock, read_only=True
    ) as stream:
        first_offset = _first_offset(stream.catalogue, queue.start_offset)
    for group in sorted(queue.groups):
        state = queue.state(group)
        if state is not None and max(first_offset, state.acked_until) < queue.start_offset:
            raise TargetRefused(
                f"topic {queue.topic.name!r}: offsets {max(first_offset, state.acked_until)} to"
                f" {queue.start_offset - 1} are unread by group {group!r}, and are in the object store only",
                hint="they can be read through a running gateway; --queue leaves this queue out",
            )


def _first_offset(catalogue: Catalogue, local_start_offset: int) -> int:
    """Of all that can be read of the partition, from the store or not."""
    tiered = [
        entry.base_offset
        for entry in catalogue.segments
        if entry.is_tiered and entry.end_offset > catalogue.start_offset
    ]
    return max(min([*tiered, local_start_offset]), catalogue.start_offset)
