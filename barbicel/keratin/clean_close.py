"""What a clean close leaves behind, and how the next opening knows it again without listing the directory.

A close says "clean" only if every file that matters is there, and writes the manifest last. So a directory of
segments whose names have not changed since holds what that manifest lists: the plan follows from it and
from the active segment, however many sealed ones there are. Whatever is different, or cannot be told, is
left to the listing. Time stamps only ever save that look. If one lies, because a clock was set back or a
file system check took a file, then the reader of the missing file says so, the next close is not called
clean, and the opening after it finds the damage.
"""

from __future__ import annotations

from barbicel.codecs.keratin_format import INDEX, TIME_INDEX, Manifest, segment_name
from barbicel.disk import Disk
from barbicel.errors import DiskError
from barbicel.keratin.layout import Layout
from barbicel.keratin.plan import RecoveryPlan, SegmentPlan
from barbicel.keratin.settings import LogSettings
from barbicel.keratin.survey import SurveyOrder, survey_segment

__all__ = ["has_every_file", "plan_as_closed"]

# The files that opening a log does something about if they are missing.
NEEDED_SUFFIXES = ("log", INDEX.suffix, TIME_INDEX.suffix)


def has_every_file(disk: Disk, layout: Layout, manifest: Manifest) -> bool:
    """Whether all that a manifest stands for can be seen in the directory."""
    bases = [segment.base_offset for segment in manifest.segments]
    bases.append(manifest.active_base_offset)
    expected = [segment_name(base, suffix) for suffix in NEEDED_SUFFIXES for base in bases]
    try:
        return set(disk.names(layout.segments)).issuperset(expected)
    except DiskError:
        return False


def plan_as_closed(
    disk: Disk, layout: Layout, settings: LogSettings, manifest: Manifest
) -> RecoveryPlan | None:
    """The plan for a log that lies as its clean close left it; None if it does not, or that is not certain.

    Foreign files and evidence that were there at the close are not looked for.
    """
    if not (manifest.clean_shutdown and disk.unchanged_since(layout.segments, layout.manifest)):
        return None
    if not _ends_with_its_active_segment(disk, layout, manifest):
        return None
    order = SurveyOrder(
        manifest.active_base_offset,
        vouched_offset=manifest.next_offset,
        synced_offset=manifest.next_offset,
    )
    active = survey_segment(disk, layout, settings.index_stride_bytes, order)
    if not _is_as_closed(active, manifest.next_offset):
        return None
    return RecoveryPlan(
        layout=layout,
        settings=settings,
        deep=False,
        manifest=manifest,
        manifest_problem=None,
        believed=manifest.segments,
        segments=(active,),
        log_start_offset=manifest.log_start_offset,
        leftovers=(),
        foreign=(),
        asides=(),
        overlaps=(),
    )


def _ends_with_its_active_segment(disk: Disk, layout: Layout, manifest: Manifest) -> bool:
    """A manifest that was put back is younger than the directory, and may know less than lies there.

    Whatever follows the active segment begins where that ends.
    """
    base, end = manifest.active_base_offset, manifest.next_offset
    return disk.size(layout.log(base)) is not None and (end == base or not disk.exists(layout.log(end)))


def _is_as_closed(active: SegmentPlan, next_offset: int) -> bool:
    """Whether it ends, to the byte, where the manifest says, and nothing has to be done about it."""
    return (
        (active.end_offset, active.file_bytes) == (next_offset, active.end_position)
        and (active.torn, active.rewrite_from, active.reindex) == (None, None, None)
        and not active.damage
    )
