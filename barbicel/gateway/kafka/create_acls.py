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

if TYPE_CHECKING:
    from barbicel.gateway.access.access import Access

__all__ = ["API"]

_log = logging.getLogger(__name__)

ResultRow = CreateAclsResponse.AclCreationResult
# Of one server. Each client's first request looks at those about its resource.
MAX_ACLS = 50_000


def respond(call: Call, request: Message) -> Reply:
    access = with_authorizer(call)
    if access is None:
        return _all(request, ErrorCode.SECURITY_DISABLED, NO_ACCESS_CONTROL)
    if refusal := cluster_refusal(call, Operation.ALTER):
        return _all(request, refusal, "Cluster authorization failed.")
    if len(access.acls.acls) + len(request.creations) > MAX_ACLS:
        return _all(request, ErrorCode.INVALID_REQUEST, f"More than {MAX_ACLS} ACLs")
    rows = [_checked(row) for row in request.creations]
    wanted = [row for row in rows if isinstance(row, Acl)]
    return access.change_acls(call.broker.change, created=wanted).addCallbacks(
        lambda _: _created(call, access, rows, wanted),
        lambda failure: _all(request, error_code_of(failure.value), message_of(failure.value)),
    )


def _checked(row: Any) -> Acl | BarbicelError:
    try:
        return acl_of(row)
    except BarbicelError as error:
        return error


def _created(call: Call, access: Access, rows: list[Acl | BarbicelError], wanted: list[Acl]) -> Message:
    if wanted:
        _log.info("%d ACLs created by %s, the first: %s", len(wanted), call.who, wanted[0])
    results = [
        _result(ErrorCode.NONE, None)
        if isinstance(row, Acl)
        else _result(ErrorCode.INVALID_REQUEST, message_of(row))
        for row in rows
    ]
    note_refusals(call, "CreateAcls", results)
    return CreateAclsResponse(throttle_time_ms=0, results=results)


def _result(error_code: ErrorCode, message: str | None) -> Any:
    return ResultRow(error_code=error_code, error_message=message)


def _all(request: Message, error_code: ErrorCode, message: str) -> Message:
    make = partial(_result, error_code, message)
    return CreateAclsResponse(throttle_time_ms=0, results=[make() for _ in request.creations])


API = Api(30, "CreateAcls", 1, 3, respond, is_alone=True)
