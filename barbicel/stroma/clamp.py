"""What becomes of a group when its log is shorter than what the group says.

A power cut can take the end of a log whose acks are durable already. The offsets are given to new
messages, and those must not count as acked: redelivery, never loss. No event takes back a part of what is
acked, so a clamp is a new snapshot, which replaces the old state as a whole or not at all.
"""

from __future__ import annotations

from dataclasses import replace

from barbicel.codecs.stroma_snapshot import Snapshot

__all__ = ["clamp_snapshot"]


def clamp_snapshot(snapshot: Snapshot, end_offset: int) -> Snapshot:
    """The same without anything about offsets from `end_offset` on; what was committed is kept beside."""
    return replace(
        snapshot,
        acked_until=min(snapshot.acked_until, end_offset),
        inflight=tuple(entry for entry in snapshot.inflight if entry[0] < end_offset),
        ranges=tuple((start, min(end, end_offset)) for start, end in snapshot.ranges if start < end_offset),
        releases=tuple(entry for entry in snapshot.releases if entry[0] < end_offset),
    )
