"""What members of a group ask between two rebalances: sync, heartbeat, leave, and whether they may commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.gateway.broker.membership.group import Group
from barbicel.gateway.broker.membership.messages import (
    NO_MEMBER_ID,
    Commit,
    Heartbeat,
    LeaverAnswer,
    MemberIdentity,
    SyncAnswer,
    SyncRequest,
)
from barbicel.gateway.broker.membership.replies import PendingReply
from barbicel.gateway.broker.membership.states import GroupState

__all__ = ["check_commit", "heartbeat", "leave", "sync"]


# --- SyncGroup --------------------------------------------------------------------------------------


def sync(group: Group, request: SyncRequest, reply: PendingReply[SyncAnswer], now_ms: int) -> None:
    error = _check_sync(group, request)
    if error is not ErrorCode.NONE:
        group.answer_sync(reply, SyncAnswer(error))
        return
    member = group.roster.members[request.member_id]
    group.note_synced(member.member_id)
    if group.state is GroupState.STABLE:
        group.answer_sync(reply, group.assignment_for(member))
        group.keep_alive(member.member_id, now_ms)
        return
    group.await_assignment(member, reply)
    if member.member_id == group.roster.leader_id:
        group.stabilise(dict(request.assignments), now_ms)


def _check_sync(group: Group, request: SyncRequest) -> ErrorCode:
    error = group.roster.check(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if _differ(request.protocol_type, group.roster.protocol_type) or _differ(
        request.protocol_name, group.protocol_name
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return _SYNC_ERRORS[group.state]


def _differ(said: str | None, known: str | None) -> bool:
    """What one side does not say cannot differ."""
    return said is not None and known is not None and said != known


_SYNC_ERRORS: Mapping[GroupState, ErrorCode] = {
    GroupState.PREPARING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    GroupState.COMPLETING_REBALANCE: ErrorCode.NONE,
    GroupState.STABLE: ErrorCode.NONE,
}


# --- Heartbeat --------------------------------------------------------------------------------------

# A member may send heartbeats while others have not got their assignment yet.
_HEARTBEAT_ANSWERS: Mapping[GroupState, ErrorCode] = {
    GroupState.PREPARING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    GroupState.COMPLETING_REBALANCE: ErrorCode.NONE,
    GroupState.STABLE: ErrorCode.NONE,
}


def heartbeat(group: Group, request: Heartbeat, now_ms: int) -> ErrorCode:
    error = group.roster.check(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    group.keep_alive(request.member_id, now_ms)
    return _HEARTBEAT_ANSWERS[group.state]


# --- LeaveGroup -------------------------------------------------------------------------------------


def leave(group: Group, leavers: Sequence[MemberIdentity], now_ms: int) -> tuple[LeaverAnswer, ...]:
    """One rebalance for all that leave together; none for an id that never became a member."""
    member_count = len(group.roster.members)
    answers = tuple(LeaverAnswer(identity, _leave_one(group, identity)) for identity in leavers)
    if len(group.roster.members) < member_count:
        group.rebalance(now_ms)
    else:
        group.try_complete_join(now_ms)
    return answers


def _leave_one(group: Group, identity: MemberIdentity) -> ErrorCode:
    member_id, group_instance_id = identity
    if member_id == NO_MEMBER_ID and group_instance_id is not None:
        member_id = group.roster.static_member_id(group_instance_id) or NO_MEMBER_ID
    if member_id in group.roster.pending:
        group.drop(member_id)
        return ErrorCode.NONE
    error = group.roster.check(member_id, group_instance_id)
    if error is ErrorCode.NONE:
        group.drop(member_id)
    return error


# --- OffsetCommit -----------------------------------------------------------------------------------


def check_commit(group: Group, commit: Commit, now_ms: int) -> ErrorCode:
    error = _check_committer(group, commit)
    # A consumer's commit is a sign of life. Of a transaction's it is the producer that speaks.
    if error is ErrorCode.NONE and not commit.is_transactional and commit.member_id in group.roster.members:
        group.keep_alive(commit.member_id, now_ms)
    return error


def _check_committer(group: Group, commit: Commit) -> ErrorCode:
    if commit.generation_id < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if not commit.names_a_member:
        # Old transactional producers do not say for whom they commit.
        return ErrorCode.NONE if commit.is_transactional else ErrorCode.UNKNOWN_MEMBER_ID
    error = group.roster.check(commit.member_id, commit.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if commit.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.COMPLETING_REBALANCE and not commit.is_transactional:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE
