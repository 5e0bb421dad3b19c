"""DeleteAcls (key 31), versions 1 to 3. Needs ALTER on the cluster.

- Each filter is answered with the ACLs that it matches; they are gone, durably, before the answer.
- Without ACLs each is SECURITY_DISABLED, as in Kafka without an authorizer.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from barbicel.codecs.kafka.acls import Acl, Operation
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import DeleteAclsResponse, Message
from barbicel.errors import BarbicelError
from barbicel.gateway.kafka.acl_rows import NO_ACCESS_CONTROL, filter_of, with_authorizer
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.permission import cluster_refusal
from barbicel.gateway.kafka.refusals import error_code_of, message_of, note_refusals

__all__ = ["API"]

_log = logging.getLogger(__name__)

ResultRow = DeleteAclsResponse.DeleteAclsFilterResult
AclRow = ResultRow.DeleteAclsMatchingAcl
# Each filter looks at every ACL, in the reactor's thread.
MAX_FILTERS = 100


def respond(call: Call, request: Message) -> Reply:
    access = with_authorizer(call)
    if access is None:
        return _all(request, ErrorCode.SECURITY_DISABLED, NO_ACCESS_CONTROL)
    if refusal := cluster_refusal(call, Operation.ALTER):
        return _all(request, refusal, "Cluster authorization failed.")
    if len(request.filters) > MAX_FILTERS:
        return _all(request, ErrorCode.INVALID_REQUEST, f"More than {MAX_FILTERS} filters")
    known = access.acls.acls
    matching = [_matching(known, row) for row in request.filters]
    wanted = [acl for found in matching if not isinstance(found, BarbicelError) for acl in found]
    return access.change_acls(call.broker.change, deleted=wanted).addCallbacks(
        lambda _: _deleted(call, matching, wanted),
        lambda failure: _all(request, error_code_of(failure.value), message_of(failure.value)),
    )


def _matching(known: frozenset[Acl], row: Any) -> Sequence[Acl] | BarbicelError:
    try:
        return sorted(filter(filter_of(row).matches, known))
    except BarbicelError as error:
        return error


def _deleted(call: Call, matching: list[Sequence[Acl] | BarbicelError], deleted: list[Acl]) -> Message:
    if deleted:
        _log.info("%d ACLs deleted by %s, the first: %s", len(deleted), call.who, deleted[0])
    results = [
        _result(ErrorCode.INVALID_REQUEST, message_of(found))
        if isinstance(found, BarbicelError)
        else _result(ErrorCode.NONE, None, found)
        for found in matching
    ]
    note_refusals(call, "DeleteAcls", results)
    return DeleteAclsResponse(throttle_time_ms=0, filter_results=results)


def _result(error_code: ErrorCode, message: str | None, acls: Sequence[Acl] = ()) -> Any:
    rows = [
        AclRow(
            error_code=ErrorCode.NONE,
            error_message=None,
            resource_type=acl.resource,
            resource_name=acl.name,
            pattern_type=acl.pattern,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
        for acl in acls
    ]
    return ResultRow(error_code=error_code, error_message=message, matching_acls=rows)


def _all(request: Message, error_code: ErrorCode, message: str) -> Message:
    results = [_result(error_code, message) for _ in request.filters]
    return DeleteAclsResponse(throttle_time_ms=0, filter_results=results)


API = Api(31, "DeleteAcls", 1, 3, respond, is_alone=True)
