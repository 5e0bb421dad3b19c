"""What ACLs allow, as Kafka's StandardAuthorizer decides it. No I/O.

- A rule is about a resource if it names it, is "*", or is a prefix of its name; it is about a client if it
  names its principal or User:*, and its host or "*".
- Super users may do everything. Otherwise a rule that denies wins over any that allows; where rules are
  about the resource and none allows, it is refused; where there is none at all,
  allow.everyone.if.no.acl.found decides.
- Whoever may read, write, delete or alter may describe; whoever may alter configs may describe them.

Decisions are kept until the ACLs change: a client asks for the same ones with every request. Not those about
names that no topic can have: whoever makes up long ones must not fill the memory with them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from barbicel.codecs.kafka.acls import IMPLIED_BY, Acl, Operation, Pattern, Permission, Resource
from barbicel.gateway.access.acl_filter import WILDCARD
from barbicel.gateway.access.principals import USER, Principal

__all__ = ["Authorizer"]

ANYBODY = f"{USER}:*"
MAX_REMEMBERED = 100_000
MAX_REMEMBERED_CHARS = 250


class Authorizer:
    def __init__(
        self, acls: Iterable[Acl], super_users: frozenset[Principal], *, allow_if_no_acl: bool
    ) -> None:
        self._super_users = super_users
        self._allow_if_no_acl = allow_if_no_acl
        self.replace(acls)

    def replace(self, acls: Iterable[Acl]) -> None:
        """These hold from now on, and no others."""
        self.acls = frozenset(acls)
        # By the resource and the rule's name; literal ones and prefixes apart.
        self._literal: defaultdict[tuple[Resource, str], list[Acl]] = defaultdict(list)
        self._prefixed: defaultdict[tuple[Resource, str], list[Acl]] = defaultdict(list)
        for acl in self.acls:
            rules = self._prefixed if acl.pattern is Pattern.PREFIXED else self._literal
            rules[acl.resource, acl.name].append(acl)
        self._prefix_lengths = sorted({len(name) for _, name in self._prefixed})
        self._decided: dict[tuple[Principal, str, Operation, Resource, str], bool] = {}
        self._somewhere: dict[tuple[Principal, str, Operation, Resource], bool] = {}

    def is_allowed(
        self, principal: Principal, host: str, operation: Operation, resource: Resource, name: str
    ) -> bool:
        if len(name) > MAX_REMEMBERED_CHARS:
            return self._decide(principal, host, operation, resource, name)
        key = principal, host, operation, resource, name
        decided = self._decided.get(key)
        if decided is None:
            if len(self._decided) >= MAX_REMEMBERED:
                self._decided.clear()
            decided = self._decided[key] = self._decide(*key)
        return decided

    def _decide(
        self, principal: Principal, host: str, operation: Operation, resource: Resource, name: str
    ) -> bool:
        if principal in self._super_users:
            return True
        rules = list(self._about(resource, name))
        if not rules:
            return self._allow_if_no_acl
        held = {(acl.permission, acl.operation) for acl in rules if _is_for(acl, principal, host)}
        if any((Permission.DENY, one) in held for one in (operation, Operation.ALL)):
            return False
        enough = {operation, Operation.ALL, *IMPLIED_BY.get(operation, ())}
        return any((Permission.ALLOW, one) in held for one in enough)

    def _about(self, resource: Resource, name: str) -> Iterator[Acl]:
        yield from self._literal.get((resource, name), ())
        if name != WILDCARD:
            yield from self._literal.get((resource, WILDCARD), ())
        for length in self._prefix_lengths:
            if length > len(name):
                break
            yield from self._prefixed.get((resource, name[:length]), ())

    def is_allowed_somewhere(
        self, principal: Principal, host: str, operation: Operation, resource: Resource
    ) -> bool:
        """Whether there may be a resource of this kind with which it is allowed (KIP-679)."""
        key = principal, host, operation, resource
        decided = self._somewhere.get(key)
        if decided is None:
            if len(self._somewhere) >= MAX_REMEMBERED:
                self._somewhere.clear()
            decided = self._somewhere[key] = self._decide_somewhere(*key)
        return decided

    def _decide_somewhere(
        self, principal: Principal, host: str, operation: Operation, resource: Resource
    ) -> bool:
        if principal in self._super_users:
            return True
        rules = [
            acl
            for acl in self.acls
            if acl.resource is resource
            and acl.operation in (operation, Operation.ALL)
            and _is_for(acl, principal, host)
        ]
        denied = [acl for acl in rules if acl.permission is Permission.DENY]
        if any(acl.pattern is Pattern.LITERAL and acl.name == WILDCARD for acl in denied):
            return False
        allowed = [acl for acl in rules if acl.permission is Permission.ALLOW]
        return self._allow_if_no_acl or any(not _is_covered(acl, denied) for acl in allowed)


def _is_for(acl: Acl, principal: Principal, host: str) -> bool:
    is_principal = acl.principal == str(principal) or (principal.kind == USER and acl.principal == ANYBODY)
    return is_principal and acl.host in (host, WILDCARD)


def _is_covered(allow: Acl, denied: Iterable[Acl]) -> bool:
    """Whether whatever this rule allows is denied by one of those."""
    if allow.pattern is Pattern.LITERAL and allow.name == WILDCARD:
        return False
    return any(
        allow.name.startswith(acl.name)
        if acl.pattern is Pattern.PREFIXED
        else allow.pattern is Pattern.LITERAL and allow.name == acl.name
        for acl in denied
    )
