"""One member of a group: what it said when it joined, and what the leader gave it."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass

from barbicel.gateway.broker.membership.messages import JoinRequest, Protocol

__all__ = ["Member", "bytes_of"]

# Of an object, with what refers to it.
OBJECT_BYTES = 200


def bytes_of(protocols: Iterable[Protocol]) -> int:
    """What they take in memory, about."""
    return sum(OBJECT_BYTES + len(protocol.name) + len(protocol.metadata) for protocol in protocols)


@dataclass(slots=True)
class Member:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    # Until its first generation begins. Only then does it send heartbeats, or know that it is a member.
    is_new: bool = True

    @classmethod
    def from_request(cls, member_id: str, request: JoinRequest) -> Member:
        return cls(
            member_id=member_id,
            group_instance_id=request.group_instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.effective_rebalance_timeout_ms,
            protocols=request.protocols,
        )

    @property
    def held_bytes(self) -> int:
        """What it makes the server hold, without its assignment."""
        return len(self.member_id) + len(self.client_id) + bytes_of(self.protocols)

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def protocol_names(self) -> set[str]:
        return {protocol.name for protocol in self.protocols}

    def metadata(self, protocol_name: str) -> bytes:
        return next(protocol.metadata for protocol in self.protocols if protocol.name == protocol_name)

    def vote(self, candidates: Container[str]) -> str:
        """Its favourite among those that everybody supports."""
        return next(protocol.name for protocol in self.protocols if protocol.name in candidates)
