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
    # A delta is replaced by a snapshot when it is longer than this...
    compact_bytes: int = 4 << 20
    # ...or than this many times the last snapshot, once it is worth the effort.
    compact_ratio: int = 4
    compact_min_bytes: int = 256 << 10
    # Groups that stay in memory with an open file; the least recently used ones go first.
    max_open_groups: int = 1000
    # A group that nobody used for this long goes back to its files.
    idle_ms: int = 60_000

    def __post_init__(self) -> None:
        for name in ("sync_interval_ms", "compact_bytes", "compact_ratio", "compact_min_bytes", "idle_ms"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}, allowed is 0 or more")
        if self.max_open_groups < 1:
            raise ValueError(f"max_open_groups is {self.max_open_groups}, allowed is 1 or more")
