"""What clients ask of a coordinator and what it answers, as plain values.

Defaults are Kafka's: an answer with an error leaves the rest as it is here. A null string stays None; the
wire decides how a version that has no null writes it.
"""

from __future__ import annotations

from typing import NamedTuple

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.gateway.broker.membership.states import GroupState

__all__ = [
    "NO_GENERATION",
    "NO_MEMBER_ID",
    "Commit",
    "DescribedGroup",
    "DescribedMember",
    "Heartbeat",
    "JoinAnswer",
    "JoinRequest",
    "JoinedMember",
    "LeaveAnswer",
    "LeaverAnswer",
    "ListedGroup",
    "MemberIdentity",
    "Protocol",
    "SyncAnswer",
    "SyncRequest",
]

NO_GENERATION = -1
NO_MEMBER_ID = ""

# KIP-394: from here on a new member is given an id first, so that one whose answer got lost leaves no ghost.
_FIRST_WITH_MEMBER_ID_REQUIRED = 4
# KIP-814: the answer can tell a leader that the members have their assignment.
_FIRST_WITH_SKIP_ASSIGNMENT = 9
# KIP-559: the member says which protocol it believes to be selected.
_FIRST_WITH_PROTOCOL_IN_SYNC = 5


class Protocol(NamedTuple):
    name: str
    metadata: bytes


class JoinRequest(NamedTuple):
    """`protocols` in the order of the member's preference."""

    group_id: str
    api_version: int
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str
    protocols: tuple[Protocol, ...]

    @property
    def requires_member_id(self) -> bool:
        return self.api_version >= _FIRST_WITH_MEMBER_ID_REQUIRED

    @property
    def supports_skip_assignment(self) -> bool:
        return self.api_version >= _FIRST_WITH_SKIP_ASSIGNMENT

    @property
    def effective_rebalance_timeout_ms(self) -> int:
        """Version 0 has no rebalance timeout: the session's stands for it. KIP-62."""
        return self.session_timeout_ms if self.api_version == 0 else self.rebalance_timeout_ms


class JoinedMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinAnswer(NamedTuple):
    """Only the leader is told the members."""

    error: ErrorCode
    member_id: str = NO_MEMBER_ID
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = NO_MEMBER_ID
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


class SyncRequest(NamedTuple):
    """`assignments` are (member id, bytes) and count only if they come from the leader."""

    group_id: str
    api_version: int
    generation_id: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: tuple[tuple[str, bytes], ...]

    @property
    def lacks_protocol(self) -> bool:
        return self.api_version >= _FIRST_WITH_PROTOCOL_IN_SYNC and (
            self.protocol_type is None or self.protocol_name is None
        )


class SyncAnswer(NamedTuple):
    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class Heartbeat(NamedTuple):
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


class Commit(NamedTuple):
    """Who wants to commit offsets."""

    group_id: str
    generation_id: int = NO_GENERATION
    member_id: str = NO_MEMBER_ID
    group_instance_id: str | None = None
    is_transactional: bool = False

    @property
    def names_a_member(self) -> bool:
        return self.generation_id >= 0 or bool(self.member_id) or self.group_instance_id is not None


class MemberIdentity(NamedTuple):
    """Who leaves: by member id, by instance id alone (as admin tools do), or by both."""

    member_id: str
    group_instance_id: str | None = None


class LeaverAnswer(NamedTuple):
    identity: MemberIdentity
    error: ErrorCode


class LeaveAnswer(NamedTuple):
    """Versions 0 to 2 have one leaver and no list: its error is the answer's."""

    error: ErrorCode
    leavers: tuple[LeaverAnswer, ...] = ()


class DescribedMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(NamedTuple):
    """Protocol and metadata are known in Stable alone; otherwise they are empty, as in Kafka."""

    group_id: str
    state: GroupState
    protocol_type: str
    protocol_name: str
    members: tuple[DescribedMember, ...]


class ListedGroup(NamedTuple):
    group_id: str
    protocol_type: str
    state: GroupState
