"""DeleteAcls (key 31), versions 1 to 3. Needs ALTER on the cluster.

- Each filter is answered with the ACLs that it matches; they are gone, durably, before the answer.
- Without ACLs each is SECURITY_DISABLED, as in Kafka without an authorizer.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from barbicel.codecs.kafka.acls import Acl, Operation
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import DeleteAclsResponse, Message
from barbicel.errors import BarbicelError
from barbicel.gateway.kafka.acl_rows import NO_ACCESS_CONTROL, filter_of, with_authorizer
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.permission import cluster_refusal
from barbicel.gateway.kafka.refusals import error_code_of, message_of, note_refusals
from barbicel.gateway.kafka.rows import gather

if TYPE_CHECKING:
    from barbicel.gateway.access.access import Access

__all__ = ["API"]

_log = logging.getLogger(__name__)

ResultRow = DeleteAclsResponse.DeleteAclsFilterResult
AclRow = ResultRow.DeleteAclsMatchingAcl
Matching: TypeAlias = Sequence[Acl] | BarbicelError
# Each filter looks at every ACL.
MAX_FILTERS = 100
# How many it looks at in the time that a row of an answer takes.
ACLS_A_ROW = 200


def respond(call: Call, request: Message) -> Reply:
    access = with_authorizer(call)
    if access is None:
        return _all(call, request, ErrorCode.SECURITY_DISABLED, NO_ACCESS_CONTROL)
    if refusal := cluster_refusal(call, Operation.ALTER):
        return _all(call, request, refusal, "Cluster authorization failed.")
    if len(request.filters) > MAX_FILTERS:
        return _all(call, request, ErrorCode.INVALID_REQUEST, f"More than {MAX_FILTERS} filters")
    known = access.acls.acls
    matching = (_matching(known, row) for row in request.filters)
    return gather(
        call, matching, partial(_delete, call, access, request), lambda _: 1 + len(known) // ACLS_A_ROW
    )


def _delete(call: Call, access: Access, request: Message, matching: list[Matching]) -> Reply:
    wanted = [acl for found in matching if not isinstance(found, BarbicelError) for acl in found]
    return access.change_acls(call.broker.change, deleted=wanted).addCallbacks(
        lambda _: _deleted(call, matching, wanted),
        lambda failure: _all(call, request, error_code_of(failure.value), message_of(failure.value)),
    )


def _matching(known: frozenset[Acl], row: Any) -> Matching:
    try:
        return sorted(filter(filter_of(row).matches, known))
    except BarbicelError as error:
        return error


def _deleted(call: Call, matching: list[Matching], deleted: list[Acl]) -> Reply:
    if deleted:
        _log.info("%d ACLs deleted by %s, the first: %s", len(deleted), call.who, deleted[0])
    return gather(call, map(_row, matching), partial(_tell, call), lambda row: 1 + len(row.matching_acls))


def _row(found: Matching) -> Any:
    if isinstance(found, BarbicelError):
        return _result(ErrorCode.INVALID_REQUEST, message_of(found))
    return _result(ErrorCode.NONE, None, found)


def _tell(call: Call, results: list[Any]) -> Message:
    note_refusals(call, "DeleteAcls", results)
    return _response(results)


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


def _all(call: Call, request: Message, error_code: ErrorCode, message: str) -> Reply:
    return gather(call, (_result(error_code, message) for _ in request.filters), _response)


def _response(results: list[Any]) -> Message:
    return DeleteAclsResponse(throttle_time_ms=0, filter_results=results)


API = Api(31, "DeleteAcls", 1, 3, respond, is_alone=True)
