"""What a value may be: a rule parses its text, checks it, renders it, and says what is allowed.

The settings of the server and of topics share these rules. Text has the form that Kafka's tools use. A rule
raises ValueError; whoever knows where the value came from says so.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

__all__ = [
    "INT_MAX",
    "LONG_MAX",
    "Choice",
    "Fraction",
    "Names",
    "Rule",
    "Switch",
    "Text",
    "ValueType",
    "Whole",
]

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1

# Python's int() also takes underscores, and digits of other scripts.
_WHOLE = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_FRACTION = re.compile(r"[0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20}", re.ASCII)
_SWITCH = {"true": True, "false": False}


class ValueType(IntEnum):
    """The types of a value, with the numbers that DescribeConfigs answers (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class Rule(ABC):
    """`parse` takes text, `check` a value that already has its Python type; both raise ValueError."""

    @property
    @abstractmethod
    def type(self) -> ValueType: ...

    @property
    @abstractmethod
    def allowed(self) -> str:
        """What a user may write, for messages: "true or false"."""

    @abstractmethod
    def parse(self, text: str) -> Any:
        """The value of a text, checked."""

    @abstractmethod
    def check(self, value: object) -> Any:
        """The same value, if it is allowed."""

    def render(self, value: Any) -> str:
        """The text that `parse` makes this value of."""
        return str(value)

    def refuse(self) -> ValueError:
        return ValueError(f"allowed is {self.allowed}")


@dataclass(frozen=True)
class Whole(Rule):
    """A whole number; INT unless the highest needs a LONG. `without` is between them, and not allowed."""

    lowest: int
    highest: int = INT_MAX
    without: int | None = None

    @property
    def type(self) -> ValueType:
        return ValueType.INT if self.highest <= INT_MAX else ValueType.LONG

    @property
    def allowed(self) -> str:
        if self.highest == LONG_MAX:
            return f"a whole number from {self.lowest}"
        but = "" if self.without is None else f", but not {self.without}"
        return f"a whole number from {self.lowest} to {self.highest}{but}"

    def parse(self, text: str) -> int:
        if not _WHOLE.fullmatch(text.strip()):
            raise self.refuse()
        return self.check(int(text))

    def check(self, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not self.lowest <= value <= self.highest:
            raise self.refuse()
        if value == self.without:
            raise self.refuse()
        return value


@dataclass(frozen=True)
class Fraction(Rule):
    """A number from 0 to 1."""

    type = ValueType.DOUBLE
    allowed = "a number from 0 to 1"

    def parse(self, text: str) -> float:
        if not _FRACTION.fullmatch(text.strip()):
            raise self.refuse()
        return self.check(float(text))

    def check(self, value: object) -> float:
        if not isinstance(value, float) or not 0 <= value <= 1:
            raise self.refuse()
        return value


@dataclass(frozen=True)
class Switch(Rule):
    """On or off."""

    type = ValueType.BOOLEAN
    allowed = "true or false"

    def parse(self, text: str) -> bool:
        try:
            return _SWITCH[text.strip().lower()]
        except KeyError:
            raise self.refuse() from None

    def check(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise self.refuse()
        return value

    def render(self, value: Any) -> str:
        return "true" if value else "false"


@dataclass(frozen=True)
class Choice(Rule):
    """One of some names, spelled exactly like this."""

    choices: tuple[str, ...]

    type = ValueType.STRING

    @property
    def allowed(self) -> str:
        return either(self.choices)

    def parse(self, text: str) -> str:
        return self.check(text.strip())

    def check(self, value: object) -> str:
        if not isinstance(value, str) or value not in self.choices:
            raise self.refuse()
        return value


@dataclass(frozen=True)
class Names(Rule):
    """A list of names from a set, at least one, none twice; in text separated by commas."""

    choices: tuple[str, ...]

    type = ValueType.LIST

    @property
    def allowed(self) -> str:
        return either(self.choices)

    def parse(self, text: str) -> tuple[str, ...]:
        return self.check(tuple(name.strip() for name in text.split(",")))

    def check(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, tuple) or len(set(value)) < len(value) or not value:
            raise self.refuse()
        if not set(value) <= set(self.choices):
            raise self.refuse()
        return value

    def render(self, value: Any) -> str:
        return ",".join(value)


@dataclass(frozen=True)
class Text(Rule):
    """Any text without control characters, not empty unless it says so."""

    is_optional: bool = False

    type = ValueType.STRING

    @property
    def allowed(self) -> str:
        return "text, or nothing" if self.is_optional else "text"

    def parse(self, text: str) -> str:
        return self.check(text)

    def check(self, value: object) -> str:
        if not isinstance(value, str) or not value.isprintable():
            raise self.refuse()
        if not value.strip() and (value or not self.is_optional):
            raise self.refuse()
        return value


def either(choices: Sequence[str]) -> str:
    *others, last = choices
    return f"{', '.join(others)} or {last}" if others else last
