"""What a log's directory holds, and what has to be done before it can be used: a plan, nothing is changed.

`Log.open` carries the plan out if no offset is lost by it; `barbicel log verify` prints it; a repair
carries it out in any case. The plan depends on the files alone: the same files give the same plan. It
looks only at what the manifest cannot vouch for, unless it is asked to look deep, so that its time does
not grow with the log.
"""

from __future__ import annotations

import errno

from barbicel.codecs.keratin_format import (
    INDEX_ENTRY,
    INDEX_HEADER_BYTES,
    LOG_HEADER_BYTES,
    SEGMENT_SUFFIXES,
    Manifest,
    SealedSegment,
    parse_segment_name,
    segment_name,
)
from barbicel.disk import Disk
from barbicel.errors import CorruptFile, DiskError
from barbicel.keratin.clean_close import plan_as_closed
from barbicel.keratin.examine import is_misnamed
from barbicel.keratin.indexes import read_index
from barbicel.keratin.layout import ASIDE_MARKS, Layout
from barbicel.keratin.manifest import read_manifest, settings_in
from barbicel.keratin.plan import Damage, RecoveryPlan, SegmentPlan
from barbicel.keratin.settings import LogSettings
from barbicel.keratin.survey import SurveyOrder, survey_segment

__all__ = ["plan_beside_writer", "plan_recovery"]

# A log in use changes under our eyes: what looks like damage is believed when it is seen this often.
LOOKS_AT_A_LOG_IN_USE = 3
# An index entry counts the offsets from the segment's first one in 32 bits.
MAX_SEGMENT_OFFSETS = (1 << 32) - 1


def plan_recovery(
    disk: Disk, layout: Layout, settings: LogSettings | None, *, deep: bool = False, quick: bool = False
) -> RecoveryPlan:
    """Raises DiskError if something cannot be read, UnknownVersion if a newer program wrote it.

    Without settings it goes by those in the manifest.
    `deep` looks at every record. `quick` looks only whether the sealed files are there: they were synced
    before the manifest listed them, and what became of them since is found by whoever reads them. If no
    name has changed since a clean close it does not even list them.
    """
    manifest, manifest_problem = _try_manifest(disk, layout)
    settings = settings or settings_in(manifest)
    as_closed = plan_as_closed(disk, layout, settings, manifest) if quick and manifest is not None else None
    if as_closed is not None:
        return as_closed
    listing = _Listing.read(disk, layout, manifest)
    planner = _Planner(disk, layout, settings, listing, deep)
    if manifest is None:
        # A filled index without its log says that there was a segment.
        unlisted = sorted(listing.others["log"] | listing.orphans())
        start = first_base = unlisted[0] if unlisted else 0
    else:
        start = manifest.log_start_offset
        first_base = _first_base(manifest)
        unlisted = _may_follow(disk, layout, listing, manifest.active_base_offset)
        if quick and listing.is_complete:
            planner.believed = manifest.segments
        planner.add_listed(manifest, unlisted)
    planner.add_unlisted(unlisted)
    known = {segment.base_offset for segment in planner.segments} | planner.outside
    strays = listing.others_but(known)
    # What lies below the log that a sound manifest describes was given up before the crash.
    # With damage that is not certain any more: the manifest may be that of another log.
    is_certain = manifest is not None and not planner.has_damage
    leftovers = [name for base, name in strays if is_certain and base < first_base]
    foreign = listing.foreign + [name for _, name in strays if name not in leftovers]
    return RecoveryPlan(
        layout=layout,
        settings=settings,
        deep=deep,
        manifest=manifest,
        manifest_problem=manifest_problem,
        believed=planner.believed,
        segments=tuple(planner.segments),
        log_start_offset=start,
        leftovers=_paths(layout, leftovers),
        foreign=_paths(layout, foreign),
        asides=_paths(layout, listing.asides),
        overlaps=tuple(planner.overlaps),
        apart=tuple(planner.apart),
    )


def plan_beside_writer(
    disk: Disk, layout: Layout, settings: LogSettings | None, *, deep: bool = False
) -> RecoveryPlan:
    """As `plan_recovery`, for a log that another process may be writing to.

    Retention may take a file that the manifest listed when it was read, which is no damage.
    """
    for _ in range(LOOKS_AT_A_LOG_IN_USE - 1):
        is_in_use = disk.lock_holder(layout.lock) is not None
        try:
            plan = plan_recovery(disk, layout, settings, deep=deep)
        except DiskError as error:
            if not is_in_use or error.errno != errno.ENOENT:
                raise
        else:
            if not is_in_use or not plan.damage:
                return plan
    return plan_recovery(disk, layout, settings, deep=deep)


def _try_manifest(disk: Disk, layout: Layout) -> tuple[Manifest | None, str | None]:
    if not disk.exists(layout.manifest):
        return None, "there is no manifest"
    try:
        return read_manifest(disk, layout), None
    except CorruptFile as error:
        return None, str(error)


def _may_follow(disk: Disk, layout: Layout, listing: _Listing, active_base: int) -> list[int]:
    """The segments from the active one on, as far as they can be this log's.

    A segment is created where the one before it ends, so it is never farther away than a segment can be
    long, and its header says the same as its name. Others are somebody's copies.
    """
    bases: list[int] = []
    for base in sorted(base for base in listing.others["log"] if base >= active_base):
        last = bases[-1] if bases else active_base
        if base - last <= MAX_SEGMENT_OFFSETS and not (
            base > active_base and is_misnamed(disk, layout, base)
        ):
            bases.append(base)
    return bases


def _first_base(manifest: Manifest) -> int:
    return manifest.segments[0].base_offset if manifest.segments else manifest.active_base_offset


def _paths(layout: Layout, names: list[str]) -> tuple[str, ...]:
    return tuple(f"{layout.segments}/{name}" for name in names)


class _Listing:
    """The names in `segments/`, sorted out. Those that the manifest lists are only looked up."""

    def __init__(self, disk: Disk, layout: Layout, names: set[str]) -> None:
        self._disk = disk
        self._layout = layout
        self._names = names
        # Whether every file of every listed segment is there.
        self.is_complete = False
        # Base offsets by suffix, of the segments that the manifest does not list.
        self.others: dict[str, set[int]] = {suffix: set() for suffix in SEGMENT_SUFFIXES}
        self.foreign: list[str] = []
        self.asides: list[str] = []

    @classmethod
    def read(cls, disk: Disk, layout: Layout, manifest: Manifest | None) -> _Listing:
        names: set[str] = set()
        if disk.exists(layout.segments):
            names.update(disk.names(layout.segments))
        listing = cls(disk, layout, names)
        listed = () if manifest is None else manifest.segments
        if manifest is not None and listing._is_as_expected(manifest):
            return listing
        stems = [segment_name(segment.base_offset, "") for segment in listed]
        expected = {stem + suffix for suffix in SEGMENT_SUFFIXES for stem in stems}
        listing.is_complete = expected <= names
        for name in sorted(names - expected):
            listing._sort_in(name)
        return listing

    def _is_as_expected(self, manifest: Manifest) -> bool:
        """As many names as the segments have, and every log among them: then all is in its place.

        Should an index be missing and something foreign be there instead, its reader does without it.
        """
        logs = [segment_name(segment.base_offset, "log") for segment in manifest.segments]
        logs.append(segment_name(manifest.active_base_offset, "log"))
        self.is_complete = len(self._names) == len(SEGMENT_SUFFIXES) * len(logs) and self._names.issuperset(
            logs
        )
        if self.is_complete:
            for suffix in SEGMENT_SUFFIXES:
                self.others[suffix].add(manifest.active_base_offset)
        return self.is_complete

    def _sort_in(self, name: str) -> None:
        parsed = parse_segment_name(name)
        if parsed is not None and self._disk.size(f"{self._layout.segments}/{name}") is not None:
            base_offset, suffix = parsed
            self.others[suffix].add(base_offset)
        elif any(mark in name for mark in ASIDE_MARKS):
            self.asides.append(name)
        else:
            self.foreign.append(name)

    def size(self, base_offset: int, suffix: str) -> int | None:
        """Of a segment's file, None if there is none."""
        name = segment_name(base_offset, suffix)
        return self._disk.size(f"{self._layout.segments}/{name}") if name in self._names else None

    def has(self, base_offset: int, suffix: str) -> bool:
        return segment_name(base_offset, suffix) in self._names

    def orphans(self) -> set[int]:
        """The segments of which a filled `.idx` is left and no `.log`."""
        filled_bytes = INDEX_HEADER_BYTES + INDEX_ENTRY.size
        return {
            base
            for base in self.others["idx"] - self.others["log"]
            if (self.size(base, "idx") or 0) >= filled_bytes
        }

    def others_but(self, bases: set[int]) -> list[tuple[int, str]]:
        """(base offset, name) of the unlisted files whose segment is not among these."""
        return sorted(
            (base, segment_name(base, suffix))
            for suffix, found in self.others.items()
            for base in found
            if base not in bases
        )


class _Planner:
    """Collects the segments in ascending order."""

    def __init__(
        self, disk: Disk, layout: Layout, settings: LogSettings, listing: _Listing, deep: bool
    ) -> None:
        self._disk = disk
        self._layout = layout
        self._settings = settings
        self._listing = listing
        self._deep = deep
        self._synced_offset = 0
        # Listed segments that are not looked at.
        self.believed: tuple[SealedSegment, ...] = ()
        self.segments: list[SegmentPlan] = []
        self.overlaps: list[Damage] = []
        self.apart: list[Damage] = []
        # Base offsets of the segments that are in neither place of the chain.
        self.outside: set[int] = set()

    def add_listed(self, manifest: Manifest, unlisted: list[int]) -> None:
        """The segments that the manifest knows, and its active one if that has no file."""
        self._synced_offset = manifest.next_offset
        for sealed in manifest.segments[len(self.believed) :]:
            self._add_sealed(sealed)
        if unlisted[:1] != [manifest.active_base_offset]:
            self._add_absent_active(manifest, unlisted)

    def _add_sealed(self, sealed: SealedSegment) -> None:
        """Its sizes tell whether it has to be looked at."""
        base = sealed.base_offset
        log_bytes = self._listing.size(base, "log")
        if log_bytes is None:
            self._add_missing(base, sealed.end_offset)
            return
        reindex = self._index_problem(sealed)
        if log_bytes == sealed.log_bytes and reindex is None and not self._deep:
            self.segments.append(
                SegmentPlan(base, sealed.end_offset, log_bytes, sealed.idx_bytes, file_bytes=log_bytes)
            )
            return
        self._survey(
            SurveyOrder(
                base,
                vouched_offset=sealed.end_offset,
                synced_offset=sealed.end_offset,
                log_bytes=sealed.log_bytes,
                deep=True,
                reindex=reindex,
            )
        )

    def _index_problem(self, sealed: SealedSegment) -> str | None:
        idx_bytes = self._listing.size(sealed.base_offset, "idx")
        if idx_bytes != sealed.idx_bytes:
            return f"its .idx has {idx_bytes or 0} bytes, the manifest says {sealed.idx_bytes}"
        if not self._listing.has(sealed.base_offset, "tidx"):
            return "its .tidx is missing"
        return None

    def _add_absent_active(self, manifest: Manifest, unlisted: list[int]) -> None:
        """It was durable before the manifest named it. What it held beyond the manifest nobody knows."""
        base = manifest.active_base_offset
        end_offset = unlisted[0] if unlisted else self._synced_offset
        self._add_missing(base, end_offset, open_ended=not unlisted and not manifest.clean_shutdown)
        if not unlisted and end_offset > base:
            self.segments.append(SegmentPlan(end_offset, end_offset, LOG_HEADER_BYTES))

    def _add_missing(self, base: int, end_offset: int, *, open_ended: bool = False) -> None:
        path = self._layout.log(base)
        damage = Damage(path, None, base, end_offset, "the file is missing", open_ended)
        self.segments.append(SegmentPlan(base, end_offset, LOG_HEADER_BYTES, damage=(damage,)))

    def add_unlisted(self, bases: list[int]) -> None:
        """Segments that no manifest lists, in ascending order; only the last one may be torn."""
        bases = self._near(bases)
        for number, base in enumerate(bases):
            expected = self._end_offset(base)
            if base < expected:
                self._add_overlap(base, expected)
                continue
            if base > expected:
                self._add_missing(expected, base)
            is_last = number + 1 == len(bases)
            if base not in self._listing.others["log"]:
                self._add_missing(base, self._last_indexed(base) + 1 if is_last else bases[number + 1])
                continue
            # A segment is synced before the next one is created, so all but the last must be whole.
            whole_to = self._synced_offset if is_last else bases[number + 1]
            self._survey(
                SurveyOrder(
                    base,
                    vouched_offset=max(whole_to, base),
                    synced_offset=self._synced_offset,
                    deep=self._deep,
                )
            )

        if bases and bases[-1] not in self._listing.others["log"]:
            self._add_empty_active()

    def _end_offset(self, otherwise: int) -> int:
        """Where the segments that were added so far end."""
        if self.segments:
            return self.segments[-1].end_offset
        return self.believed[-1].end_offset if self.believed else otherwise

    def _add_overlap(self, base: int, expected: int) -> None:
        self.outside.add(base)
        reason = f"it overlaps the segment before it, which ends at offset {expected}"
        self.overlaps.append(Damage(self._layout.log(base), None, base, base, reason))

    def _near(self, bases: list[int]) -> list[int]:
        """Those that are not farther from the one before than a segment can be long."""
        near = bases[:1]
        for base in bases[1:]:
            if base - near[-1] <= MAX_SEGMENT_OFFSETS:
                near.append(base)
            else:
                self._add_apart(base, near[-1])
        return near

    def _add_apart(self, base: int, before: int) -> None:
        self.outside.add(base)
        reason = (
            f"it begins {base - before} offsets behind {segment_name(before, 'log')}, and no segment is that"
            " long: one of the two belongs to another log"
        )
        self.apart.append(Damage(self._layout.log(base), None, base, base, reason))

    @property
    def has_damage(self) -> bool:
        return bool(self.overlaps or self.apart or any(segment.damage for segment in self.segments))

    def _add_empty_active(self) -> None:
        end_offset = self.segments[-1].end_offset
        self.segments.append(SegmentPlan(end_offset, end_offset, LOG_HEADER_BYTES))

    def _last_indexed(self, base: int) -> int:
        """The last offset that is known to have been in a segment whose log is gone."""
        try:
            index = read_index(self._disk, self._layout, base)
            return index[len(index) - 1].offset
        except CorruptFile:
            return base

    def _survey(self, order: SurveyOrder) -> None:
        stride = self._settings.index_stride_bytes
        self.segments.append(survey_segment(self._disk, self._layout, stride, order))
