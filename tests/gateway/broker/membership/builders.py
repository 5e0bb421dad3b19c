"""A coordinator with a clock that stands still until a test moves it, and clients that say what they must."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from struct import pack
from typing import Generic, TypeVar

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.gateway.broker.membership import (
    Commit,
    Coordinator,
    GroupSettings,
    GroupState,
    Heartbeat,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    MemberIdentity,
    PendingReply,
    Protocol,
    SyncAnswer,
    SyncRequest,
)

__all__ = [
    "DELAY_MS",
    "GROUP",
    "REBALANCE_MS",
    "SESSION_MS",
    "Inbox",
    "Scene",
    "protocols",
    "subscription",
]

GROUP = "group"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_MS = 3_000

Answer = TypeVar("Answer")


def subscription(topics: Sequence[str], version: int = 1, rest: bytes = b"\xff\xff\xff\xff") -> bytes:
    """As a consumer writes it; `rest` is the user data and what newer versions add."""
    names = b"".join(pack(">h", len(topic.encode())) + topic.encode() for topic in topics)
    return pack(">hi", version, len(topics)) + names + rest


def protocols(*names: str, metadata: bytes = subscription(["topic"])) -> tuple[Protocol, ...]:
    return tuple(Protocol(name, metadata) for name in names)


class Inbox(Generic[Answer]):
    """What one question was answered."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.pending: PendingReply[Answer] | None = None

    @property
    def waits(self) -> bool:
        return not self.answers

    @property
    def answer(self) -> Answer:
        (answer,) = self.answers
        return answer


class Scene:
    def __init__(self, settings: GroupSettings | None = None) -> None:
        numbers = count(1)
        self.coordinator = Coordinator(settings, lambda: f"u{next(numbers)}")
        self.now_ms = 1_000_000

    def advance(self, elapsed_ms: int) -> None:
        """Let time pass; every timer is served when it is due."""
        end_ms = self.now_ms + elapsed_ms
        while (due_ms := self.coordinator.next_deadline_ms()) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.coordinator.expire(self.now_ms)
        self.now_ms = end_ms

    def join(
        self,
        member_id: str = "",
        *,
        group_id: str = GROUP,
        version: int = 9,
        client_id: str = "client",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        instance: str | None = None,
        protocol_type: str = "consumer",
        offers: tuple[Protocol, ...] = protocols("range"),
    ) -> Inbox[JoinAnswer]:
        inbox: Inbox[JoinAnswer] = Inbox()
        request = JoinRequest(
            group_id=group_id,
            api_version=version,
            client_id=client_id,
            client_host="/127.0.0.1",
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=offers,
        )
        inbox.pending = self.coordinator.join(request, self.now_ms, inbox.answers.append)
        return inbox

    def sync(
        self,
        member_id: str,
        assignments: Iterable[tuple[str, bytes]] = (),
        *,
        group_id: str = GROUP,
        generation: int = 1,
        version: int = 5,
        instance: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
    ) -> Inbox[SyncAnswer]:
        inbox: Inbox[SyncAnswer] = Inbox()
        request = SyncRequest(
            group_id=group_id,
            api_version=version,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=tuple(assignments),
        )
        inbox.pending = self.coordinator.sync(request, self.now_ms, inbox.answers.append)
        return inbox

    def heartbeat(
        self, member_id: str, generation: int = 1, instance: str | None = None, group_id: str = GROUP
    ) -> ErrorCode:
        return self.coordinator.heartbeat(Heartbeat(group_id, generation, member_id, instance), self.now_ms)

    def leave(self, *identities: MemberIdentity, group_id: str = GROUP) -> LeaveAnswer:
        return self.coordinator.leave(group_id, identities, self.now_ms)

    def commit_error(
        self,
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        *,
        transactional: bool = False,
        group_id: str = GROUP,
    ) -> ErrorCode:
        commit = Commit(group_id, generation, member_id, instance, transactional)
        return self.coordinator.check_commit(commit, self.now_ms)

    # --- several steps at once ----------------------------------------------------------------------

    def state(self, group_id: str = GROUP) -> GroupState | None:
        described = self.coordinator.describe(group_id)
        return None if described is None else described.state

    def obtain_id(self, *, group_id: str = GROUP, session_ms: int = SESSION_MS) -> str:
        answer = self.join(group_id=group_id, session_ms=session_ms).answer
        assert answer.error is ErrorCode.MEMBER_ID_REQUIRED
        return answer.member_id

    def generation_of(
        self, *instances: str | None, offers: tuple[Protocol, ...] = protocols("range")
    ) -> list[str]:
        """A group whose members all know the generation 1; the first one leads. Nobody has synced."""
        inboxes = []
        for instance in instances:
            member_id = "" if instance is not None else self.obtain_id()
            inboxes.append(self.join(member_id, instance=instance, offers=offers))
        self.advance(2 * DELAY_MS)
        assert {inbox.answer.error for inbox in inboxes} == {ErrorCode.NONE}
        return [inbox.answer.member_id for inbox in inboxes]

    def stable_group(
        self, *instances: str | None, offers: tuple[Protocol, ...] = protocols("range")
    ) -> list[str]:
        """As above, and each got its own id in capitals as its assignment."""
        member_ids = self.generation_of(*instances, offers=offers)
        name = offers[0].name
        assigned = [(member_id, member_id.upper().encode()) for member_id in member_ids]
        for member_id in member_ids:
            self.sync(member_id, assigned if member_id == member_ids[0] else (), protocol_name=name)
        assert self.state() is GroupState.STABLE
        return member_ids
