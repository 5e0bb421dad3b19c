"""Deadlines of all groups together: what has expired, and what a restart has to find again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import NamedTuple

from barbicel.clock import Clock
from barbicel.codecs.stroma_events import Release
from barbicel.codecs.stroma_snapshot import Inflight
from barbicel.errors import BarbicelError, DiskError
from barbicel.stroma.failures import RETRY_MS
from barbicel.stroma.names import GroupKey
from barbicel.stroma.open_groups import OpenGroups
from barbicel.stroma.ownership import Ownership

__all__ = ["Expired", "pop_expired", "recover_deadlines"]


class Expired(NamedTuple):
    """An offset that was handed out and not acked in time; it is available again."""

    key: GroupKey
    offset: int
    inflight: Inflight


def pop_expired(groups: OpenGroups, now_ms: int, limit: int) -> list[Expired]:
    """With the mutex. A group that cannot be opened is tried again later."""
    expired: list[Expired] = []
    while len(expired) < limit and (key := groups.hints.pop(now_ms)) is not None:
        try:
            group = groups.get(key)
        except BarbicelError:
            groups.hints.set(key, now_ms + RETRY_MS)
            continue
        found = group.state.expired(now_ms, limit - len(expired))
        groups.record(group, [Release(offset, entry.epoch) for offset, entry in found])
        groups.hints.set(key, group.state.next_expiry_ms())
        expired += [Expired(key, offset, entry) for offset, entry in found]
    return expired


def recover_deadlines(
    owner: Ownership, groups: OpenGroups, keys: Iterator[GroupKey], mutex: threading.RLock, clock: Clock
) -> Iterator[GroupKey]:
    """Without the mutex. A group that cannot be read for now is looked at again when it could be due."""
    for key in keys:
        with mutex:
            owner.check()
            if key not in groups:
                _recover(groups, key, clock)
        yield key


def _recover(groups: OpenGroups, key: GroupKey, clock: Clock) -> None:
    try:
        groups.read_hint(key)
    except DiskError:
        groups.hints.set(key, clock() + RETRY_MS)
    except BarbicelError:
        return  # it is damaged, or a newer program's: using it says what is wrong
