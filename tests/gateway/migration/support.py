"""Journals on a disk, imports of them, and what a data directory then has for each line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from barbicel.clock import Clock
from barbicel.disk import Disk
from barbicel.gateway.migration.directory_target import DirectoryTarget
from barbicel.gateway.migration.export import export_queues, unread_items
from barbicel.gateway.migration.importing import FamilyOutcome, ImportRules, import_family
from barbicel.gateway.migration.source import open_source
from barbicel.gateway.migration.verify import FamilyVerdict, verify_family
from barbicel.gateway.migration.watch import Quiet
from barbicel.kestrel_compat.names import parse_queue_name, topic_of
from tests.golden.kestrel.writer import Step, join
from tests.support.fault_disk import FaultDisk

JOURNALS, DATA = "/journals", "/data"
NOW_MS = 1_700_000_000_000
PLAIN = ImportRules()


def fixed_clock() -> int:
    return NOW_MS


class Kept(NamedTuple):
    """An item as a line gives it."""

    data: bytes
    added_ms: int
    expiry_ms: int | None


def disk_with(queues: Mapping[str, Sequence[Step]], directory: str = JOURNALS) -> FaultDisk:
    disk = FaultDisk()
    for name, steps in queues.items():
        disk.put(f"{directory}/{name}", join(steps))
    return disk


def run_import(
    disk: Disk,
    rules: ImportRules = PLAIN,
    *,
    source: str = JOURNALS,
    data: str = DATA,
    clock: Clock = fixed_clock,
) -> list[FamilyOutcome]:
    journals = open_source(disk, source)
    with DirectoryTarget.open(disk, data, clock=clock) as target:
        completed = target.completed()
        return [
            import_family(journals, family, target, completed, rules, Quiet(), clock)
            for family in journals.families
        ]


def run_verify(disk: Disk, *, source: str = JOURNALS, data: str = DATA) -> list[FamilyVerdict]:
    journals = open_source(disk, source)
    with DirectoryTarget.open(disk, data, clock=fixed_clock, may_create=False) as target:
        completed = target.completed()
        return [verify_family(journals, family, target, completed, Quiet()) for family in journals.families]


def run_export(disk: Disk, destination: str, *, data: str = DATA, queues: Sequence[str] = ()) -> None:
    with DirectoryTarget.open(disk, data, clock=fixed_clock, may_create=False) as target:
        export_queues(disk, target, destination, queues)


def line(disk: Disk, name: str, *, data: str = DATA) -> list[Kept]:
    """What the line's group has still to read."""
    queue_name = parse_queue_name(name)
    with DirectoryTarget.open(disk, data, clock=fixed_clock, may_create=False) as target:
        queue = target.find(topic_of(queue_name.master))
        assert queue is not None
        with queue:
            state = queue.state(queue_name.group)
            assert state is not None
            found = unread_items(queue, state, queue_name.group)
            return [Kept(item.data, item.added_ms, item.expiry_ms) for item in found]


def stored(disk: Disk, master: str, *, data: str = DATA) -> list[bytes]:
    """Everything in the log."""
    with DirectoryTarget.open(disk, data, clock=fixed_clock, may_create=False) as target:
        queue = target.find(topic_of(master))
        assert queue is not None
        with queue:
            return [item.data for item in queue.scan(0)]
