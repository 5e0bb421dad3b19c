"""How DescribeGroups and ListGroups show a group."""

from __future__ import annotations

from barbicel.gateway.broker.membership.group import Group
from barbicel.gateway.broker.membership.member import Member
from barbicel.gateway.broker.membership.messages import DescribedGroup, DescribedMember, ListedGroup
from barbicel.gateway.broker.membership.states import GroupState

__all__ = ["describe_group", "list_group"]


def describe_group(group: Group) -> DescribedGroup:
    # In any other state the members are between two protocols.
    protocol_name = group.protocol_name if group.state is GroupState.STABLE else None
    return DescribedGroup(
        group_id=group.group_id,
        state=group.state,
        protocol_type=group.roster.protocol_type or "",
        protocol_name=protocol_name or "",
        members=tuple(_describe_member(member, protocol_name) for member in group.roster.members.values()),
    )


def _describe_member(member: Member, protocol_name: str | None) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        metadata=b"" if protocol_name is None else member.metadata(protocol_name),
        assignment=member.assignment,
    )


def list_group(group: Group) -> ListedGroup:
    return ListedGroup(group.group_id, group.roster.protocol_type or "", group.state)
