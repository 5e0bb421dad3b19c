"""Carrying out a recovery plan. Every step may be interrupted by a crash: the next plan starts over.

Nothing is destroyed: what is cut off or replaced is kept beside the segments, under a name that says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from barbicel.codecs.keratin_format import FileHeader, Manifest, encode_log_header
from barbicel.codecs.keratin_record import MAX_SPAN, encode_lost
from barbicel.disk import COPY_CHUNK_BYTES, Disk, Replacement, copy_file, replace_files
from barbicel.errors import CorruptFile, DiskError
from barbicel.keratin.examine import Run
from barbicel.keratin.indexes import SegmentIndexes, index_replacements
from barbicel.keratin.layout import Layout
from barbicel.keratin.manifest import write_manifest
from barbicel.keratin.passing import is_full
from barbicel.keratin.plan import Damage, RecoveryPlan, SegmentPlan
from barbicel.keratin.settings import LogSettings
from barbicel.keratin.survey import SurveyOrder, survey_segment

__all__ = ["apply_plan", "clear_temporaries", "create_segment", "cut_ahead", "manifest_of"]


def apply_plan(
    disk: Disk, plan: RecoveryPlan, now_ms: int, *, accept_loss: bool = False, first_offset: int = 0
) -> RecoveryPlan:
    """Make the directory what the plan says; returns the plan as it stands then, with nothing to do.

    On return everything below its next_offset is durable and the manifest says so. With `accept_loss`
    the damaged stretches are replaced by records that say what was lost; that takes a deep plan. A log that
    does not exist yet begins at `first_offset`.
    """
    if plan.damage and not (accept_loss and plan.deep):
        raise ValueError("a plan that loses offsets is carried out only on purpose, after a deep look")
    for apart in plan.apart:
        raise CorruptFile(apart.reason, path=apart.path, hint="move the files of the other log away first")
    layout = plan.layout
    for directory in (layout.segments, layout.temporaries):
        disk.make_directory(directory)
    bench = _Bench(disk, layout, plan.settings, now_ms)
    last = len(plan.segments) - 1
    segments = [bench.mend(segment, is_active=number == last) for number, segment in enumerate(plan.segments)]
    if not segments:
        segments = [bench.create(first_offset)]
        plan = replace(plan, log_start_offset=first_offset)
    for overlap in plan.overlaps:
        bench.put_aside(overlap.path)
    done = replace(plan, segments=tuple(segments), overlaps=(), leftovers=())
    if not done.manifest_is_current:
        if plan.manifest is None and disk.exists(layout.manifest):
            bench.keep(layout.manifest, ".corrupt-")
        manifest = manifest_of(done, now_ms)
        write_manifest(disk, layout, manifest)
        done = replace(done, manifest=manifest, manifest_problem=None)
    for path in plan.leftovers:
        disk.unlink(path)
    if plan.leftovers:
        disk.sync_directory(layout.segments)
    return done


def clear_temporaries(disk: Disk, layout: Layout) -> None:
    """What was begun and found no room for its end keeps others from what room there is."""
    for name in disk.names(layout.temporaries):
        disk.unlink(f"{layout.temporaries}/{name}")


def cut_ahead(disk: Disk, plan: RecoveryPlan) -> bool:
    """Give back the zeros that the active segment has behind its end; whether there were any."""
    active = plan.segments[-1] if plan.segments else None
    if active is None or active.file_bytes is None or active.damage:
        return False
    end = active.end_position if active.torn is None else active.torn.end_position
    file = disk.open(plan.layout.log(active.base_offset), "write")
    try:
        # Part of the plan may have been carried out.
        has_zeros = file.size() > end
        if has_zeros:
            file.truncate(end)
    finally:
        file.close()
    return has_zeros


def manifest_of(plan: RecoveryPlan, now_ms: int) -> Manifest:
    """The manifest that vouches for what the plan found."""
    settings, before = plan.settings, plan.manifest
    return Manifest(
        created_ts_ms=now_ms if before is None else before.created_ts_ms,
        segment_max_bytes=settings.segment_max_bytes,
        index_stride_bytes=settings.index_stride_bytes,
        max_open_segments=settings.max_open_segments,
        active_base_offset=plan.segments[-1].base_offset,
        next_offset=plan.next_offset,
        segments=plan.sealed_segments,
        log_start_offset=plan.log_start_offset,
        leader_epoch=0 if before is None else before.leader_epoch,
    )


def create_segment(disk: Disk, layout: Layout, header: FileHeader, indexes: SegmentIndexes) -> None:
    """Create an empty segment with its indexes: on return its files survive a power cut.

    They appear under their names whole, so that a segment with a broken header is always damage.
    """
    path = layout.log(header.base_offset)
    log = Replacement(layout.temporary(path), path, [encode_log_header(header)])
    replace_files(disk, [*index_replacements(layout, header, indexes), log])


@dataclass(frozen=True, slots=True)
class _Bench:
    """Where segments are mended."""

    disk: Disk
    layout: Layout
    settings: LogSettings
    now_ms: int

    def mend(self, segment: SegmentPlan, *, is_active: bool) -> SegmentPlan:
        if segment.damage:
            return self._replace(segment)
        if segment.file_bytes is None:
            return self.create(segment.base_offset)
        if segment.torn is not None:
            path = self.layout.log(segment.base_offset)
            self.keep(path, ".torn-", segment.torn.position, segment.torn.end_position)
        is_unsynced = is_active and segment.rewrite_from is not None
        if is_unsynced or segment.torn is not None or (segment.has_excess and not is_active):
            self._cut_and_rewrite(segment, is_unsynced)
        if segment.reindex is not None and segment.indexes is not None:
            header = FileHeader(segment.base_offset, segment.created_ts_ms)
            self._reindex(index_replacements(self.layout, header, segment.indexes), is_active=is_active)
        return segment._replace(torn=None, rewrite_from=None, reindex=None)

    def _reindex(self, replacements: Sequence[Replacement], *, is_active: bool) -> None:
        """On a disk too full for that, the active segment's are left as they are: whoever appends to it has
        them in memory, and writes them at a checkpoint. They must not keep a log from being opened."""
        try:
            replace_files(self.disk, replacements)
        except DiskError as error:
            if not (is_active and is_full(error)):
                raise
            clear_temporaries(self.disk, self.layout)

    def create(self, base_offset: int) -> SegmentPlan:
        indexes = SegmentIndexes(base_offset, self.settings.index_stride_bytes)
        header = FileHeader(base_offset, self.now_ms)
        create_segment(self.disk, self.layout, header, indexes)
        return self._look(base_offset, base_offset)

    def put_aside(self, path: str) -> None:
        self.keep(path, ".corrupt-")
        self.disk.unlink(path)
        self.disk.sync_directory(self.layout.segments)

    def _look(self, base_offset: int, end_offset: int) -> SegmentPlan:
        order = SurveyOrder(base_offset, vouched_offset=end_offset, synced_offset=end_offset, deep=True)
        stride = self.settings.index_stride_bytes
        return survey_segment(self.disk, self.layout, stride, order)

    def keep(self, path: str, mark: str, start: int = 0, end: int | None = None) -> None:
        """Copy bytes aside, under a name that no other evidence has."""
        number = self.now_ms
        while self.disk.exists(f"{path}{mark}{number}"):
            number += 1
        copy = f"{path}{mark}{number}"
        try:
            copy_file(self.disk, path, copy, start, end)
        except DiskError:
            # Part of a copy is no evidence, and on a full disk each attempt would leave another.
            if self.disk.exists(copy):
                self.disk.unlink(copy)
            raise

    def _cut_and_rewrite(self, segment: SegmentPlan, is_unsynced: bool) -> None:
        """Cut the file behind its last sound record and make what is left durable.

        Records that were never known to be synced are written once more before they are vouched for: after
        a failed fsync the page cache may show bytes that never reached the disk and never will.
        """
        file = self.disk.open(self.layout.log(segment.base_offset), "write")
        try:
            file.truncate(segment.end_position)
            if is_unsynced and segment.rewrite_from is not None:
                file.end = segment.rewrite_from
                while file.end < segment.end_position:
                    size = min(COPY_CHUNK_BYTES, segment.end_position - file.end)
                    file.append([file.pread(size, file.end)])
            file.fdatasync()
        finally:
            file.close()

    def _replace(self, segment: SegmentPlan) -> SegmentPlan:
        """Write the segment anew, sound records as they were, a record of the loss in each gap."""
        path = self.layout.log(segment.base_offset)
        temporary = self.layout.temporary(path)
        if self.disk.exists(temporary):
            self.disk.unlink(temporary)
        header = FileHeader(segment.base_offset, segment.created_ts_ms or self.now_ms)
        fresh = self.disk.open(temporary, "create")
        try:
            fresh.append([encode_log_header(header)])
            for piece in self._pieces(path, segment):
                fresh.append([piece])
            fresh.fdatasync()
        finally:
            fresh.close()
        if segment.file_bytes is not None:
            self.keep(path, ".corrupt-")
        self.disk.rename(temporary, path)
        self.disk.sync_directory(self.layout.segments)
        mended = self._look(segment.base_offset, segment.end_offset)
        assert mended.indexes is not None
        replace_files(self.disk, index_replacements(self.layout, header, mended.indexes))
        return mended._replace(reindex=None, idx_bytes=mended.indexes.idx_bytes)

    def _pieces(self, path: str, segment: SegmentPlan) -> Iterator[bytes]:
        lost = [item for item in segment.damage if item.end_offset > item.first_offset]
        stretches: list[Run | Damage] = sorted(
            [*segment.runs, *lost], key=lambda stretch: stretch.first_offset
        )
        for stretch in stretches:
            if isinstance(stretch, Run):
                yield from self._bytes_of(path, stretch)
            else:
                yield from _lost_records(stretch)

    def _bytes_of(self, path: str, run: Run) -> Iterator[bytes]:
        file = self.disk.open(path, "read")
        try:
            for position in range(run.position, run.end_position, COPY_CHUNK_BYTES):
                yield file.pread(min(COPY_CHUNK_BYTES, run.end_position - position), position)
        finally:
            file.close()


def _lost_records(lost: Damage) -> Iterator[bytes]:
    for first in range(lost.first_offset, lost.end_offset, MAX_SPAN):
        yield encode_lost(first, min(MAX_SPAN, lost.end_offset - first), timestamp_ms=0)
