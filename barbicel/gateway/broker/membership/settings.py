"""What can be set about the membership of groups, with Kafka's names and defaults."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["GroupSettings"]


@dataclass(frozen=True, slots=True)
class GroupSettings:
    # group.initial.rebalance.delay.ms: how long the first member of an empty group waits for others. KIP-134.
    initial_rebalance_delay_ms: int = 3_000
    # group.min.session.timeout.ms
    min_session_timeout_ms: int = 6_000
    # group.max.session.timeout.ms
    max_session_timeout_ms: int = 1_800_000
    # group.max.size
    max_size: int = 2**31 - 1
    # What all members of all groups together may make the server hold, with their ids and assignments. Kafka
    # has no such limit: there it is the heap.
    max_held_bytes: int = 128 << 20
    # A new member that waits for its first generation sends no heartbeats: this is all the time that it has.
    # Kafka gives it no name.
    new_member_join_timeout_ms: int = 300_000

    def __post_init__(self) -> None:
        if self.initial_rebalance_delay_ms < 0:
            raise ValueError(
                f"initial_rebalance_delay_ms is {self.initial_rebalance_delay_ms}, allowed is 0 or more"
            )
        for name in ("min_session_timeout_ms", "max_size", "max_held_bytes", "new_member_join_timeout_ms"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, allowed is 1 or more")
        if self.max_session_timeout_ms < self.min_session_timeout_ms:
            raise ValueError(
                f"max_session_timeout_ms is {self.max_session_timeout_ms}, "
                f"below min_session_timeout_ms, which is {self.min_session_timeout_ms}"
            )

    def allows_session_timeout(self, timeout_ms: int) -> bool:
        return self.min_session_timeout_ms <= timeout_ms <= self.max_session_timeout_ms
