"""Filters that are pushed down: they leave out nothing that is wanted; those Spark need not see are exact."""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from barbicel.codecs.kafka.new_batch import NewRecord
from barbicel.keratin import Log
from barbicel.pipeline.source.arrow import KAFKA_SCHEMA
from barbicel.pipeline.source.batch_reader import FilteringReader
from barbicel.pipeline.source.options import parse_options
from barbicel.pipeline.source.splits import LogSplit
from tests.pipeline.source.stored import SMALL_SEGMENTS, T, append, batch, make_topic, records, rows_of


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    for directory in make_topic(root, "t", 3):
        with Log.open(str(directory), settings=SMALL_SEGMENTS) as log:
            for first in range(0, 300, 5):
                append(log, batch(records(5, first)))
    return root


def pushed(data: Path, *filters: Filter) -> tuple[list[dict[str, Any]], list[Filter], int]:
    """The rows, the filters that are left to Spark, and the number of splits."""
    reader = FilteringReader(parse_options({"path": str(data), "subscribe": "t"}), KAFKA_SCHEMA)
    left = list(reader.pushFilters(list(filters)))
    splits = reader.partitions()
    return rows_of(reader, splits), left, sum(isinstance(split, LogSplit) for split in splits)


EXACT = [
    ([EqualTo(("offset",), 17)], lambda row: row["offset"] == 17),
    ([GreaterThan(("offset",), 290)], lambda row: row["offset"] > 290),
    (
        [GreaterThanOrEqual(("offset",), 31), LessThan(("offset",), 47)],
        lambda row: 31 <= row["offset"] < 47,
    ),
    ([LessThanOrEqual(("offset",), 3), IsNotNull(("offset",))], lambda row: row["offset"] <= 3),
    ([EqualTo(("offset",), -1)], lambda row: False),
    ([EqualTo(("partition",), 1)], lambda row: row["partition"] == 1),
    ([In(("partition",), (0, 2))], lambda row: row["partition"] != 1),
    ([GreaterThan(("partition",), 0), LessThanOrEqual(("partition",), 1)], lambda row: row["partition"] == 1),
    ([EqualTo(("topic",), "t")], lambda row: True),
    ([In(("topic",), ("u",))], lambda row: False),
]


@pytest.mark.parametrize(("filters", "is_wanted"), EXACT)
def test_filters_that_spark_need_not_look_at(data: Path, filters: list[Filter], is_wanted: Any) -> None:
    every, _, splits = pushed(data)
    rows, left, fewer = pushed(data, *filters)
    assert not left
    assert rows == [row for row in every if is_wanted(row)]
    assert fewer <= splits


@pytest.mark.parametrize("late", [0, 100, 299, 1000])
def test_times_leave_out_what_is_earlier_and_spark_looks_again(data: Path, late: int) -> None:
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=T + late)
    wanted = GreaterThanOrEqual(("timestamp",), time)
    rows, left, splits = pushed(data, wanted)
    assert left == [wanted]
    offsets = {row["offset"] for row in rows}
    assert offsets >= set(range(late, 300))
    assert all(offset >= late - 5 for offset in offsets)
    assert (splits < pushed(data)[2]) == (late >= 100)


@pytest.mark.parametrize(
    "wanted",
    [
        Not(EqualTo(("offset",), 1)),
        EqualTo(("value",), b"x"),
        EqualTo(("offset",), "17"),
        EqualTo(("offset",), None),
        IsNotNull(("key",)),
        GreaterThan(("timestamp",), datetime(2020, 1, 1)),
        LessThan(("timestamp",), datetime(2020, 1, 1, tzinfo=UTC)),
        EqualTo(("headers", "key"), "x"),
    ],
)
def test_filters_that_are_left_to_spark(data: Path, wanted: Filter) -> None:
    rows, left, _ = pushed(data, wanted)
    assert left == [wanted]
    assert len(rows) == 900


# --- any filters ----------------------------------------------------------------------------------------

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COMPARISONS: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    In: lambda cell, values: cell in values,
}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "offset": st.integers(-3, 110) | st.sampled_from([-(2**63), 2**63 - 1]),
    "partition": st.integers(-1, 4),
    "topic": st.sampled_from(["t", "u", ""]),
    "timestamp": st.integers(-1_000_000, 300_000).map(lambda us: EPOCH + timedelta(microseconds=us)),
}


@st.composite
def any_filter(draw: st.DrawFn) -> Filter:
    column, kind = draw(st.sampled_from(sorted(VALUES))), draw(st.sampled_from(list(COMPARISONS)))
    value = VALUES[column]
    make: Callable[..., Filter] = kind
    return make((column,), draw(st.tuples(value, value) if kind is In else value))


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Times before and after 1970, in no order."""
    root = tmp_path_factory.mktemp("old")
    for partition, directory in enumerate(make_topic(root, "t", 3)):
        with Log.open(str(directory), settings=SMALL_SEGMENTS) as log:
            for first in range(0, 100, 5):
                times = [(7919 * (first + number) + partition) % 1000 - 800 for number in range(5)]
                append(log, batch([NewRecord(min(times) + n, None, b"v") for n in range(5)]))
    return root


@settings(max_examples=150, deadline=None)
@given(filters=st.lists(any_filter(), min_size=1, max_size=3))
def test_with_what_spark_does_any_filters_give_the_rows_that_match(old: Path, filters: list[Filter]) -> None:
    def matches(row: dict[str, Any], wanted: Any) -> bool:
        return COMPARISONS[type(wanted)](row[wanted.attribute[0]], wanted.value)

    every, _, _ = pushed(old)
    rows, left, _ = pushed(old, *filters)
    found = [row for row in rows if all(matches(row, one) for one in left)]
    assert found == [row for row in every if all(matches(row, one) for one in filters)]
