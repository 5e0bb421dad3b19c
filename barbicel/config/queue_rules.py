"""What the settings of a queue may be, beside the rules that all settings share.

Times and sizes are whole numbers, or text with a unit: 30000 and "30 s" are one. Where nothing limits, the
text is "none": 0 would be read by some as no limit and by others as a limit of 0, so it is not allowed there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from barbicel.config.queue_names import QUEUE_NAME, wire_name
from barbicel.config.values import INT_MAX, LONG_MAX, Rule, ValueType, Whole

__all__ = ["SIZES", "TIMES", "Measure", "OrNone", "QueueText"]

NONE = "none"
_MEASURE = re.compile(r"([0-9]{1,19}) *([A-Za-z]*)", re.ASCII)


class Units(NamedTuple):
    """`sizes` begins with the unit of a bare number, and has the largest last."""

    named: str
    sizes: Mapping[str, int]


TIMES = Units(
    'milliseconds or text like "30 s" (ms, s, min, h, d)',
    {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000},
)
SIZES = Units(
    'bytes or text like "16 MiB" (B, KiB, MiB, GiB)',
    # In Kestrel's own files a megabyte has 2^20 bytes.
    {"B": 1, "KB": 1 << 10, "KiB": 1 << 10, "MB": 1 << 20, "MiB": 1 << 20, "GB": 1 << 30, "GiB": 1 << 30},
)


@dataclass(frozen=True)
class Measure(Rule):
    """A whole number; as text it may have a unit."""

    units: Units
    lowest: int = 1
    highest: int = LONG_MAX

    @property
    def type(self) -> ValueType:
        return ValueType.INT if self.highest <= INT_MAX else ValueType.LONG

    @property
    def allowed(self) -> str:
        bounds = f"from {self.render(self.lowest)}"
        if self.highest < LONG_MAX:
            bounds = f"{bounds} to {self.render(self.highest)}"
        return f"{self.units.named}, {bounds}"

    def parse(self, text: str) -> int:
        found = _MEASURE.fullmatch(text.strip())
        unit = self.units.sizes.get(found[2]) if found and found[2] else 1
        if found is None or unit is None:
            raise self.refuse()
        return self.check(int(found[1]) * unit)

    def check(self, value: object) -> int:
        try:
            return Whole(self.lowest, self.highest).check(value)
        except ValueError:
            raise self.refuse() from None

    def render(self, value: Any) -> str:
        """In the largest unit that leaves a whole number."""
        for unit, size in reversed(list(self.units.sizes.items())):
            if value and value % size == 0:
                return f"{value // size} {unit}"
        return str(value)


@dataclass(frozen=True)
class OrNone(Rule):
    """What another rule allows, or no value."""

    rule: Rule

    @property
    def type(self) -> ValueType:
        return self.rule.type

    @property
    def allowed(self) -> str:
        return f'"{NONE}", or {self.rule.allowed}'

    def parse(self, text: str) -> Any:
        if text.strip() == NONE:
            return None
        try:
            return self.rule.parse(text)
        except ValueError:
            raise self.refuse() from None

    def check(self, value: object) -> Any:
        try:
            return None if value is None else self.rule.check(value)
        except ValueError:
            raise self.refuse() from None

    def render(self, value: Any) -> str:
        return NONE if value is None else self.rule.render(value)


@dataclass(frozen=True)
class QueueText(Rule):
    """The name of a queue, kept as clients spell it."""

    type = ValueType.STRING
    allowed = "the name of a queue, which has none of . / ~ and no space"

    def parse(self, text: str) -> str:
        return self.check(wire_name(text))

    def check(self, value: object) -> str:
        if not isinstance(value, str) or not QUEUE_NAME.fullmatch(value) or not value.strip("+"):
            raise self.refuse()
        return value

    def render(self, value: Any) -> str:
        return str(value).encode("latin-1").decode("utf-8", "replace")
