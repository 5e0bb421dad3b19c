"""Making a damaged group usable again: redelivery where something is not known, never loss.

The damaged files are put aside first. What the delta still says counts: an ack in it is an ack. All else
is unacked from the first offset of the log on. Where a position may have been committed, one is: a consumer
that finds none may begin at the end of the log.
"""

from __future__ import annotations

from barbicel.codecs.stroma_events import BumpAckedUntil, Commit, DeltaHeader, encode_delta_header
from barbicel.codecs.stroma_snapshot import encode_snapshot
from barbicel.disk import Disk, Replacement, copy_file, read_file, replace_file, replace_files
from barbicel.stroma.layout import GroupFiles
from barbicel.stroma.names import GroupKey, is_hashed, render_full_name
from barbicel.stroma.recovery import GroupPlan
from barbicel.stroma.state import GroupState

__all__ = ["mend_name", "rebuild_group", "rebuilt_state"]


def rebuilt_state(plan: GroupPlan, start_offset: int, *, use_delta: bool = True) -> GroupState:
    """What the group will have consumed after a repair.

    `start_offset` is the first offset that the log still has; below it there is nothing to deliver.
    """
    # Without the delta the snapshot may say too much: a commit backwards may have followed it.
    known = plan.snapshot if use_delta else None
    state = GroupState() if known is None else GroupState.of(known)
    state.apply(Commit(start_offset, None, None) if known is None else BumpAckedUntil(start_offset))
    if use_delta:
        for event in plan.events:
            state.apply(event)
    return state


def rebuild_group(
    disk: Disk, plan: GroupPlan, start_offset: int, now_ms: int, *, use_delta: bool = True
) -> GroupState:
    """Carry the repair out: on return the group's files are sound and durable, the old ones aside."""
    files = plan.files
    state = rebuilt_state(plan, start_offset, use_delta=use_delta)
    for path in files.data:
        if disk.exists(path):
            _keep(disk, path, now_ms)
    # So that it makes the delta void that is still there if this is interrupted.
    generation = max(plan.generation, 1)
    snapshot = state.snapshot(
        created_ts_ms=now_ms,
        tp_hash=plan.key.tp_hash,
        group_hash=plan.key.group_hash,
        generation=generation,
    )
    delta = encode_delta_header(DeltaHeader(now_ms, generation + 1))
    disk.make_directory(files.store.temporaries)
    for path, data in ((files.snapshot, encode_snapshot(snapshot)), (files.delta, delta)):
        replace_files(disk, [Replacement(files.temporary(path), path, [data])])
    if disk.exists(files.begun):
        disk.unlink(files.begun)
    return state


def mend_name(disk: Disk, files: GroupFiles, key: GroupKey, now_ms: int) -> None:
    """A hashed file name says nothing: on return the full one lies beside it, durably, a wrong one aside."""
    if not is_hashed(files.stem):
        return
    name = render_full_name(key).encode("ascii")
    if disk.exists(files.name):
        if read_file(disk, files.name, len(name) + 1) == name:
            return
        _keep(disk, files.name, now_ms)
    replace_file(disk, files.temporary(files.name), files.name, [name])


def _keep(disk: Disk, path: str, now_ms: int) -> None:
    while disk.exists(f"{path}.corrupt-{now_ms}"):
        now_ms += 1
    copy_file(disk, path, f"{path}.corrupt-{now_ms}")
