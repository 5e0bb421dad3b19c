"""Classic consumer groups: who is a member, who leads, who gets what. No I/O; the clock is passed in."""

from barbicel.gateway.broker.membership.coordinator import Coordinator
from barbicel.gateway.broker.membership.messages import (
    Commit,
    DescribedGroup,
    DescribedMember,
    Heartbeat,
    JoinAnswer,
    JoinedMember,
    JoinRequest,
    LeaveAnswer,
    LeaverAnswer,
    ListedGroup,
    MemberIdentity,
    Protocol,
    SyncAnswer,
    SyncRequest,
)
from barbicel.gateway.broker.membership.replies import PendingReply
from barbicel.gateway.broker.membership.settings import GroupSettings
from barbicel.gateway.broker.membership.states import GroupState

__all__ = [
    "Commit",
    "Coordinator",
    "DescribedGroup",
    "DescribedMember",
    "GroupSettings",
    "GroupState",
    "Heartbeat",
    "JoinAnswer",
    "JoinRequest",
    "JoinedMember",
    "LeaveAnswer",
    "LeaverAnswer",
    "ListedGroup",
    "MemberIdentity",
    "PendingReply",
    "Protocol",
    "SyncAnswer",
    "SyncRequest",
]
