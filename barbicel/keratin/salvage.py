"""Saving what is readable of a damaged log into a new directory; the damaged one is not touched."""

from __future__ import annotations

from barbicel.codecs.keratin_format import parse_segment_name
from barbicel.disk import Disk, copy_file
from barbicel.errors import NotALog
from barbicel.keratin.layout import Layout
from barbicel.keratin.plan import RecoveryPlan
from barbicel.keratin.recovery import plan_recovery
from barbicel.keratin.repair import apply_plan

__all__ = ["salvage"]


def salvage(disk: Disk, source: RecoveryPlan, target: Layout, now_ms: int) -> RecoveryPlan:
    """Copy the log that `source` describes and repair the copy; returns what was found in the copy.

    Offsets stay as they are; where some were lost the new log says so. The target must not hold a log.
    """
    if disk.exists(target.root) and disk.list(target.root):
        raise NotALog("the target exists and is not empty", path=target.root)
    disk.make_directory(target.segments)
    disk.make_directory(target.temporaries)
    for entry in disk.list(source.layout.segments):
        if not entry.is_directory and parse_segment_name(entry.name) is not None:
            copy_file(disk, f"{source.layout.segments}/{entry.name}", f"{target.segments}/{entry.name}")
    if disk.exists(source.layout.manifest):
        copy_file(disk, source.layout.manifest, target.manifest)
    found = plan_recovery(disk, target, source.settings, deep=True)
    repaired = apply_plan(disk, found, now_ms, accept_loss=True)
    _drop_evidence(disk, repaired, target)
    return found


def _drop_evidence(disk: Disk, repaired: RecoveryPlan, target: Layout) -> None:
    """What the repair put aside in the copy is still whole in the source."""
    kept = plan_recovery(disk, target, repaired.settings)
    for path in kept.asides:
        disk.unlink(path)
    if kept.asides:
        disk.sync_directory(target.segments)
