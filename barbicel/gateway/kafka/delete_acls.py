"""DeleteAcls (key 31), versions 1 to 3. Needs ALTER on the cluster.

- Each filter is answered with the ACLs that it matches; they are gone, durably, before the answer.
- Without ACLs each is SECURITY_DISABLED, as in Kafka without an authorizer.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from barbicel.codecs.kafka.acls import Acl, Operation
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import DeleteAclsResponse, Message, encode_response
from barbicel.errors import BarbicelError
from barbicel.gateway.kafka.acl_rows import NO_ACCESS_CONTROL, filter_of, with_authorizer
from barbicel.gateway.kafka.api import Api, Call, Encoded, Reply
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
# Each filter looks at every ACL, in a thread.
MAX_FILTERS = 100


def respond(call: Call, request: Message) -> Reply:
    access = with_authorizer(call)
    if access is None:
        return _all(call, request, ErrorCode.SECURITY_DISABLED, NO_ACCESS_CONTROL)
    if refusal := cluster_refusal(call, Operation.ALTER):
        return _all(call, request, refusal, "Cluster authorization failed.")
    if len(request.filters) > MAX_FILTERS:
        return _all(call, request, ErrorCode.INVALID_REQUEST, f"More than {MAX_FILTERS} filters")
    finding = call.broker.work_long(partial(_find, access.acls.acls, request.filters))
    return finding.addCallback(partial(_delete, call, access, request))


class Found(NamedTuple):
    """What each filter matches, and all of that together."""

    matching: list[Matching]
    acls: list[Acl]


def _find(known: frozenset[Acl], filters: list[Any]) -> Found:
    matching = [_matching(known, row) for row in filters]
    found = (acls for acls in matching if not isinstance(acls, BarbicelError))
    return Found(matching, list(dict.fromkeys(chain.from_iterable(found))))


def _delete(call: Call, access: Access, request: Message, found: Found) -> Reply:
    return access.change_acls(call.broker.change, deleted=found.acls).addCallbacks(
        lambda _: _deleted(call, found),
        lambda failure: _all(call, request, error_code_of(failure.value), message_of(failure.value)),
    )


def _matching(known: frozenset[Acl], row: Any) -> Matching:
    try:
        return sorted(filter(filter_of(row).matches, known))
    except BarbicelError as error:
        return error


def _deleted(call: Call, found: Found) -> Reply:
    if found.acls:
        _log.info("%d ACLs deleted by %s, the first: %s", len(found.acls), call.who, found.acls[0])
    refused = [_row(one) for one in found.matching if isinstance(one, BarbicelError)]
    note_refusals(call, "DeleteAcls", refused)
    return call.broker.work_long(partial(_encode, found.matching, call.version))


def _encode(matching: list[Matching], version: int) -> Encoded:
    return Encoded(encode_response(_response([_row(found) for found in matching]), version))


def _row(found: Matching) -> Any:
    if isinstance(found, BarbicelError):
        return _result(ErrorCode.INVALID_REQUEST, message_of(found))
    return _result(ErrorCode.NONE, None, found)


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
