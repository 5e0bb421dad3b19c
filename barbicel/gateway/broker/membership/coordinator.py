"""All classic groups: finds the one that is meant, lets it decide, hands out the answers, keeps the time.

Membership is in memory. A group without members is forgotten at once; its offsets live elsewhere and do not
depend on it. So an unknown group here may well be one that has offsets: where Kafka would look at them, the
caller has to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import uuid4

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.gateway.broker.membership import joining, serving
from barbicel.gateway.broker.membership.description import describe_group, list_group
from barbicel.gateway.broker.membership.group import Group
from barbicel.gateway.broker.membership.member import bytes_of
from barbicel.gateway.broker.membership.messages import (
    NO_MEMBER_ID,
    Commit,
    DescribedGroup,
    Heartbeat,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    LeaverAnswer,
    ListedGroup,
    MemberIdentity,
    SyncAnswer,
    SyncRequest,
)
from barbicel.gateway.broker.membership.replies import Outbox, PendingReply
from barbicel.gateway.broker.membership.settings import GroupSettings
from barbicel.gateway.broker.membership.states import GroupState
from barbicel.gateway.broker.membership.timers import TimerKey, TimerKind, Timers

__all__ = ["Coordinator"]

_log = logging.getLogger(__name__)


def _random_suffix() -> str:
    return str(uuid4())


class Coordinator:
    """Answers may be handed out by any method, after all changes; whoever gets one may call again.

    The clock only has to be the same for all calls; `expire` is due at `next_deadline_ms`, which any call
    may change.
    """

    def __init__(
        self, settings: GroupSettings | None = None, new_suffix: Callable[[], str] = _random_suffix
    ) -> None:
        self._settings = settings or GroupSettings()
        self._new_suffix = new_suffix
        self._groups: dict[str, Group] = {}
        # By all groups. Whether it was told that there is no room, since there was some.
        self._held_bytes = 0
        self._has_told = False
        self._timers = Timers()
        self._outbox = Outbox()

    # --- members ------------------------------------------------------------------------------------

    def join(
        self, request: JoinRequest, now_ms: int, receive: Callable[[JoinAnswer], None]
    ) -> PendingReply[JoinAnswer]:
        """`receive` is called once, now or when the generation begins, unless the reply is forgotten."""
        reply = PendingReply(receive)
        error = self._check_join(request)
        if error is not ErrorCode.NONE:
            self._outbox.put(reply, JoinAnswer(error, member_id=request.member_id))
            self._outbox.deliver()
            return reply
        if not self._has_room(request.group_id, self._grown_bytes(request)):
            answer = JoinAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id=request.member_id)
            self._outbox.put(reply, answer)
            self._outbox.deliver()
            return reply
        with self._changing(self._found_or_new(request.group_id)) as group:
            joining.join(group, request, reply, self._new_suffix(), now_ms)
        return reply

    def sync(
        self, request: SyncRequest, now_ms: int, receive: Callable[[SyncAnswer], None]
    ) -> PendingReply[SyncAnswer]:
        """`receive` is called once, now or when the leader's assignment is known, unless it is forgotten."""
        reply = PendingReply(receive)
        error = self._check_sync(request) or self._check_assignments(request)
        if error is not ErrorCode.NONE:
            self._outbox.put(reply, SyncAnswer(error))
            self._outbox.deliver()
            return reply
        with self._changing(self._groups[request.group_id]) as group:
            serving.sync(group, request, reply, now_ms)
        return reply

    def heartbeat(self, request: Heartbeat, now_ms: int) -> ErrorCode:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        group = self._groups.get(request.group_id)
        return ErrorCode.UNKNOWN_MEMBER_ID if group is None else serving.heartbeat(group, request, now_ms)

    def leave(self, group_id: str, leavers: tuple[MemberIdentity, ...], now_ms: int) -> LeaveAnswer:
        if not group_id:
            return LeaveAnswer(ErrorCode.INVALID_GROUP_ID)
        found = self._groups.get(group_id)
        if found is None:
            unknown = ErrorCode.UNKNOWN_MEMBER_ID
            return LeaveAnswer(ErrorCode.NONE, tuple(LeaverAnswer(leaver, unknown) for leaver in leavers))
        with self._changing(found) as group:
            return LeaveAnswer(ErrorCode.NONE, serving.leave(group, leavers, now_ms))

    def check_commit(self, commit: Commit, now_ms: int) -> ErrorCode:
        """What OffsetCommit has to answer, NONE if the offsets may be written.

        A generation of a group that is not here is always UNKNOWN_MEMBER_ID. Kafka knows the members after
        a restart and says GROUP_ID_NOT_FOUND only where there never was a group; Java's consumer takes
        that for fatal, while an unknown member simply joins again.
        """
        group = self._groups.get(commit.group_id)
        if group is not None:
            return serving.check_commit(group, commit, now_ms)
        return ErrorCode.NONE if commit.generation_id < 0 else ErrorCode.UNKNOWN_MEMBER_ID

    def _check_join(self, request: JoinRequest) -> ErrorCode:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        if not self._settings.allows_session_timeout(request.session_timeout_ms):
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if request.member_id != NO_MEMBER_ID and request.group_id not in self._groups:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE

    def _grown_bytes(self, request: JoinRequest) -> int:
        """How much more than now is to be held: who joins again takes the place of what it said before."""
        group = self._groups.get(request.group_id)
        member = None if group is None else group.roster.members.get(request.member_id)
        return bytes_of(request.protocols) - (0 if member is None else bytes_of(member.protocols))

    def _check_assignments(self, request: SyncRequest) -> ErrorCode:
        size = sum(len(assignment) for _, assignment in request.assignments)
        return (
            ErrorCode.NONE if self._has_room(request.group_id, size) else ErrorCode.COORDINATOR_NOT_AVAILABLE
        )

    def _has_room(self, group_id: str, size: int) -> bool:
        """Whether so many bytes more may be held.

        If not, whoever asks is to try again later, as clients do after COORDINATOR_NOT_AVAILABLE; any other
        error would end innocent consumers.
        """
        if size <= 0 or self._held_bytes + size <= self._settings.max_held_bytes:
            self._has_told = False
            return True
        if not self._has_told:
            self._has_told = True
            _log.warning(
                "group %.100r cannot have %d bytes for a member: all members hold %d, allowed are %d",
                group_id,
                size,
                self._held_bytes,
                self._settings.max_held_bytes,
            )
        return False

    def _check_sync(self, request: SyncRequest) -> ErrorCode:
        if request.lacks_protocol:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        return ErrorCode.NONE if request.group_id in self._groups else ErrorCode.UNKNOWN_MEMBER_ID

    # --- time ---------------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        return self._timers.next_ms()

    def expire(self, now_ms: int) -> None:
        """Do whatever time alone makes due."""
        while (key := self._timers.pop(now_ms)) is not None:
            with self._changing(self._groups[key.group_id]) as group:
                _expire_one(group, key, now_ms)

    # --- groups -------------------------------------------------------------------------------------

    def describe(self, group_id: str) -> DescribedGroup | None:
        group = self._groups.get(group_id)
        return None if group is None else describe_group(group)

    def list_groups(self) -> list[ListedGroup]:
        return [list_group(group) for group in self._groups.values()]

    def remove(self, group_id: str) -> ErrorCode:
        """GROUP_ID_NOT_FOUND means no more than that nothing is left to remove here."""
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not GroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        self._forget(group)
        return ErrorCode.NONE

    def check_offset_delete(self, group_id: str) -> ErrorCode:
        """Only of consumers is it known which topics they use. GROUP_ID_NOT_FOUND as in `remove`."""
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is GroupState.EMPTY or group.uses_consumer_protocol:
            return ErrorCode.NONE
        return ErrorCode.NON_EMPTY_GROUP

    def is_subscribed(self, group_id: str, topic: str) -> bool:
        """Whether OffsetDelete has to answer GROUP_SUBSCRIBED_TO_TOPIC."""
        group = self._groups.get(group_id)
        if group is None or not group.uses_consumer_protocol:
            return False
        return group.subscriptions is None or group.subscriptions.include(topic)

    def _found_or_new(self, group_id: str) -> Group:
        if group_id not in self._groups:
            self._groups[group_id] = Group(group_id, self._settings, self._timers, self._outbox)
        return self._groups[group_id]

    @contextmanager
    def _changing(self, group: Group) -> Iterator[Group]:
        """Afterwards an empty group is gone and every answer is handed out."""
        before_bytes = group.held_bytes
        yield group
        self._held_bytes += group.held_bytes - before_bytes
        if group.is_vacant:
            self._forget(group)
        self._outbox.deliver()

    def _forget(self, group: Group) -> None:
        del self._groups[group.group_id]
        self._held_bytes -= group.held_bytes
        group.die()


def _expire_one(group: Group, key: TimerKey, now_ms: int) -> None:
    match key.kind:
        case TimerKind.SESSION:
            group.expire_session(key.member_id, now_ms)
        case TimerKind.JOIN:
            group.expire_join(now_ms)
        case TimerKind.SYNC:
            group.expire_syncs(now_ms)
