"""Looking at a directory of groups from the outside. Nothing is changed there, not even the lock file.

A group is read, summed up and let go of before the next one, so that any number of them fits in memory.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from heapq import nsmallest
from itertools import islice
from typing import NamedTuple

from barbicel.codecs.stroma_format import NO_DEADLINE_MS, Inflight
from barbicel.disk import Disk, Entry
from barbicel.errors import BarbicelError, DiskError, UnknownVersion
from barbicel.stroma.layout import GroupFiles, StoreLayout
from barbicel.stroma.names import GroupKey, file_stem, is_hashed, parse_stem
from barbicel.stroma.ranges import Range
from barbicel.stroma.recovery import GroupPlan, TornDelta, plan_group
from barbicel.stroma.repair import rebuilt_state
from barbicel.stroma.state import GroupState
from barbicel.stroma.store import list_groups

__all__ = [
    "SAMPLE_ENTRIES",
    "Finding",
    "Findings",
    "Rebuild",
    "Sample",
    "Selection",
    "Summary",
    "Verdict",
    "check_is_store",
    "look",
    "look_under_lock",
]

# What a deep look lists of each table of a group.
SAMPLE_ENTRIES = 20
# A compaction between the reads of two files looks like damage: a store in use gets another look.
LOOKS_AT_A_GROUP_IN_USE = 3
_ASIDE = re.compile(r"(.+)\.(?:delta\.torn|(?:snap|delta|name)\.corrupt)-[0-9]+", re.DOTALL)


class Verdict(IntEnum):
    """What is to be said of a group, or of the worst one of many; the number is the exit code of `verify`."""

    SOUND = 0
    # Opening the group does what is to be done.
    RECOVERABLE = 1
    # A file cannot be read, or a newer program wrote it: not even a repair may touch it.
    UNREADABLE = 2
    # The group cannot be used, or not be found: only a repair changes that.
    DAMAGED = 3


class Selection(NamedTuple):
    """The groups that are asked for; None is any."""

    topic: str | None = None
    partition: int | None = None
    group: str | None = None

    @property
    def is_everything(self) -> bool:
        return all(wanted is None for wanted in self)

    @property
    def key(self) -> GroupKey | None:
        """The one group that is asked for, if it is one."""
        if not self.topic or self.partition is None or self.group is None:
            return None
        return GroupKey(self.topic, self.partition, self.group)

    def matches(self, key: GroupKey) -> bool:
        return all(wanted is None or wanted == field for wanted, field in zip(self, key, strict=True))


class Rebuild(NamedTuple):
    """How a damaged group is to be rebuilt; see `rebuilt_state`."""

    start_offset: int = 0
    use_delta: bool = True


DEFAULT_REBUILD = Rebuild()


class Sample(NamedTuple):
    """The first entries of a group's tables."""

    ranges: tuple[Range, ...]
    inflight: tuple[tuple[int, Inflight], ...]
    releases: tuple[tuple[int, int], ...]


class Summary(NamedTuple):
    """A group's state in numbers."""

    acked_until: int
    # Acked beyond the frontier.
    acked_ranges: int
    acked_offsets: int
    inflight: int
    releases: int
    is_committed: bool
    leader_epoch: int | None
    metadata: bytes | None
    next_deadline_ms: int | None
    sample: Sample | None


@dataclass(frozen=True, slots=True)
class Finding:
    """One group as it was found."""

    key: GroupKey
    files: GroupFiles
    # None if it is not known, because of `damage` or `unreadable`.
    state: Summary | None = None
    # What a repair makes of a damaged group.
    rebuilt: Summary | None = None
    # The frontier as far as the files tell; None if they do not.
    known_until: int | None = None
    generation: int | None = None
    snapshot_bytes: int = 0
    delta_bytes: int = 0
    events: int = 0
    torn: TornDelta | None = None
    # A new delta has to be begun, in the place of a void one or where none is.
    is_delta_void: bool = False
    is_delta_missing: bool = False
    # The file of a hashed name that holds the full one is there and right; True if there is no need of it.
    has_name: bool = True
    damage: str | None = None
    unreadable: str | None = None

    @property
    def needs_recovery(self) -> bool:
        return self.torn is not None or self.is_delta_void or self.is_delta_missing

    @property
    def verdict(self) -> Verdict:
        if self.unreadable is not None:
            return Verdict.UNREADABLE
        if self.damage is not None or not self.has_name:
            return Verdict.DAMAGED
        return Verdict.RECOVERABLE if self.needs_recovery else Verdict.SOUND


@dataclass(frozen=True, slots=True)
class Findings:
    """A directory of groups as it was found, or the selected part of it."""

    root: str
    # The process that has the groups open, as Disk.lock_holder tells it.
    holder: str | None
    groups: tuple[Finding, ...]
    # Files of groups with a hashed name whose full name is missing or wrong: nobody knows whose they are.
    unnamed: tuple[str, ...]
    # Names that are no group's. Neither these nor the unnamed are told if only some groups are asked for.
    foreign: tuple[str, ...]
    # The evidence that recovery and earlier repairs kept.
    asides: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        worst = max((finding.verdict for finding in self.groups), default=Verdict.SOUND)
        return Verdict.DAMAGED if self.unnamed else worst


# --- the directory --------------------------------------------------------------------------------


def check_is_store(disk: Disk, layout: StoreLayout) -> None:
    """Raises BarbicelError if this is no directory of groups, DiskError if that cannot be found out."""
    if not disk.exists(layout.root):
        raise BarbicelError("there is no such directory", path=layout.root)
    entries = disk.list(layout.root)
    names = {entry.name for entry in entries}
    if {"manifest.bin", "segments"} & names:
        raise BarbicelError("this is a log, not a directory of groups", path=layout.root, hint="barbicel log")
    if any(_group_stem(entry) is not None for entry in entries) or {"LOCK", "tmp"} <= names:
        return
    raise BarbicelError("not a directory of groups: there is no .snap and no .delta", path=layout.root)


def look(
    disk: Disk,
    path: str,
    selection: Selection,
    rebuild: Rebuild = DEFAULT_REBUILD,
    *,
    deep: bool = False,
) -> Findings:
    """What is in a directory of groups, also while another process works there.

    Raises BarbicelError if it is none or if no group is the selected one, DiskError if the directory
    cannot be read. What is wrong with one group's files is told with the group.
    """
    layout = StoreLayout(path)
    check_is_store(disk, layout)
    return _look(disk, layout, selection, rebuild, disk.lock_holder(layout.lock), deep=deep)


def look_under_lock(disk: Disk, layout: StoreLayout, selection: Selection, rebuild: Rebuild) -> Findings:
    """As `look`, for whoever holds the store's lock."""
    return _look(disk, layout, selection, rebuild, holder=None, deep=False)


def _look(
    disk: Disk,
    layout: StoreLayout,
    selection: Selection,
    rebuild: Rebuild,
    holder: str | None,
    *,
    deep: bool,
) -> Findings:
    # Before the groups: one that is made in between is not yet in it, and so is not taken for nobody's.
    entries = disk.list(layout.root)
    named = set(list_groups(disk, layout))
    keys = sorted(key for key in named if selection.matches(key))
    if selection.key is not None and not keys and _has_files(disk, layout, selection.key):
        keys = [selection.key]
    found = (_look_at(disk, layout.files(key), key, rebuild, holder, deep, key in named) for key in keys)
    groups = tuple(finding for finding in found if finding is not None)
    if not groups and not selection.is_everything:
        raise BarbicelError("no group here is the one that was asked for", path=layout.root)
    if selection.is_everything:
        unnamed, foreign, asides = _others(disk, layout, entries, {file_stem(key) for key in named})
    else:
        unnamed, foreign = (), ()
        asides = _asides(layout, entries, {finding.files.stem for finding in groups})
    return Findings(layout.root, holder, groups, unnamed, foreign, asides)


def _has_files(disk: Disk, layout: StoreLayout, key: GroupKey) -> bool:
    files = layout.files(key)
    return disk.exists(files.snapshot) or disk.exists(files.delta)


def _group_stem(entry: Entry, suffixes: Sequence[str] = ("snap", "delta")) -> str | None:
    """The stem of a name that a group's file may have."""
    stem, dot, suffix = entry.name.rpartition(".")
    if not dot or suffix not in suffixes or entry.is_directory:
        return None
    return stem if is_hashed(stem) or (suffix != "name" and parse_stem(stem) is not None) else None


def _others(
    disk: Disk, layout: StoreLayout, entries: Sequence[Entry], stems: set[str]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The unnamed, the foreign and the kept aside."""
    hashed = [entry for entry in entries if is_hashed(_group_stem(entry) or "")]
    unknown = {entry.name.rpartition(".")[0] for entry in hashed} - stems
    unnamed, foreign = [], []
    for entry in entries:
        path = f"{layout.root}/{entry.name}"
        stem = _group_stem(entry, ("snap", "delta", "name"))
        if entry.name in ("LOCK", "tmp") or _aside_stem(entry) is not None:
            continue
        if stem is None or (entry.name.endswith(".name") and stem not in stems | unknown):
            foreign.append(path)
        elif stem in unknown and disk.exists(path):
            unnamed.append(path)
    return tuple(unnamed), tuple(foreign), _asides(layout, entries, None)


def _asides(layout: StoreLayout, entries: Sequence[Entry], stems: set[str] | None) -> tuple[str, ...]:
    """The evidence of the groups with these stems; None is any."""
    return tuple(
        f"{layout.root}/{entry.name}"
        for entry in entries
        if (stem := _aside_stem(entry)) is not None and (stems is None or stem in stems)
    )


def _aside_stem(entry: Entry) -> str | None:
    match = None if entry.is_directory else _ASIDE.fullmatch(entry.name)
    return None if match is None else match[1]


# --- one group ------------------------------------------------------------------------------------


def _look_at(
    disk: Disk,
    files: GroupFiles,
    key: GroupKey,
    rebuild: Rebuild,
    holder: str | None,
    deep: bool,
    is_named: bool,
) -> Finding | None:
    """None if the group was deleted meanwhile."""
    try:
        plan = _plan_beside_writer(disk, files, key, looks=1 if holder is None else LOOKS_AT_A_GROUP_IN_USE)
    except (DiskError, UnknownVersion) as error:
        return Finding(key, files, unreadable=str(error))
    if not plan.exists:
        return None
    is_usable = plan.damage is None
    is_fresh_delta_due = is_usable and not plan.delta_bytes
    has_delta = disk.exists(files.delta)
    state = plan.state()
    return Finding(
        key,
        files,
        state=_summary(state, deep=deep) if is_usable else None,
        rebuilt=None if is_usable else _summary(_rebuilt(plan, rebuild), deep=deep),
        known_until=state.acked_until if is_usable or plan.snapshot is not None else None,
        generation=plan.generation if is_usable else None,
        snapshot_bytes=plan.snapshot_bytes,
        delta_bytes=plan.delta_bytes,
        events=len(plan.events),
        torn=plan.torn,
        is_delta_void=is_fresh_delta_due and has_delta,
        is_delta_missing=is_fresh_delta_due and not has_delta,
        has_name=is_named,
        damage=plan.damage,
    )


def _plan_beside_writer(disk: Disk, files: GroupFiles, key: GroupKey, looks: int) -> GroupPlan:
    for _ in range(looks - 1):
        try:
            plan = plan_group(disk, files, key)
        except DiskError as error:
            if error.errno != errno.ENOENT:
                raise
        else:
            if plan.damage is None:
                return plan
    return plan_group(disk, files, key)


def _rebuilt(plan: GroupPlan, rebuild: Rebuild) -> GroupState:
    return rebuilt_state(plan, rebuild.start_offset, use_delta=rebuild.use_delta)


def _summary(state: GroupState, *, deep: bool) -> Summary:
    deadline_ms = state.next_expiry_ms()
    return Summary(
        acked_until=state.acked_until,
        acked_ranges=len(state.acked),
        acked_offsets=state.acked.covered,
        inflight=len(state.inflight),
        releases=len(state.releases),
        is_committed=state.is_committed,
        leader_epoch=state.leader_epoch,
        metadata=state.metadata,
        next_deadline_ms=None if deadline_ms == NO_DEADLINE_MS else deadline_ms,
        sample=_sample(state) if deep else None,
    )


def _sample(state: GroupState) -> Sample:
    return Sample(
        tuple(islice(state.acked, SAMPLE_ENTRIES)),
        tuple(nsmallest(SAMPLE_ENTRIES, state.inflight.items())),
        tuple(nsmallest(SAMPLE_ENTRIES, state.releases.items())),
    )
