"""A part of a long list: where it begins, how long it may be, and what is told about the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from barbicel.gateway.admin.exchange import Asked

__all__ = ["Page", "take_page"]

T = TypeVar("T")

USUAL_ROWS = 100
MAX_ROWS = 1000


class Page(NamedTuple):
    """`start` and `limit` are those of the query."""

    start: int
    limit: int
    total: int

    def about(self) -> dict[str, Any]:
        """What goes with the rows: how many there are, and where the next ones begin, if there are any."""
        end = self.start + self.limit
        return {"total": self.total, "start": self.start, "next": end if end < self.total else None}


def take_page(asked: Asked, rows: Sequence[T]) -> tuple[Sequence[T], Page]:
    """Raises Refusal."""
    start = asked.whole("start", 0)
    limit = asked.whole("limit", USUAL_ROWS, 1, MAX_ROWS)
    return rows[start : start + limit], Page(start, limit, len(rows))
