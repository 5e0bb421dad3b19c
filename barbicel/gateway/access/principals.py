"""Who a client is, as Kafka names it: "User:alice". And how a certificate's subject becomes such a name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from barbicel.errors import BarbicelError

__all__ = [
    "ANONYMOUS",
    "USER",
    "BadPrincipal",
    "MappingRule",
    "Principal",
    "map_subject",
    "parse_mapping_rules",
    "parse_super_users",
    "user",
]

USER = "User"


class BadPrincipal(BarbicelError):
    """A text that names nobody, or rules that make no name."""


class Principal(NamedTuple):
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> Principal:
        kind, colon, name = text.strip().partition(":")
        if not (kind and colon and name):
            raise BadPrincipal(f"{text[:100]!r} is no principal such as User:alice")
        return cls(kind, name)


def user(name: str) -> Principal:
    return Principal(USER, name)


# Whoever was not asked.
ANONYMOUS = user("ANONYMOUS")


def parse_super_users(text: str) -> frozenset[Principal]:
    """Kafka's super.users. Raises BadPrincipal."""
    try:
        return frozenset(Principal.parse(one) for one in text.split(";") if one.strip())
    except BadPrincipal as error:
        raise BadPrincipal(f"super.users: {error.message}") from None


@dataclass(frozen=True)
class MappingRule:
    """`pattern` None is DEFAULT. The case is "", "L" or "U"."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, subject: str) -> str | None:
        if self.pattern is None:
            return subject
        found = self.pattern.fullmatch(subject)
        if found is None:
            return None
        # Java writes groups as $1.
        text = re.sub(r"\$(\d)", lambda group: found[int(group[1])] or "", self.replacement)
        return {"": text, "L": text.lower(), "U": text.upper()}[self.case]


_RULE = re.compile(r"RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)")


def parse_mapping_rules(text: str) -> list[MappingRule]:
    """Kafka's ssl.principal.mapping.rules. Raises BadPrincipal."""
    rules: list[MappingRule] = []
    position = 0
    while position < len(text):
        rest = text[position:]
        found = _RULE.match(rest)
        if found is None and not rest.startswith("DEFAULT"):
            raise BadPrincipal(f"ssl.principal.mapping.rules: {rest[:100]!r} is no rule")
        rules.append(MappingRule() if found is None else _rule(found))
        position += len("DEFAULT") if found is None else found.end()
        separator = re.match(r"\s*(,\s*|$)", text[position:])
        if separator is None:
            raise BadPrincipal(
                f"ssl.principal.mapping.rules: a comma is missing before {text[position:][:100]!r}"
            )
        position += separator.end()
    return rules


def _rule(found: re.Match[str]) -> MappingRule:
    try:
        pattern = re.compile(found["pattern"].replace("\\/", "/"))
    except re.error as error:
        raise BadPrincipal(f"ssl.principal.mapping.rules: {found['pattern'][:100]!r}: {error}") from None
    groups = [int(number) for number in re.findall(r"\$(\d)", found["replacement"])]
    if any(number > pattern.groups for number in groups):
        raise BadPrincipal(f"ssl.principal.mapping.rules: {found[0][:100]!r} has no such group")
    return MappingRule(pattern, found["replacement"], found["case"])


def map_subject(rules: Sequence[MappingRule], subject: str) -> Principal:
    """Raises BadPrincipal if no rule matches: such a client is nobody."""
    for rule in rules:
        name = rule.apply(subject)
        if name:
            return user(name)
    raise BadPrincipal(f"no rule of ssl.principal.mapping.rules matches {subject[:200]!r}")
