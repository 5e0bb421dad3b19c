"""The vocabulary of recovery: what was found in a log's directory and what is to be done about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from barbicel.codecs.keratin_format import Manifest, SealedSegment
from barbicel.errors import offsets_text
from barbicel.keratin.examine import Run
from barbicel.keratin.indexes import SegmentIndexes
from barbicel.keratin.layout import Layout
from barbicel.keratin.settings import LogSettings

__all__ = ["Damage", "RecoveryPlan", "SegmentPlan", "Torn"]


class Damage(NamedTuple):
    """Offsets first_offset up to end_offset are not readable. If the two are equal no offset is lost, only
    the file is not as it should be. `open_ended`: more offsets may have been behind them, nobody knows."""

    path: str
    position: int | None
    first_offset: int
    end_offset: int
    reason: str
    open_ended: bool = False

    def __str__(self) -> str:
        lost = "no offset is lost"
        if self.open_ended:
            lost = f"whatever was appended from offset {self.first_offset} on is lost"
        elif self.end_offset > self.first_offset:
            verb = "is" if self.end_offset - self.first_offset == 1 else "are"
            lost = f"{offsets_text(self.first_offset, self.end_offset)} {verb} lost"
        where = self.path if self.position is None else f"{self.path} at byte {self.position}"
        return f"{where}: {self.reason}, {lost}"


class Torn(NamedTuple):
    """What a crash left behind the last sound record, to be cut off and kept aside."""

    position: int
    end_position: int
    reason: str
    whole_records: tuple[Run, ...]


class SegmentPlan(NamedTuple):
    """One segment: what it holds, and what has to be done with it."""

    base_offset: int
    end_offset: int
    end_position: int
    idx_bytes: int = 0
    created_ts_ms: int = 0
    # None: there is no such file.
    file_bytes: int | None = None
    # Set if the records were looked through; the runs are the sound stretches.
    indexes: SegmentIndexes | None = None
    runs: tuple[Run, ...] = ()
    # To do, each only if set:
    damage: tuple[Damage, ...] = ()
    torn: Torn | None = None
    # From this position on the records were never known to be synced.
    rewrite_from: int | None = None
    # Why its index files have to be written anew.
    reindex: str | None = None

    @property
    def has_excess(self) -> bool:
        """Whether the file goes on behind the last sound record."""
        return self.file_bytes is not None and self.file_bytes > self.end_position

    @property
    def sealed(self) -> SealedSegment:
        return SealedSegment(self.base_offset, self.end_offset - 1, self.end_position, self.idx_bytes)


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """Everything that is to be known about a directory before anything in it is changed."""

    layout: Layout
    settings: LogSettings
    # Whether every record was looked at.
    deep: bool
    # None: absent or unusable, and manifest_problem says why.
    manifest: Manifest | None
    manifest_problem: str | None
    # The first sealed segments, taken as the manifest lists them.
    believed: tuple[SealedSegment, ...]
    # Those behind, ascending; the last one is the active segment. Empty only if there is no log yet.
    segments: tuple[SegmentPlan, ...]
    log_start_offset: int
    # Files of segments that retention had given up before the crash, to be unlinked.
    leftovers: tuple[str, ...]
    # Files that are none of ours: reported, never touched.
    foreign: tuple[str, ...]
    # Evidence that earlier repairs kept.
    asides: tuple[str, ...]
    overlaps: tuple[Damage, ...]
    # Segments that are too far behind the others to be of one log with them.
    apart: tuple[Damage, ...] = ()

    @property
    def damage(self) -> tuple[Damage, ...]:
        return (
            *(item for segment in self.segments for item in segment.damage),
            *self.overlaps,
            *self.apart,
        )

    @property
    def sealed_segments(self) -> tuple[SealedSegment, ...]:
        """All segments but the active one."""
        return (*self.believed, *(segment.sealed for segment in self.segments[:-1]))

    @property
    def next_offset(self) -> int:
        return self.segments[-1].end_offset if self.segments else 0

    @property
    def is_fresh(self) -> bool:
        """Whether there is no log yet."""
        return not self.segments

    @property
    def manifest_is_current(self) -> bool:
        """Whether the manifest on the disk says what the segments say."""
        manifest = self.manifest
        return (
            manifest is not None
            and manifest.next_offset == self.next_offset
            and manifest.active_base_offset == self.segments[-1].base_offset
            and manifest.segments == self.sealed_segments
        )

    @property
    def actions(self) -> tuple[str, ...]:
        """What carrying out the plan would do, a line each, for people."""
        if self.is_fresh:
            return ("create an empty log",)
        lines = [
            line
            for segment in self.segments
            for line in _segment_actions(self.layout, segment, is_active=segment is self.segments[-1])
        ]
        lines += [f"put {item.path} aside: {item.reason}" for item in self.overlaps]
        if self.manifest_problem is not None:
            lines.append(f"write a new manifest: {self.manifest_problem}")
        elif not self.manifest_is_current:
            lines.append(f"write the manifest: the log ends at offset {self.next_offset}")
        lines += [f"remove {path}: retention had given it up" for path in self.leftovers]
        lines += [f"none, before you move {item.path} away: {item.reason}" for item in self.apart]
        return tuple(lines)


def _segment_actions(layout: Layout, segment: SegmentPlan, *, is_active: bool) -> list[str]:
    path = layout.log(segment.base_offset)
    lines = []
    if segment.has_excess and segment.torn is None and not segment.damage and not is_active:
        lines.append(f"cut {path} to {segment.end_position} bytes: zeros behind a sealed segment")
    if segment.damage:
        lost = [
            offsets_text(item.first_offset, item.end_offset)
            for item in segment.damage
            if item.end_offset > item.first_offset
        ]
        what = f"give up {', '.join(lost)}" if lost else "no known offset is lost"
        old = "" if segment.file_bytes is None else ", the old file put aside"
        lines.append(f"replace {path}{old}: {what}")
    elif segment.file_bytes is None:
        lines.append(f"create {path}")
    if segment.torn is not None:
        torn = segment.torn
        lines.append(
            f"cut {path} at byte {torn.position}, {torn.end_position - torn.position} bytes kept aside:"
            f" {torn.reason}"
        )
        lines += [
            f"  with whole records of {offsets_text(run.first_offset, run.end_offset)}"
            for run in torn.whole_records
        ]
    if segment.reindex is not None:
        lines.append(f"write the indexes of {path} anew: {segment.reindex}")
    return lines
