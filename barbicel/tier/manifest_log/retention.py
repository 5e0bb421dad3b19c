"""What a disk may forget of a manifest log: decisions, no I/O."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from barbicel.codecs.aof2_manifest import ChunkHeader

__all__ = ["KEPT_SEALED_CHUNKS", "KEPT_SNAPSHOTS", "evictable_chunks", "evictable_snapshots"]

KEPT_SEALED_CHUNKS = 2
# The newest, and one to fall back to.
KEPT_SNAPSHOTS = 2


def evictable_chunks(sealed: Mapping[int, ChunkHeader], covered_below: int) -> list[int]:
    """The oldest chunks, as far as all of them are uploaded and covered by the newest snapshot.

    The two newest sealed ones stay. `covered_below` is the chunk in which that snapshot ends.
    """
    evictable = []
    for index in sorted(sealed)[:-KEPT_SEALED_CHUNKS]:
        if index >= covered_below or not sealed[index].is_uploaded:
            break  # what follows stays too, so that what is there is one row
        evictable.append(index)
    return evictable


def evictable_snapshots(snapshots: Sequence[int], damaged: Container[int]) -> list[int]:
    """All but the newest whole ones; the damaged ones are evidence and stay."""
    whole = [snapshot_id for snapshot_id in sorted(snapshots) if snapshot_id not in damaged]
    return whole[:-KEPT_SNAPSHOTS]
