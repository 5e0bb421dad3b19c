"""AlterClientQuotas (key 49), versions 0 to 1: sets and takes away quotas (KIP-546).

- For users, client ids and both, and for their defaults: producer_byte_rate, consumer_byte_rate and
  request_percentage. Others are INVALID_REQUEST, for their entry alone.
- Needs ALTER_CONFIGS on the cluster. Quotas are durable, and hold, before the answer.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred

from barbicel.codecs.access_file import Entity
from barbicel.codecs.kafka.acls import Operation
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import AlterClientQuotasResponse, Message
from barbicel.errors import BarbicelError
from barbicel.gateway.access.opening import opened_access
from barbicel.gateway.broker.topic_errors import InvalidRequest
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.permission import cluster_refusal
from barbicel.gateway.kafka.quota_rows import entity_from
from barbicel.gateway.kafka.refusals import error_code_of, message_of, note_refusals
from barbicel.gateway.kafka.rows import gather

__all__ = ["API"]

_log = logging.getLogger(__name__)

EntryRow = AlterClientQuotasResponse.EntryData
EntityRow = EntryRow.EntityData


class Wanted(NamedTuple):
    """One entry of the request; without an entity it is refused."""

    row: Any
    entity: Entity | None = None
    values: dict[str, float | None] | None = None
    error_code: ErrorCode = ErrorCode.NONE
    message: str | None = None


def respond(call: Call, request: Message) -> Reply:
    if refusal := cluster_refusal(call, Operation.ALTER_CONFIGS):
        denied = (
            Wanted(row, None, None, refusal, "Cluster authorization failed.") for row in request.entries
        )
        return _answer(call, denied)
    return gather(call, map(_wanted, request.entries), partial(_change, call, request.validate_only))


def _change(call: Call, validate_only: bool, wanted: list[Wanted]) -> Reply:
    access = opened_access(call.broker)
    changes = {one.entity: one.values for one in wanted if one.entity is not None and one.values is not None}
    if validate_only:
        changing: Deferred[Any] = call.broker.work_long(partial(access.quotas.changed, changes))
    elif changes:
        changing = access.change_quotas(call.broker.change, changes)
    else:
        return _answer(call, wanted)
    return changing.addCallbacks(
        lambda _: _changed(call, wanted, 0 if validate_only else len(changes)),
        lambda failure: _answer(call, (_failed(failure.value, one) for one in wanted)),
    )


def _wanted(row: Any) -> Wanted:
    try:
        return Wanted(row, entity_from(row.entity), {op.key: _value(op) for op in row.ops})
    except BarbicelError as error:
        return Wanted(row, error_code=error_code_of(error), message=message_of(error))


def _value(op: Any) -> float | None:
    """None takes it away. Raises InvalidRequest."""
    from barbicel.gateway.access.quotas import KEYS, REQUESTS

    if op.key not in KEYS:
        raise InvalidRequest(f"Invalid configuration key {op.key[:100]}")
    if op.remove:
        return None
    value = float(op.value)
    if not math.isfinite(value) or value <= 0 or (op.key != REQUESTS and not value.is_integer()):
        raise InvalidRequest(
            f"{op.key} is {value}, it must be more than 0, and whole unless it is a percentage"
        )
    return value


def _failed(error: BaseException | None, one: Wanted) -> Wanted:
    if one.error_code:
        return one
    return one._replace(error_code=error_code_of(error), message=message_of(error))


def _changed(call: Call, wanted: list[Wanted], count: int) -> Reply:
    if count:
        _log.info("%d quotas changed by %s", count, call.who)
    return _answer(call, wanted)


def _answer(call: Call, wanted: Iterable[Wanted]) -> Reply:
    return gather(call, map(_row, wanted), partial(_response, call))


def _row(one: Wanted) -> Any:
    return EntryRow(error_code=one.error_code, error_message=one.message, entity=_entity_rows(one.row))


def _response(call: Call, rows: list[Any]) -> Message:
    note_refusals(call, "AlterClientQuotas", rows)
    return AlterClientQuotasResponse(throttle_time_ms=0, entries=rows)


def _entity_rows(row: Any) -> list[Any]:
    return [EntityRow(entity_type=part.entity_type, entity_name=part.entity_name) for part in row.entity]


API = Api(49, "AlterClientQuotas", 0, 1, respond, is_alone=True)
