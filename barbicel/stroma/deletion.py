"""Deleting a group's files in an order in which no crash brings an older state back.

A snapshot without its delta is an older state, and a delta without its snapshot is damage. So a delta that
says Reset comes first. It has no generation: it counts behind the old snapshot, and alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from barbicel.codecs.stroma_events import DeltaHeader, Reset, encode_delta_header, encode_event
from barbicel.disk import Disk, replace_file
from barbicel.errors import DiskError
from barbicel.stroma.layout import GroupFiles

__all__ = ["delete_files"]

NO_GENERATION = 0


def delete_files(disk: Disk, groups: Sequence[GroupFiles], now_ms: int) -> dict[GroupFiles, DiskError]:
    """On return they are gone, durably, but for those that are returned with their error.

    A crash leaves each group as it was, or empty, or not at all. All share the syncs of their directory.
    """
    failed: dict[GroupFiles, DiskError] = {}
    _each(groups, failed, partial(_empty, disk, now_ms))
    for path_of in _ORDER:
        _each(groups, failed, partial(_unlink, disk, path_of))
        # Each before the next, and also if there is nothing: an interrupted deletion may have been here.
        if len(failed) < len(groups):
            _sync(disk, groups, failed)
    return failed


# The begun one before the other delta, without which it would count.
_ORDER: Sequence[Callable[[GroupFiles], str]] = (
    lambda files: files.begun,
    lambda files: files.snapshot,
    lambda files: files.delta,
    lambda files: files.name,
)


def _each(
    groups: Iterable[GroupFiles],
    failed: dict[GroupFiles, DiskError],
    step: Callable[[GroupFiles], None],
) -> None:
    """Take the step with every group for which none before has failed."""
    for files in groups:
        if files not in failed:
            try:
                step(files)
            except DiskError as error:
                failed[files] = error


def _empty(disk: Disk, now_ms: int, files: GroupFiles) -> None:
    if disk.exists(files.snapshot) and (disk.exists(files.delta) or disk.exists(files.begun)):
        emptied = [encode_delta_header(DeltaHeader(now_ms, NO_GENERATION)), encode_event(Reset())]
        replace_file(disk, files.temporary(files.delta), files.delta, emptied)


def _unlink(disk: Disk, path_of: Callable[[GroupFiles], str], files: GroupFiles) -> None:
    path = path_of(files)
    if disk.exists(path):
        disk.unlink(path)


def _sync(disk: Disk, groups: Sequence[GroupFiles], failed: dict[GroupFiles, DiskError]) -> None:
    try:
        disk.sync_directory(groups[0].store.root)
    except DiskError as error:
        for files in groups:
            failed.setdefault(files, error)
