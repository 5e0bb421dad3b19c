"""CreateAcls (key 30), versions 1 to 3. Needs ALTER on the cluster.

- ACLs are durable, and hold, before the answer. One that is there already is no error.
- Without ACLs each is SECURITY_DISABLED, as Kafka answers without an authorizer: taking a rule that nobody
  enforces would let its author believe in it.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from barbicel.codecs.kafka.acls import Acl, Operation
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import CreateAclsResponse, Message
from barbicel.errors import BarbicelError
from barbicel.gateway.kafka.acl_rows import NO_ACCESS_CONTROL, acl_of, with_authorizer
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.permission import cluster_refusal
from barbicel.gateway.kafka.refusals import error_code_of, message_of, note_refusals
from barbicel.gateway.kafka.rows import gather

if TYPE_CHECKING:
    from barbicel.gateway.access.access import Access

__all__ = ["API"]

_log = logging.getLogger(__name__)

ResultRow = CreateAclsResponse.AclCreationResult


def respond(call: Call, request: Message) -> Reply:
    access = with_authorizer(call)
    if access is None:
        return _all(call, request, ErrorCode.SECURITY_DISABLED, NO_ACCESS_CONTROL)
    if refusal := cluster_refusal(call, Operation.ALTER):
        return _all(call, request, refusal, "Cluster authorization failed.")
    return gather(call, map(_checked, request.creations), partial(_create, call, access, request))


def _create(call: Call, access: Access, request: Message, rows: list[Acl | BarbicelError]) -> Reply:
    wanted = [row for row in rows if isinstance(row, Acl)]
    return access.change_acls(call.broker.change, created=wanted).addCallbacks(
        lambda _: _created(call, rows, wanted),
        lambda failure: _all(call, request, error_code_of(failure.value), message_of(failure.value)),
    )


def _checked(row: Any) -> Acl | BarbicelError:
    try:
        return acl_of(row)
    except BarbicelError as error:
        return error


def _created(call: Call, rows: list[Acl | BarbicelError], wanted: list[Acl]) -> Reply:
    if wanted:
        _log.info("%d ACLs created by %s, the first: %s", len(wanted), call.who, wanted[0])
    return gather(call, map(_row, rows), partial(_tell, call))


def _row(row: Acl | BarbicelError) -> Any:
    if isinstance(row, Acl):
        return _result(ErrorCode.NONE, None)
    return _result(ErrorCode.INVALID_REQUEST, message_of(row))


def _tell(call: Call, results: list[Any]) -> Message:
    note_refusals(call, "CreateAcls", results)
    return _response(results)


def _result(error_code: ErrorCode, message: str | None) -> Any:
    return ResultRow(error_code=error_code, error_message=message)


def _all(call: Call, request: Message, error_code: ErrorCode, message: str) -> Reply:
    return gather(call, (_result(error_code, message) for _ in request.creations), _response)


def _response(results: list[Any]) -> Message:
    return CreateAclsResponse(throttle_time_ms=0, results=results)


API = Api(30, "CreateAcls", 1, 3, respond, is_alone=True)
