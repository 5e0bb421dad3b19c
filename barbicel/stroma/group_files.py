"""How the files of a group come into being. Each function says what it makes durable, and what not."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from contextlib import suppress

from barbicel.codecs.stroma_events import DeltaHeader, encode_delta_header
from barbicel.codecs.stroma_snapshot import Snapshot, encode_snapshot
from barbicel.disk import Bytes, Disk, File, copy_file, read_file, replace_file
from barbicel.errors import DiskError
from barbicel.stroma import recovery
from barbicel.stroma.layout import GroupFiles
from barbicel.stroma.recovery import GroupPlan, TornDelta

__all__ = ["begin_delta", "keep_torn", "replace_delta", "replace_snapshot"]


def begin_delta(disk: Disk, files: GroupFiles, generation: int, events: Sequence[bytes], now_ms: int) -> File:
    """The first delta of a new group, with its first events: on return they survive a kill -9.

    Nothing is synced, so a power cut may leave any part of it; its name says so. After a failure it is gone
    again, if that is possible.
    """
    if disk.exists(files.begun):  # a power cut left no header of it
        disk.rename(files.begun, _free_name(disk, files, now_ms))
    delta = disk.open(files.begun, "create")
    try:
        delta.append([encode_delta_header(DeltaHeader(now_ms, generation)), *events])
    except DiskError:
        with suppress(DiskError):
            delta.close()
            disk.unlink(files.begun)
        raise
    return delta


def replace_delta(disk: Disk, files: GroupFiles, generation: int, events: Bytes, now_ms: int) -> File:
    """Put a delta with these events in the place of the old one; its bytes are durable, its name is not."""
    temporary = files.temporary(files.delta)
    if disk.exists(temporary):
        disk.unlink(temporary)
    delta = disk.open(temporary, "create")
    try:
        delta.append([encode_delta_header(DeltaHeader(now_ms, generation)), events])
        delta.fdatasync()
        disk.rename(temporary, files.delta)
    except DiskError:
        delta.close()
        raise
    delta.path = files.delta
    return delta


def replace_snapshot(disk: Disk, files: GroupFiles, snapshot: Snapshot) -> int:
    """Put a snapshot in the place of the old one, durably; returns its size.

    Raises DiskError also for one that would be too large to be read again.
    """
    encoded = encode_snapshot(snapshot)
    if len(encoded) >= recovery.MAX_FILE_BYTES:
        raise DiskError("write", files.snapshot, OSError(errno.EFBIG, "File too large"))
    replace_file(disk, files.temporary(files.snapshot), files.snapshot, [encoded])
    return len(encoded)


def keep_torn(disk: Disk, plan: GroupPlan, torn: TornDelta, now_ms: int) -> None:
    """Copy what is about to be cut off, durably, unless an earlier try has done so."""
    if _is_kept(disk, plan, torn):
        return
    # By another name first: a copy that fails is replaced by the next one, and they do not pile up.
    temporary = plan.files.temporary(f"{plan.files.delta}.torn")
    if disk.exists(temporary):
        disk.unlink(temporary)
    copy_file(disk, plan.delta_path, temporary, torn.position, torn.end_position)
    disk.rename(temporary, _free_name(disk, plan.files, now_ms))
    disk.sync_directory(plan.files.store.root)


def _free_name(disk: Disk, files: GroupFiles, now_ms: int) -> str:
    while disk.exists(f"{files.delta}.torn-{now_ms}"):
        now_ms += 1
    return f"{files.delta}.torn-{now_ms}"


def _is_kept(disk: Disk, plan: GroupPlan, torn: TornDelta) -> bool:
    root, size = plan.files.store.root, torn.end_position - torn.position
    prefix = f"{plan.files.delta}.torn-"
    paths = (f"{root}/{name}" for name in disk.names(root))
    same_size = [path for path in paths if path.startswith(prefix) and disk.size(path) == size]
    if not same_size:
        return False
    data = read_file(disk, plan.delta_path, torn.end_position)[torn.position :]
    return any(read_file(disk, path, size) == data for path in same_size)
