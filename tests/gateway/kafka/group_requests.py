"""The requests of group APIs, short to write. `at` brings a version into the range of an API."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

from barbicel.codecs.kafka.messages import (
    VERSIONS,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    Message,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from tests.gateway.kafka.raw_client import RawClient

__all__ = [
    "SESSION_MS",
    "ask_at",
    "at",
    "commit",
    "create_topic",
    "fetch",
    "heartbeat",
    "join",
    "joined",
    "leave",
    "subscription",
    "sync",
]

SESSION_MS = 10_000


def at(api_key: int, version: int) -> int:
    versions = VERSIONS[api_key]
    return min(max(version, versions[0]), versions[-1])


def ask_at(client: RawClient, version: int, request: Message) -> Any:
    return client.ask(request, at(request.API_KEY, version))


def subscription(*topics: str) -> bytes:
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


def create_topic(client: RawClient, name: str) -> UUID:
    """As asking for it does."""
    asked = MetadataRequest.MetadataRequestTopic(name=name)
    answer = client.ask(MetadataRequest(topics=[asked], allow_auto_topic_creation=True), 12)
    assert answer.topics[0].error_code == 0
    identity = answer.topics[0].topic_id
    assert isinstance(identity, UUID)
    return identity


def join(
    group: str,
    member_id: str = "",
    *,
    instance_id: str | None = None,
    topics: tuple[str, ...] = ("t",),
    session_ms: int = SESSION_MS,
    protocol: str = "range",
) -> Message:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=session_ms,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name=protocol, metadata=subscription(*topics))],
        reason="testing",
    )


def joined(client: RawClient, group: str, version: int, **options: Any) -> Any:
    """The answer that makes it a member, also where an id is given out first."""
    answer = ask_at(client, version, join(group, **options))
    if answer.error_code == 79:
        answer = ask_at(client, version, join(group, answer.member_id, **options))
    return answer


def sync(
    group: str, member: Any, assignments: dict[str, bytes], *, instance_id: str | None = None
) -> Message:
    return SyncGroupRequest(
        group_id=group,
        generation_id=member.generation_id,
        member_id=member.member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[
            SyncGroupRequest.SyncGroupRequestAssignment(member_id=name, assignment=assignment)
            for name, assignment in assignments.items()
        ],
    )


def heartbeat(group: str, member: Any, generation_id: int | None = None) -> Message:
    return HeartbeatRequest(
        group_id=group,
        generation_id=member.generation_id if generation_id is None else generation_id,
        member_id=member.member_id,
        group_instance_id=None,
    )


def leave(group: str, member_id: str, instance_id: str | None = None) -> Message:
    identity = LeaveGroupRequest.MemberIdentity(
        member_id=member_id, group_instance_id=instance_id, reason="testing"
    )
    return LeaveGroupRequest(group_id=group, member_id=member_id, members=[identity])


def commit(
    group: str,
    topic: str,
    offsets: dict[int, int],
    *,
    topic_id: UUID | None = None,
    generation_id: int = -1,
    member_id: str = "",
    metadata: str | None = "",
    epoch: int = -1,
) -> Message:
    row = OffsetCommitRequest.OffsetCommitRequestTopic
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        group_instance_id=None,
        retention_time_ms=-1,
        topics=[
            row(
                name=topic,
                topic_id=topic_id,
                partitions=[
                    row.OffsetCommitRequestPartition(
                        partition_index=number,
                        committed_offset=offset,
                        committed_leader_epoch=epoch,
                        committed_metadata=metadata,
                    )
                    for number, offset in offsets.items()
                ],
            )
        ],
    )


def fetch(
    client: RawClient, version: int, group: str, topics: dict[str, list[int]] | None, ids: dict[str, UUID]
) -> dict[tuple[str, int], tuple[int, int, str, int]]:
    """(topic, partition) → (offset, leader epoch, metadata, error), in any version."""
    old, new = OffsetFetchRequest.OffsetFetchRequestTopic, OffsetFetchRequest.OffsetFetchRequestGroup
    request = OffsetFetchRequest(
        group_id=group,
        topics=None if topics is None else [old(name=n, partition_indexes=p) for n, p in topics.items()],
        groups=[
            new(
                group_id=group,
                member_id=None,
                member_epoch=-1,
                topics=None
                if topics is None
                else [
                    new.OffsetFetchRequestTopics(name=n, topic_id=ids.get(n), partition_indexes=p)
                    for n, p in topics.items()
                ],
            )
        ],
        require_stable=True,
    )
    answer = ask_at(client, version, request)
    found = answer.topics if version < 8 else answer.groups[0].topics
    names = {identity: name for name, identity in ids.items()}
    return {
        (names[topic.topic_id] if version >= 10 else topic.name, row.partition_index): (
            row.committed_offset,
            row.committed_leader_epoch,
            row.metadata,
            row.error_code,
        )
        for topic in found
        for row in topic.partitions
    }
