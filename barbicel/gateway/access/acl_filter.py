"""Which ACLs somebody asks about, or wants to be rid of (KIP-290). No I/O."""

from __future__ import annotations

from typing import NamedTuple

from barbicel.codecs.kafka.acls import CLUSTER_NAME, Acl, Operation, Pattern, Permission, Resource
from barbicel.errors import BarbicelError
from barbicel.gateway.access.principals import BadPrincipal, Principal

__all__ = ["WILDCARD", "AclFilter", "BadAcl", "check_acl", "is_about"]

# The name that stands for all, in rules with a literal name.
WILDCARD = "*"
MAX_CHARS = 1000


class BadAcl(BarbicelError):
    """A rule that could never hold, or a filter that cannot be understood."""


class AclFilter(NamedTuple):
    """None, and ANY, let everything pass."""

    resource: Resource = Resource.ANY
    name: str | None = None
    pattern: Pattern = Pattern.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource in (Resource.ANY, acl.resource)
            and self._matches_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.pattern is Pattern.MATCH:
            return self.name is None or is_about(acl, self.name)
        return self.pattern in (Pattern.ANY, acl.pattern) and self.name in (None, acl.name)


def is_about(acl: Acl, name: str) -> bool:
    """Whether the rule holds for the resource of this name."""
    if acl.pattern is Pattern.PREFIXED:
        return name.startswith(acl.name)
    return acl.name in (name, WILDCARD)


def check_acl(acl: Acl) -> Acl:
    """The same, if it can be a rule. Raises BadAcl."""
    if Resource.ANY is acl.resource or acl.pattern not in (Pattern.LITERAL, Pattern.PREFIXED):
        raise BadAcl("Invalid resource type or pattern type")
    if Operation.ANY is acl.operation or Permission.ANY is acl.permission:
        raise BadAcl("Invalid operation or permission type")
    if acl.resource is Resource.CLUSTER and (acl.name != CLUSTER_NAME or acl.pattern is not Pattern.LITERAL):
        raise BadAcl(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.name:
        raise BadAcl("Invalid empty resource name")
    for text in (acl.name, acl.principal, acl.host):
        if len(text) > MAX_CHARS or not text.isprintable():
            raise BadAcl(f"A text is longer than {MAX_CHARS} characters, or cannot be printed")
    try:
        Principal.parse(acl.principal)
    except BadPrincipal:
        raise BadAcl(f"Could not parse principal from `{acl.principal[:100]}`") from None
    if not acl.host:
        raise BadAcl("Invalid empty host")
    return acl
