"""ACLs as the three APIs about them write them: rows to rules, rows to filters, rules to rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from barbicel.codecs.kafka.acls import Acl, Operation, Pattern, Permission, Resource
from barbicel.gateway.kafka.api import Call

if TYPE_CHECKING:
    from barbicel.gateway.access.access import Access
    from barbicel.gateway.access.acl_filter import AclFilter

__all__ = ["NO_ACCESS_CONTROL", "acl_of", "by_resource", "filter_of", "with_authorizer"]

NO_ACCESS_CONTROL = "there is no access control on this server"


def with_authorizer(call: Call) -> Access | None:
    """None where nobody enforces ACLs."""
    session = call.session
    return None if session is None or session.access.authorizer is None else session.access


def acl_of(row: Any) -> Acl:
    """Raises BadAcl."""
    from barbicel.gateway.access.acl_filter import BadAcl, check_acl

    try:
        acl = Acl(
            Resource(row.resource_type),
            row.resource_name,
            Pattern(row.resource_pattern_type),
            row.principal,
            row.host,
            Operation(row.operation),
            Permission(row.permission_type),
        )
    except ValueError as error:
        raise BadAcl(f"Invalid ACL: {error}") from None
    return check_acl(acl)


def filter_of(row: Any) -> AclFilter:
    """Raises BadAcl."""
    from barbicel.gateway.access.acl_filter import AclFilter, BadAcl

    try:
        return AclFilter(
            Resource(row.resource_type_filter),
            row.resource_name_filter,
            Pattern(row.pattern_type_filter),
            row.principal_filter,
            row.host_filter,
            Operation(row.operation),
            Permission(row.permission_type),
        )
    except ValueError as error:
        raise BadAcl(f"Invalid filter: {error}") from None


def by_resource(acls: Iterable[Acl]) -> dict[tuple[Resource, str, Pattern], list[Acl]]:
    """In the order of resources, and of rules within one."""
    found: dict[tuple[Resource, str, Pattern], list[Acl]] = {}
    for acl in sorted(acls):
        found.setdefault((acl.resource, acl.name, acl.pattern), []).append(acl)
    return found
