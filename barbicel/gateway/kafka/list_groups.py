"""ListGroups (key 16), versions 0 to 5.

- The coordinator forgets a group without members; its positions are what is left of it. Such a group is Empty
  and has no protocol type, like Kafka's groups that never had members; Java, librdkafka and kafka-python
  count it among the consumer groups. The groups of Kestrel's queues are such ones.
- Whoever may describe the cluster sees all groups, others those that they may describe.
- Version 4 brought a filter by state, 5 one by type; both ignore case, and an empty one lets all pass.
"""

from __future__ import annotations

from collections.abc import Iterator

from barbicel.codecs.kafka.acls import Operation, Resource
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import ListGroupsResponse, Message
from barbicel.gateway.broker.membership import GroupState, ListedGroup
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.permission import may
from barbicel.gateway.kafka.rows import gather

__all__ = ["API"]

GroupRow = ListGroupsResponse.ListedGroup
CLASSIC = "classic"
NO_PROTOCOL = ""


def respond(call: Call, request: Message) -> Reply:
    states, types = _lower(request.states_filter), _lower(request.types_filter)
    sees_all = may(call, Operation.DESCRIBE, Resource.CLUSTER, is_quiet=True)
    rows = (
        GroupRow(
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            group_state=group.state.value,
            group_type=CLASSIC,
        )
        for group in _groups(call)
        if _passes(group.state.value, states)
        and _passes(CLASSIC, types)
        and (sees_all or may(call, Operation.DESCRIBE, Resource.GROUP, group.group_id, is_quiet=True))
    )
    return gather(
        call,
        rows,
        lambda groups: ListGroupsResponse(throttle_time_ms=0, error_code=ErrorCode.NONE, groups=groups),
    )


def _groups(call: Call) -> Iterator[ListedGroup]:
    with_members = call.broker.coordinator.list_groups()
    yield from with_members
    listed = {group.group_id for group in with_members}
    for group_id in call.broker.offsets.groups():
        if group_id not in listed:
            yield ListedGroup(group_id, NO_PROTOCOL, GroupState.EMPTY)


def _lower(names: list[str] | None) -> set[str]:
    return {name.lower() for name in names or ()}


def _passes(name: str, wanted: set[str]) -> bool:
    return not wanted or name.lower() in wanted


API = Api(16, "ListGroups", 0, 5, respond, is_alone=True)
