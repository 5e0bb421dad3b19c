"""DescribeAcls (key 29), versions 1 to 3. Needs DESCRIBE on the cluster.

Without ACLs it is SECURITY_DISABLED, as Kafka answers without an authorizer. Tools such as Redpanda Console
and AKHQ ask for it and take that answer for "no access control here".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from barbicel.codecs.kafka.acls import Acl, Operation
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import DescribeAclsResponse, Message
from barbicel.errors import BarbicelError
from barbicel.gateway.kafka.acl_rows import NO_ACCESS_CONTROL, by_resource, filter_of, with_authorizer
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.permission import cluster_refusal
from barbicel.gateway.kafka.rows import gather

__all__ = ["API"]

ResourceRow = DescribeAclsResponse.DescribeAclsResource
AclRow = ResourceRow.AclDescription


def respond(call: Call, request: Message) -> Reply:
    access = with_authorizer(call)
    if access is None:
        return _answer([], ErrorCode.SECURITY_DISABLED, NO_ACCESS_CONTROL)
    if refusal := cluster_refusal(call, Operation.DESCRIBE):
        return _answer([], refusal, "Cluster authorization failed.")
    try:
        wanted = filter_of(request)
    except BarbicelError as error:
        return _answer([], ErrorCode.INVALID_REQUEST, str(error))
    found = by_resource(filter(wanted.matches, access.acls.acls))
    rows = (_row(resource, name, pattern, acls) for (resource, name, pattern), acls in found.items())
    return gather(call, rows, _answer, lambda row: len(row.acls))


def _row(resource: int, name: str, pattern: int, acls: Iterable[Acl]) -> Any:
    return ResourceRow(
        resource_type=resource,
        resource_name=name,
        pattern_type=pattern,
        acls=[
            AclRow(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in acls
        ],
    )


def _answer(rows: list[Any], error_code: ErrorCode = ErrorCode.NONE, message: str | None = None) -> Message:
    return DescribeAclsResponse(
        throttle_time_ms=0, error_code=error_code, error_message=message, resources=rows
    )


API = Api(29, "DescribeAcls", 1, 3, respond, is_alone=True)
