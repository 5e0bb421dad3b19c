"""The requests of group members, short to write. Pure."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from barbicel.codecs.kafka.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    Message,
    MessageClass,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from tests.differential.asking import versions

__all__ = ["at", "commit", "heartbeat", "join", "leave", "sync"]

SESSION_MS = 10_000
# A consumer's subscription to the topic "t", in version 0.
SUBSCRIPTION = bytes.fromhex("0000 00000001 0001 74 ffffffff")


def at(request: MessageClass, version: int) -> int:
    """The version of this API that goes with a version of JoinGroup."""
    known = versions(request)
    return min(max(version, known[0]), known[-1])


def join(
    group: str,
    member_id: str = "",
    *,
    instance_id: str | None = None,
    session_ms: int = SESSION_MS,
    protocol: str = "range",
) -> Message:
    row = JoinGroupRequest.JoinGroupRequestProtocol
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=SESSION_MS,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[row(name=protocol, metadata=SUBSCRIPTION)],
        reason="differential",
    )


def sync(group: str, member: Any, plan: dict[str, bytes], *, instance_id: str | None = None) -> Message:
    row = SyncGroupRequest.SyncGroupRequestAssignment
    return SyncGroupRequest(
        group_id=group,
        generation_id=member.generation_id,
        member_id=member.member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[row(member_id=name, assignment=assigned) for name, assigned in plan.items()],
    )


def heartbeat(group: str, member: Any) -> Message:
    return HeartbeatRequest(
        group_id=group,
        generation_id=member.generation_id,
        member_id=member.member_id,
        group_instance_id=None,
    )


def leave(group: str, member_id: str, instance_id: str | None = None) -> Message:
    who = LeaveGroupRequest.MemberIdentity(
        member_id=member_id, group_instance_id=instance_id, reason="differential"
    )
    return LeaveGroupRequest(group_id=group, member_id=member_id, members=[who])


def commit(
    group: str,
    topic: str,
    offsets: dict[int, int],
    *,
    topic_id: UUID | None = None,
    member: tuple[int, str] = (-1, ""),
    metadata: str | None = "",
    epoch: int = -1,
) -> Message:
    row = OffsetCommitRequest.OffsetCommitRequestTopic
    one = row.OffsetCommitRequestPartition
    partitions = [
        one(
            partition_index=number,
            committed_offset=offset,
            committed_leader_epoch=epoch,
            committed_metadata=metadata,
        )
        for number, offset in offsets.items()
    ]
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=member[0],
        member_id=member[1],
        group_instance_id=None,
        retention_time_ms=-1,
        topics=[row(name=topic, topic_id=topic_id, partitions=partitions)],
    )
