"""What can be set about the groups."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["StoreSettings", "SyncPolicy"]


class SyncPolicy(Enum):
    """When events that were written are synced. A lost ack means redelivery, never loss."""

    ALWAYS = "always"  # before they are answered
    INTERVAL = "interval"  # within sync_interval_ms
    NEVER = "never"  # when the operating system gets round to it


@dataclass(frozen=True, slots=True)
class StoreSettings:
    sync_policy: SyncPolicy = SyncPolicy.INTERVAL
    sync_interval_ms: int = 100
    # A delta is replaced by a snapshot when it is longer than this and than the last snapshot...
    compact_bytes: int = 4 << 20
    # ...or than this many times the last snapshot, once it is worth the effort.
    compact_ratio: int = 4
    compact_min_bytes: int = 256 << 10
    # Beyond this a turn waits for the snapshot. Without maintenance nobody else makes one.
    max_delta_bytes: int = 64 << 20
    # Groups that stay in memory with an open file; the least recently used ones go first.
    max_open_groups: int = 1000
    # A group that nobody used for this long goes back to its files.
    idle_ms: int = 60_000

    def __post_init__(self) -> None:
        for name, (least, most) in _ALLOWED.items():
            if not least <= getattr(self, name) <= most:
                raise ValueError(f"{name} is {getattr(self, name)}, allowed is {least} to {most}")


_ANY = 1 << 62
_ALLOWED = {
    "sync_interval_ms": (0, _ANY),
    "compact_bytes": (0, _ANY),
    "compact_ratio": (0, _ANY),
    "compact_min_bytes": (0, _ANY),
    # Half of what is read again, so that a turn more is no harm.
    "max_delta_bytes": (0, 512 << 20),
    "max_open_groups": (1, _ANY),
    "idle_ms": (0, _ANY),
}
