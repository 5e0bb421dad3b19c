"""Rows whose target is a number of operations a second, whatever the peer does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.report import Measurement, Target, compare

__all__ = ["Rate", "compare_rates"]


@dataclass(frozen=True, slots=True)
class Rate(Measurement):
    """The value itself has to meet the target; the ratio says how much of it the server's own work costs."""

    @property
    def ok(self) -> bool | None:
        return None if self.target is None else self.target.is_met(self.value)


def compare_rates(
    name: str,
    ours: Sequence[float],
    peer: Sequence[float],
    *,
    against: str,
    reading: str,
    target: Target | None = None,
) -> Rate:
    row = compare(name, "ops/s", ours, peer, against=against, reading=reading, target=target)
    return Rate(**{field: getattr(row, field) for field in row.__dataclass_fields__})
