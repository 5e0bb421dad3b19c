"""Deleting a group's files in an order in which no crash brings an older state back.

A snapshot without its delta is an older state, and a delta without its snapshot is damage. So a delta that
says Reset comes first. It has no generation: it counts behind the old snapshot, and alone.
"""

from __future__ import annotations

from barbicel.codecs.stroma_events import DeltaHeader, Reset, encode_delta_header, encode_event
from barbicel.disk import Disk, replace_file
from barbicel.stroma.layout import GroupFiles

__all__ = ["delete_files"]

NO_GENERATION = 0


def delete_files(disk: Disk, files: GroupFiles, now_ms: int) -> None:
    """On return they are gone, durably. A crash leaves the group as it was, or empty, or not at all."""
    if disk.exists(files.snapshot) and (disk.exists(files.delta) or disk.exists(files.begun)):
        emptied = [encode_delta_header(DeltaHeader(now_ms, NO_GENERATION)), encode_event(Reset())]
        replace_file(disk, files.temporary(files.delta), files.delta, emptied)
    # The begun one before the other delta, without which it would count.
    for path in (files.begun, files.snapshot, files.delta, files.name):
        if disk.exists(path):
            disk.unlink(path)
        # Each before the next, and also if there is nothing: an interrupted deletion may have been here.
        disk.sync_directory(files.store.root)
