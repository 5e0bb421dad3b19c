"""How much of groups' files would have to be read again after a restart, for whoever watches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from barbicel.stroma.group import Group

__all__ = ["GroupFileSizes", "measure"]


class GroupFileSizes(NamedTuple):
    """The bytes of all deltas and of the longest, and how old the oldest snapshot is, if there is any."""

    delta_bytes: int = 0
    longest_delta_bytes: int = 0
    snapshot_age_ms: int | None = None


def measure(groups: Sequence[Group], now_ms: int) -> GroupFileSizes:
    deltas = [group.delta_bytes for group in groups]
    taken_ms = min((group.snapshot_ms for group in groups if group.snapshot_ms is not None), default=None)
    age_ms = None if taken_ms is None else max(0, now_ms - taken_ms)
    return GroupFileSizes(sum(deltas), max(deltas, default=0), age_ms)
