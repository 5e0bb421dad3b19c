"""DescribeGroups (key 15), versions 0 to 6.

- A group that has positions and no members is Empty. One that has neither is Dead, from version 6 on with the
  error GROUP_ID_NOT_FOUND (KIP-1043).
- A group is described once however often it is named: that is long, and a name is short.
- Authorized operations, from version 3 on if asked for, are what ACLs allow. Needs DESCRIBE on the group.
"""

from __future__ import annotations

from typing import Any

from barbicel.codecs.kafka.acls import Operation, Resource
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import DescribeGroupsResponse, Message
from barbicel.gateway.broker.membership import DescribedGroup, GroupState
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.permission import group_access_refusal, operations
from barbicel.gateway.kafka.rows import gather

__all__ = ["API"]

GroupRow = DescribeGroupsResponse.DescribedGroup
MemberRow = GroupRow.DescribedGroupMember
NOT_FOUND_SINCE = 6


def respond(call: Call, request: Message) -> Reply:
    return gather(
        call,
        (_row(call, request, _describe(call, group_id)) for group_id in dict.fromkeys(request.groups)),
        lambda rows: DescribeGroupsResponse(throttle_time_ms=0, groups=rows),
        lambda row: 1 + len(row.members),
    )


def _describe(call: Call, group_id: str) -> DescribedGroup:
    known = call.broker.coordinator.describe(group_id)
    if known is not None:
        return known
    state = GroupState.EMPTY if call.broker.offsets.places(group_id) else GroupState.DEAD
    return DescribedGroup(group_id, state, protocol_type="", protocol_name="", members=())


def _row(call: Call, request: Message, group: DescribedGroup) -> Any:
    if refusal := group_access_refusal(call, Operation.DESCRIBE, group.group_id):
        return _refused(group.group_id, refusal)
    is_missing = group.state is GroupState.DEAD and call.version >= NOT_FOUND_SINCE
    is_told = request.include_authorized_operations and not is_missing
    return GroupRow(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND if is_missing else ErrorCode.NONE,
        error_message=f"Group {group.group_id} not found." if is_missing else None,
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=[
            MemberRow(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
        authorized_operations=operations(call, Resource.GROUP, group.group_id) if is_told else None,
    )


def _refused(group_id: str, error_code: ErrorCode) -> Any:
    return GroupRow(
        error_code=error_code,
        error_message=None,
        group_id=group_id,
        group_state="",
        protocol_type="",
        protocol_data="",
        members=[],
        authorized_operations=None,
    )


API = Api(15, "DescribeGroups", 0, 6, respond, is_alone=True)
