"""Families that were imported beside a data directory, by whoever, brought into it without copying.

Each was imported into a directory of its own, with the same code, so its log is what an import into this one
would have written. It takes the place of the empty log of a new topic. Whenever this is cut short, an import
of the same journals goes on: the guard is there before the log is, and says where its records begin.
"""

from __future__ import annotations

from barbicel.clock import Clock, wall_clock_ms
from barbicel.disk import Disk, parent, remove_tree
from barbicel.gateway.migration.directory_queue import PARTITION
from barbicel.gateway.migration.directory_target import DirectoryTarget
from barbicel.gateway.migration.source import Family
from barbicel.gateway.migration.target import Completed

__all__ = ["adopt", "staging_directory"]


def staging_directory(data_dir: str, family: Family) -> str:
    """Beside the data directory, so that moving from there is a rename."""
    return f"{data_dir}.importing/{family.import_id}"


def adopt(
    disk: Disk,
    target: DirectoryTarget,
    family: Family,
    staged: str,
    records: int,
    clock: Clock = wall_clock_ms,
) -> bool:
    """Bring a complete staged import over; False if its topic is in use here, and nothing was done.

    Durable on return. What was staged is gone then.
    """
    names = [line.name for line in family.lines]
    with target.make(names) as queue:
        if queue.end_offset or queue.begun() is not None:
            return False
        queue.begin(family.import_id)
        topic = queue.topic
    _move_log(disk, target, family, target.catalogue.layout.partition(topic, PARTITION), staged)
    target.note_completed(Completed(family.topic, str(topic.id), family.import_id, 0, records, clock()))
    with target.make(names) as queue:
        queue.end()
    remove_tree(disk, staged)
    return True


def _move_log(disk: Disk, target: DirectoryTarget, family: Family, log: str, staged: str) -> None:
    with DirectoryTarget.open(disk, staged, may_create=False) as source:
        found = source.catalogue.by_name(family.topic)
        assert found is not None, staged
        origin = source.catalogue.layout.partition(found, PARTITION)
    remove_tree(disk, log)
    disk.rename(origin, log)
    disk.sync_directory(parent(log))
    disk.sync_directory(parent(origin))
