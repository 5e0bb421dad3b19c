"""Filters that Spark pushes down: which of them narrow what is read, and which it need not look at again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

__all__ = ["Bounds", "push_filters"]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_OFFSET = 2**63 - 1
NEVER_NULL = ("topic", "partition", "offset", "timestampType")


@dataclass(frozen=True)
class Bounds:
    """What can match at all."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    partition_from: int = 0
    partition_end: int = 2**31
    from_offset: int = 0
    end_offset: int = MAX_OFFSET
    from_timestamp_ms: int | None = None

    def has(self, topic: str, partition: int) -> bool:
        return (
            (self.topics is None or topic in self.topics)
            and (self.partitions is None or partition in self.partitions)
            and self.partition_from <= partition < self.partition_end
        )


def push_filters(filters: Iterable[Filter], bounds: Bounds) -> tuple[Bounds, list[Filter]]:
    """Narrower bounds, and the filters that Spark has to look at all the same."""
    left: list[Filter] = []
    for wanted in filters:
        narrowed = _narrow(wanted, bounds)
        if narrowed is not None:
            bounds = narrowed
        # Of times the bounds only say where to begin.
        if narrowed is None or _column(wanted) == "timestamp":
            left.append(wanted)
    return bounds, left


def _column(wanted: Filter) -> str:
    path: tuple[str, ...] = getattr(wanted, "attribute", ())
    return path[0] if len(path) == 1 else ""


def _narrow(wanted: Filter, bounds: Bounds) -> Bounds | None:
    """None if nothing here understands the filter."""
    if isinstance(wanted, IsNotNull):
        return bounds if _column(wanted) in NEVER_NULL else None
    row = _ROWS.get((_column(wanted), type(wanted)))
    value = getattr(wanted, "value", None)
    if row is None or value is None:
        return None
    try:
        return row(bounds, value)
    except (TypeError, ValueError, OverflowError):
        return None  # a value of a kind that this column does not have


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    return value


def _offset_from(bounds: Bounds, value: Any, add: int = 0) -> Bounds:
    return replace(bounds, from_offset=max(bounds.from_offset, _whole(value) + add))


def _offset_end(bounds: Bounds, value: Any, add: int = 0) -> Bounds:
    return replace(bounds, end_offset=min(bounds.end_offset, _whole(value) + add))


def _partition_from(bounds: Bounds, value: Any, add: int = 0) -> Bounds:
    return replace(bounds, partition_from=max(bounds.partition_from, _whole(value) + add))


def _partition_end(bounds: Bounds, value: Any, add: int = 0) -> Bounds:
    return replace(bounds, partition_end=min(bounds.partition_end, _whole(value) + add))


def _partitions(bounds: Bounds, values: Iterable[Any]) -> Bounds:
    found = frozenset(map(_whole, values))
    return replace(bounds, partitions=found if bounds.partitions is None else found & bounds.partitions)


def _topics(bounds: Bounds, values: Iterable[Any]) -> Bounds:
    found = frozenset(values)
    if not all(isinstance(value, str) for value in found):
        raise TypeError
    return replace(bounds, topics=found if bounds.topics is None else found & bounds.topics)


def _time_from(bounds: Bounds, value: Any) -> Bounds:
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise TypeError
    found = (value - EPOCH) // timedelta(milliseconds=1)
    known = bounds.from_timestamp_ms
    # Times before 1970 are below 0, so None is not 0.
    return replace(bounds, from_timestamp_ms=found if known is None else max(known, found))


_ROWS: Mapping[tuple[str, type[Filter]], Callable[[Bounds, Any], Bounds]] = {
    ("offset", EqualTo): lambda bounds, value: _offset_end(_offset_from(bounds, value), value, 1),
    ("offset", GreaterThan): lambda bounds, value: _offset_from(bounds, value, 1),
    ("offset", GreaterThanOrEqual): _offset_from,
    ("offset", LessThan): _offset_end,
    ("offset", LessThanOrEqual): lambda bounds, value: _offset_end(bounds, value, 1),
    ("partition", EqualTo): lambda bounds, value: _partitions(bounds, (value,)),
    ("partition", In): _partitions,
    ("partition", GreaterThan): lambda bounds, value: _partition_from(bounds, value, 1),
    ("partition", GreaterThanOrEqual): _partition_from,
    ("partition", LessThan): _partition_end,
    ("partition", LessThanOrEqual): lambda bounds, value: _partition_end(bounds, value, 1),
    ("topic", EqualTo): lambda bounds, value: _topics(bounds, (value,)),
    ("topic", In): _topics,
    ("timestamp", EqualTo): _time_from,
    ("timestamp", GreaterThan): _time_from,
    ("timestamp", GreaterThanOrEqual): _time_from,
}
