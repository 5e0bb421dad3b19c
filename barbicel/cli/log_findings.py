"""Looking at a log's directory from the outside. Nothing is changed there, not even the lock file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from barbicel.codecs.keratin_format import LOG_HEADER_BYTES, decode_log_header, parse_segment_name
from barbicel.disk import Disk, read_file
from barbicel.errors import CorruptFile, DiskError, NotALog
from barbicel.keratin.layout import ASIDE_MARKS, Layout
from barbicel.keratin.manifest import settings_of
from barbicel.keratin.plan import RecoveryPlan
from barbicel.keratin.recovery import plan_beside_writer, plan_recovery

__all__ = [
    "Findings",
    "Misplaced",
    "OffsetRange",
    "Verdict",
    "check_is_log",
    "look",
    "look_under_lock",
    "lost_offsets",
    "merge",
]


class Verdict(IntEnum):
    """What is to be said of a log; the number is the exit code of `verify`."""

    SOUND = 0
    # No offset is lost: opening the log for writing does what is to be done.
    RECOVERABLE = 1
    # Offsets are lost or a file is damaged: only a repair changes that.
    DAMAGED = 3


class OffsetRange(NamedTuple):
    first_offset: int
    end_offset: int

    def __str__(self) -> str:
        if self.end_offset - self.first_offset == 1:
            return str(self.first_offset)
        return f"{self.first_offset} to {self.end_offset - 1}"


def merge(ranges: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """The same offsets in ascending order, ranges that touch made one, empty ones left out."""
    merged: list[OffsetRange] = []
    for first_offset, end_offset in sorted(ranges):
        if first_offset >= end_offset:
            continue
        if merged and first_offset <= merged[-1].end_offset:
            last = merged.pop()
            first_offset, end_offset = last.first_offset, max(last.end_offset, end_offset)
        merged.append(OffsetRange(first_offset, end_offset))
    return tuple(merged)


class Misplaced(NamedTuple):
    """A segment file that is no part of the log under its name; its header tells another base offset."""

    path: str
    header_base_offset: int


@dataclass(frozen=True, slots=True)
class Findings:
    """A log as it was found."""

    plan: RecoveryPlan
    # The process that has the log open, as Disk.lock_holder tells it.
    holder: str | None
    # The evidence that earlier repairs kept, that of the manifest included.
    asides: tuple[str, ...]
    misplaced: tuple[Misplaced, ...]

    @property
    def verdict(self) -> Verdict:
        if self.plan.damage:
            return Verdict.DAMAGED
        return Verdict.RECOVERABLE if self.plan.actions else Verdict.SOUND

    @property
    def lost(self) -> tuple[OffsetRange, ...]:
        return lost_offsets(self.plan)


def lost_offsets(plan: RecoveryPlan) -> tuple[OffsetRange, ...]:
    """What carrying out the plan gives up."""
    return merge(OffsetRange(item.first_offset, item.end_offset) for item in plan.damage)


def check_is_log(disk: Disk, layout: Layout) -> None:
    """Raises NotALog, or DiskError if that cannot be found out."""
    if disk.exists(layout.manifest) or disk.exists(layout.segments):
        return
    if not disk.exists(layout.root):
        raise NotALog("there is no such directory", path=layout.root)
    disk.list(layout.root)  # in one that may not be read nothing seems to exist
    raise NotALog("not a log: there is neither a manifest.bin nor a segments directory", path=layout.root)


def look(disk: Disk, path: str, *, deep: bool) -> Findings:
    """What is in a log's directory, also while another process works there.

    Raises NotALog, DiskError if something cannot be read, UnknownVersion if a newer program wrote it.
    """
    layout = Layout(path)
    check_is_log(disk, layout)
    plan = plan_beside_writer(disk, layout, settings_of(disk, layout), deep=deep)
    return _findings(disk, plan, disk.lock_holder(layout.lock))


def look_under_lock(disk: Disk, layout: Layout) -> Findings:
    """As a deep `look`, for whoever holds the log's lock."""
    plan = plan_recovery(disk, layout, settings_of(disk, layout), deep=True)
    return _findings(disk, plan, holder=None)


def _findings(disk: Disk, plan: RecoveryPlan, holder: str | None) -> Findings:
    root = plan.layout.root
    of_manifest = (
        f"{root}/{entry.name}" for entry in disk.list(root) if any(mark in entry.name for mark in ASIDE_MARKS)
    )
    return Findings(plan, holder, (*of_manifest, *plan.asides), _misplaced(disk, plan))


def _misplaced(disk: Disk, plan: RecoveryPlan) -> tuple[Misplaced, ...]:
    found = []
    for path in plan.foreign:
        parsed = parse_segment_name(path.rsplit("/", 1)[-1])
        if parsed is None or parsed[1] != "log":
            continue
        try:
            header = decode_log_header(read_file(disk, path, LOG_HEADER_BYTES))
        except (CorruptFile, DiskError):
            continue
        if header.base_offset != parsed[0]:
            found.append(Misplaced(path, header.base_offset))
    return tuple(found)
