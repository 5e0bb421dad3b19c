"""DescribeClientQuotas (key 48), versions 0 to 1: which quotas there are (KIP-546).

- Each component of the filter names a kind of entity, and that it has this name (0), is the default (1) or
  anything (2). `strict` leaves out entities that have other kinds beside.
- Needs DESCRIBE_CONFIGS on the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from barbicel.codecs.access_file import Entity
from barbicel.codecs.kafka.acls import Operation
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import DescribeClientQuotasResponse, Message
from barbicel.gateway.access.opening import opened_access
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.permission import cluster_refusal
from barbicel.gateway.kafka.quota_rows import KINDS
from barbicel.gateway.kafka.rows import gather

__all__ = ["API"]

EntryRow = DescribeClientQuotasResponse.EntryData
EntityRow = EntryRow.EntityData
ValueRow = EntryRow.ValueData


class Match(IntEnum):
    EXACT = 0
    DEFAULT = 1
    ANY = 2


def respond(call: Call, request: Message) -> Reply:
    if refusal := cluster_refusal(call, Operation.DESCRIBE_CONFIGS):
        return _problem(refusal, "Cluster authorization failed.")
    if problem := _problem_of(request):
        return _problem(ErrorCode.INVALID_REQUEST, problem)
    quotas = opened_access(call.broker).quotas.quotas
    rows = (_row(entity, values) for entity, values in quotas.items() if _is_wanted(request, dict(entity)))
    return gather(call, rows, _answer)


def _problem_of(request: Message) -> str | None:
    kinds = [component.entity_type for component in request.components]
    if len(set(kinds)) < len(kinds) or not set(kinds) <= set(KINDS):
        return f"quotas are for users and client-ids, each asked for once, not for {kinds!r:.100}"
    for component in request.components:
        if component.match_type not in list(Match):
            return f"there is no match type {component.match_type}"
        if (component.match_type == Match.EXACT) != (component.match is not None):
            return "a name is given to be matched exactly, and only then"
    return None


def _is_wanted(request: Message, entity: dict[str, str | None]) -> bool:
    for component in request.components:
        if component.entity_type not in entity:
            return False
        name = entity[component.entity_type]
        if component.match_type == Match.EXACT and name != component.match:
            return False
        if component.match_type == Match.DEFAULT and name is not None:
            return False
    return not request.strict or len(entity) == len(request.components)


def _row(entity: Entity, values: Mapping[str, float]) -> Any:
    return EntryRow(
        entity=[EntityRow(entity_type=kind, entity_name=name) for kind, name in entity],
        values=[ValueRow(key=key, value=value) for key, value in sorted(values.items())],
    )


def _answer(rows: list[Any]) -> Message:
    return DescribeClientQuotasResponse(
        throttle_time_ms=0, error_code=ErrorCode.NONE, error_message=None, entries=rows
    )


def _problem(error_code: ErrorCode, message: str) -> Message:
    return DescribeClientQuotasResponse(
        throttle_time_ms=0, error_code=error_code, error_message=message, entries=None
    )


API = Api(48, "DescribeClientQuotas", 0, 1, respond, is_alone=True)
