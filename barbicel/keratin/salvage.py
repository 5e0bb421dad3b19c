"""Saving what is readable of a damaged log into a new directory; the damaged one is not touched."""

from __future__ import annotations

import errno
from collections.abc import Iterator

from barbicel.codecs.keratin_format import parse_segment_name
from barbicel.disk import COPY_CHUNK_BYTES, Disk, File
from barbicel.errors import DiskError, NotALog
from barbicel.keratin.layout import Layout
from barbicel.keratin.manifest import settings_of
from barbicel.keratin.plan import RecoveryPlan
from barbicel.keratin.recovery import plan_recovery
from barbicel.keratin.repair import apply_plan

__all__ = ["salvage"]

# What a disk cannot read is left out in pieces of this size.
PAGE_BYTES = 4096


def salvage(disk: Disk, source: Layout, target: Layout, now_ms: int) -> RecoveryPlan:
    """Copy a log and repair the copy; returns what was found in the copy before that.

    Offsets stay as they are; where some were lost the new log says so. The target must not hold anything.
    """
    names = _segment_names(disk, source)
    if disk.exists(target.root) and disk.list(target.root):
        raise NotALog("the target exists and is not empty", path=target.root)
    disk.make_directory(target.segments)
    disk.make_directory(target.temporaries)
    for name in names:
        _copy_readable(disk, f"{source.segments}/{name}", f"{target.segments}/{name}")
    if disk.exists(source.manifest):
        _copy_readable(disk, source.manifest, target.manifest)
    for directory in (target.segments, target.root):
        disk.sync_directory(directory)
    found = plan_recovery(disk, target, settings_of(disk, target), deep=True)
    apply_plan(disk, found, now_ms, accept_loss=True)
    _drop_evidence(disk, target)
    return found


def _segment_names(disk: Disk, source: Layout) -> list[str]:
    if not disk.exists(source.segments):
        raise NotALog("there are no segments", path=source.root)
    return [
        entry.name
        for entry in disk.list(source.segments)
        if not entry.is_directory and parse_segment_name(entry.name) is not None
    ]


def _copy_readable(disk: Disk, source: str, target: str) -> None:
    """Copy a file, with zeros for what the disk cannot read; the records there are lost, no others."""
    origin = disk.open(source, "read")
    try:
        copy = disk.open(target, "create")
        try:
            for piece in _readable_pieces(origin):
                copy.append([piece])
            copy.fdatasync()
        finally:
            copy.close()
    finally:
        origin.close()


def _readable_pieces(file: File) -> Iterator[bytes]:
    end = file.size()
    for start in range(0, end, COPY_CHUNK_BYTES):
        size = min(COPY_CHUNK_BYTES, end - start)
        try:
            yield file.pread(size, start)
        except DiskError as error:
            if error.errno != errno.EIO:
                raise
            for page in range(start, start + size, PAGE_BYTES):
                yield _readable_page(file, page, min(PAGE_BYTES, start + size - page))


def _readable_page(file: File, position: int, size: int) -> bytes:
    try:
        return file.pread(size, position)
    except DiskError as error:
        if error.errno != errno.EIO:
            raise
        return bytes(size)


def _drop_evidence(disk: Disk, target: Layout) -> None:
    """What the repair put aside in the copy is still whole in the source."""
    asides = plan_recovery(disk, target, settings_of(disk, target)).asides
    for path in asides:
        disk.unlink(path)
    if asides:
        disk.sync_directory(target.segments)
