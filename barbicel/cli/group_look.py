"""Looking at a directory of groups from the outside. Nothing is changed there, not even the lock file.

A group is read, summed up and let go of before the next one, so that any number of them fits in memory.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence
from contextlib import suppress
from heapq import nsmallest
from itertools import islice
from typing import NamedTuple

from barbicel.cli.group_findings import Finding, Findings, Sample, Selection, Summary
from barbicel.codecs.stroma_format import NO_DEADLINE_MS
from barbicel.disk import Disk, Entry
from barbicel.errors import BarbicelError, DiskError, NotAGroupDirectory, UnknownVersion
from barbicel.stroma.directory import list_groups, read_hashed_key
from barbicel.stroma.layout import GroupFiles, StoreLayout, data_stem
from barbicel.stroma.names import GroupKey, file_stem, is_hashed, parse_stem
from barbicel.stroma.recovery import GroupPlan, plan_group
from barbicel.stroma.repair import rebuilt_state
from barbicel.stroma.state import GroupState

__all__ = ["SAMPLE_ENTRIES", "Rebuild", "check_is_store", "look", "look_under_lock"]

# What a deep look lists of each table of a group.
SAMPLE_ENTRIES = 20
# A compaction between the reads of two files looks like damage: a store in use gets another look.
LOOKS_AT_A_GROUP_IN_USE = 3
_ASIDE = re.compile(r"(.+)\.(?:delta\.torn|(?:snap|delta|name)\.corrupt)-[0-9]+", re.DOTALL)


class Rebuild(NamedTuple):
    """How a damaged group is to be rebuilt; see `rebuilt_state`."""

    start_offset: int = 0
    use_delta: bool = True


DEFAULT_REBUILD = Rebuild()


# --- the directory --------------------------------------------------------------------------------


def check_is_store(disk: Disk, layout: StoreLayout) -> None:
    """Raises NotAGroupDirectory, or DiskError if that cannot be found out."""
    if not disk.exists(layout.root):
        raise NotAGroupDirectory("there is no such directory", path=layout.root)
    entries = disk.list(layout.root)
    names = {entry.name for entry in entries}
    if {"manifest.bin", "segments"} & names:
        raise NotAGroupDirectory(
            "this is a log, not a directory of groups", path=layout.root, hint="barbicel log"
        )
    if any(_state_stem(entry) is not None for entry in entries) or {"LOCK", "tmp"} <= names:
        return
    raise NotAGroupDirectory("not a directory of groups: there is no .snap and no .delta", path=layout.root)


def look(
    disk: Disk,
    path: str,
    selection: Selection,
    rebuild: Rebuild = DEFAULT_REBUILD,
    *,
    deep: bool = False,
) -> Findings:
    """What is in a directory of groups, also while another process works there.

    Raises NotAGroupDirectory, BarbicelError if no group is the selected one, DiskError if the directory
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
    named = _named_groups(disk, layout)
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


def _named_groups(disk: Disk, layout: StoreLayout) -> set[GroupKey]:
    """Those whose names can be read; the files of the others are told as nobody's."""
    named: set[GroupKey] = set()
    with suppress(DiskError):
        for key in list_groups(disk, layout):
            named.add(key)
    return named


def _has_files(disk: Disk, layout: StoreLayout, key: GroupKey) -> bool:
    try:
        files = layout.files(key)
    except ValueError:
        return False  # no group can have this name
    return any(disk.exists(path) for path in files.data)


def _state_stem(entry: Entry) -> str | None:
    """The stem of a name that a file with a group's state may have."""
    stem = None if entry.is_directory else data_stem(entry.name)
    return stem if stem is not None and (is_hashed(stem) or parse_stem(stem) is not None) else None


def _name_stem(entry: Entry) -> str | None:
    """The stem of a name that a file with a group's full name may have."""
    stem, dot, suffix = entry.name.rpartition(".")
    return stem if dot and suffix == "name" and is_hashed(stem) and not entry.is_directory else None


def _others(
    disk: Disk, layout: StoreLayout, entries: Sequence[Entry], stems: set[str]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The unnamed, the foreign and the kept aside."""
    hashed = {stem for entry in entries if (stem := _state_stem(entry)) is not None and is_hashed(stem)}
    unknown = {stem for stem in hashed - stems if _is_nobodys(disk, layout, stem)}
    unnamed, foreign = [], []
    for entry in entries:
        path = f"{layout.root}/{entry.name}"
        stem = _state_stem(entry) or _name_stem(entry)
        if entry.name in ("LOCK", "tmp") or _aside_stem(entry) is not None:
            continue
        if stem is None or (_name_stem(entry) is not None and stem not in stems | hashed):
            foreign.append(path)
        elif stem in unknown and disk.exists(path):
            unnamed.append(path)
    return tuple(unnamed), tuple(foreign), _asides(layout, entries, None)


def _is_nobodys(disk: Disk, layout: StoreLayout, stem: str) -> bool:
    """Whether files that had no name still have none: a group is made or deleted beside this look."""
    files = GroupFiles(layout, stem)
    if not any(disk.exists(path) for path in files.data):
        return False
    try:
        return read_hashed_key(disk, layout, stem) is None
    except DiskError:
        return True


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
        if holder is not None and not any(disk.exists(path) for path in files.data):
            return None
        return Finding(key, files, unreadable=str(error))
    if not plan.exists:
        return None
    is_usable = plan.damage is None
    is_fresh_delta_due = is_usable and not plan.delta_bytes
    has_delta = disk.exists(plan.delta_path)
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
        delta_path=plan.delta_path,
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
