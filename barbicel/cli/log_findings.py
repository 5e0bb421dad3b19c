"""Looking at a log's directory from the outside. Nothing is changed there, not even the lock file."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from barbicel.cli.offsets import OffsetRange, merge
from barbicel.codecs.keratin_format import LOG_HEADER_BYTES, decode_log_header, parse_segment_name
from barbicel.disk import Disk, read_file
from barbicel.errors import BarbicelError, CorruptFile, DiskError, NotALog
from barbicel.keratin.layout import ASIDE_MARKS, Layout
from barbicel.keratin.manifest import settings_of
from barbicel.keratin.plan import RecoveryPlan
from barbicel.keratin.recovery import plan_beside_writer, plan_recovery

__all__ = [
    "Findings",
    "Misplaced",
    "Verdict",
    "check_is_log",
    "has_open_end",
    "look",
    "look_under_lock",
    "lost_offsets",
]


class Verdict(IntEnum):
    """What is to be said of a log; the number is the exit code of `verify`."""

    SOUND = 0
    # No offset is lost: opening the log for writing does what is to be done.
    RECOVERABLE = 1
    # Offsets are lost or a file is damaged: only a repair changes that.
    DAMAGED = 3


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


def has_open_end(plan: RecoveryPlan) -> bool:
    """Whether more offsets may be lost than are known of."""
    return any(item.open_ended for item in plan.damage)


def check_is_log(disk: Disk, layout: Layout) -> None:
    """Raises NotALog, BarbicelError if a name is taken by something else, DiskError if it cannot be read."""
    if not disk.exists(layout.root):
        raise NotALog("there is no such directory", path=layout.root)
    entries = {entry.name: entry for entry in disk.list(layout.root)}
    if not {"manifest.bin", "segments"} & set(entries):
        raise NotALog("not a log: there is neither a manifest.bin nor a segments directory", path=layout.root)
    for name, is_directory in _KINDS.items():
        if name in entries and entries[name].is_directory is not is_directory:
            raise _wrong_kind(f"{layout.root}/{name}", is_directory)
    for entry in disk.list(layout.segments) if "segments" in entries else ():
        # A plan would take it for a missing file, and a repair would stop half way.
        if entry.is_directory and parse_segment_name(entry.name) is not None:
            raise _wrong_kind(f"{layout.segments}/{entry.name}", is_directory=False)


# What each name in a log's directory must be, if it is there: a directory or a file.
_KINDS = {"manifest.bin": False, "LOCK": False, "segments": True, "tmp": True}


def _wrong_kind(path: str, is_directory: bool) -> BarbicelError:
    wanted, found = ("a directory", "something else") if is_directory else ("a file", "a directory")
    return BarbicelError(f"{wanted} is expected here, and it is {found}", path=path, hint="move it away")


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
