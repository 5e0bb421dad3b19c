"""JoinGroup: who may become a member, under which id, and whether the group has to rebalance for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.gateway.broker.membership.group import Group
from barbicel.gateway.broker.membership.member import Member
from barbicel.gateway.broker.membership.messages import NO_MEMBER_ID, JoinAnswer, JoinRequest
from barbicel.gateway.broker.membership.replies import PendingReply
from barbicel.gateway.broker.membership.states import GroupState
from barbicel.gateway.broker.membership.subscription import read_topics

__all__ = ["join"]

JoinReply = PendingReply[JoinAnswer]


def join(group: Group, request: JoinRequest, reply: JoinReply, suffix: str, now_ms: int) -> None:
    """`suffix` makes an id unique, should a new one be needed."""
    if not _has_room(group, request):
        group.answer(reply, JoinAnswer(ErrorCode.GROUP_MAX_SIZE_REACHED))
        group.drop(request.member_id)
        group.try_complete_join(now_ms)
    elif not _supports(group, request):
        group.answer(reply, JoinAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id=request.member_id))
    elif request.member_id != NO_MEMBER_ID:
        _join_by_id(group, request, reply, now_ms)
    elif request.group_instance_id is not None:
        _join_by_instance(group, request, reply, f"{request.group_instance_id}-{suffix}", now_ms)
    else:
        _join_anew(group, request, reply, f"{request.client_id}-{suffix}", now_ms)


def _has_room(group: Group, request: JoinRequest) -> bool:
    """Ids that were given out take no room: there would soon be none for those who come back with one.

    A static member that restarts takes its own place. Kafka refuses it in a full group until its old
    session ends.
    """
    roster = group.roster
    member_id = request.member_id
    if member_id == NO_MEMBER_ID and request.group_instance_id is not None:
        member_id = roster.static_member_id(request.group_instance_id) or NO_MEMBER_ID
    if group.state is GroupState.EMPTY:
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        # Who is first, is in: the places of members that have not come back yet are free.
        return member_id in roster.joining or len(roster.joining) < group.settings.max_size
    return member_id in roster.members or len(roster.members) < group.settings.max_size


def _supports(group: Group, request: JoinRequest) -> bool:
    names = [protocol.name for protocol in request.protocols]
    if group.state is GroupState.EMPTY:
        return bool(request.protocol_type and names)
    return group.roster.supports(request.protocol_type, names)


# --- without a member id ----------------------------------------------------------------------------


def _join_anew(group: Group, request: JoinRequest, reply: JoinReply, member_id: str, now_ms: int) -> None:
    if request.requires_member_id:
        group.promise_id(member_id, request.session_timeout_ms, now_ms)
        group.answer(reply, JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))
    else:
        group.add(member_id, request, reply, now_ms)


def _join_by_instance(
    group: Group, request: JoinRequest, reply: JoinReply, member_id: str, now_ms: int
) -> None:
    assert request.group_instance_id is not None
    old_id = group.roster.static_member_id(request.group_instance_id)
    if old_id is None:
        group.add(member_id, request, reply, now_ms)
    else:
        _take_over(group, request, reply, old_id, member_id, now_ms)


def _take_over(
    group: Group, request: JoinRequest, reply: JoinReply, old_id: str, member_id: str, now_ms: int
) -> None:
    """A static member restarted: if nothing changes for the others, they do not notice. KIP-345."""
    old_leader_id = group.roster.leader_id
    member = group.rename(old_id, member_id)
    wants_the_same = _wants_the_same(group, member, request)
    group.update(member, request, reply)
    if (
        group.state is GroupState.STABLE
        and wants_the_same
        and group.roster.select_protocol() == group.protocol_name
    ):
        del group.roster.joining[member_id]
        group.answer(reply, _unchanged_generation(group, request, member_id, old_leader_id))
        group.keep_alive(member_id, now_ms)
    else:
        group.rebalance(now_ms)


def _wants_the_same(group: Group, member: Member, request: JoinRequest) -> bool:
    """Whether the subscription is the old one.

    The bytes do not tell: they also hold what the member owned before its restart. Kafka does not look, and
    leaves a member that restarts with other topics without them.
    """
    if not group.uses_consumer_protocol:
        return True
    old = {protocol.name: read_topics(protocol.metadata) for protocol in member.protocols}
    return all(
        old.get(protocol.name) == read_topics(protocol.metadata)
        for protocol in request.protocols
        if protocol.name == group.protocol_name
    )


def _unchanged_generation(
    group: Group, request: JoinRequest, member_id: str, old_leader_id: str | None
) -> JoinAnswer:
    answer = group.generation_for(member_id)
    if request.supports_skip_assignment:
        return answer._replace(skip_assignment=member_id == group.roster.leader_id)
    # KIP-814: an older client that finds its own id here would assign anew, though nobody rejoins. It is
    # told the id that it had before.
    return answer._replace(leader=old_leader_id or NO_MEMBER_ID, members=())


# --- with a member id -------------------------------------------------------------------------------


def _join_by_id(group: Group, request: JoinRequest, reply: JoinReply, now_ms: int) -> None:
    if request.member_id in group.roster.pending and request.group_instance_id is None:
        group.add(request.member_id, request, reply, now_ms)
        return
    error = group.roster.check(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        group.answer(reply, JoinAnswer(error, member_id=request.member_id))
    elif _IS_SERVED_AS_IT_IS[group.state](group, request):
        group.answer(reply, group.generation_for(request.member_id))
    else:
        group.update(group.roster.members[request.member_id], request, reply)
        group.rebalance(now_ms)


def _never(group: Group, request: JoinRequest) -> bool:
    return False


def _is_repeated(group: Group, request: JoinRequest) -> bool:
    """Its answer may have got lost; nothing has changed."""
    return group.roster.members[request.member_id].protocols == request.protocols


def _is_repeated_by_follower(group: Group, request: JoinRequest) -> bool:
    """A leader that joins again wants a rebalance: it watches the topics, and they have changed."""
    return request.member_id != group.roster.leader_id and _is_repeated(group, request)


# Whether a member that joins again gets the generation that there is.
_IS_SERVED_AS_IT_IS: Mapping[GroupState, Callable[[Group, JoinRequest], bool]] = {
    GroupState.PREPARING_REBALANCE: _never,
    GroupState.COMPLETING_REBALANCE: _is_repeated,
    GroupState.STABLE: _is_repeated_by_follower,
}
