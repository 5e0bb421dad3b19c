"""A stream's offsets, without a JVM: admission, growth, loss, restarts, and the same rows each time."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows

from barbicel.codecs.kafka.new_batch import ControlType, build_control_batch
from barbicel.errors import OffsetOutOfRange
from barbicel.keratin import Log
from barbicel.pipeline.source.admission import at_most, new_offsets
from barbicel.pipeline.source.arrow import KAFKA_SCHEMA
from barbicel.pipeline.source.options import parse_options
from barbicel.pipeline.source.places import NoSuchTopic
from barbicel.pipeline.source.splits import LogSplit
from barbicel.pipeline.source.stream_reader import StreamReader
from barbicel.pipeline.source.transactions import OpenTransaction
from tests.pipeline.source.stored import SMALL_SEGMENTS, T, append, batch, make_topic, records, rows_of

ALL = ReadAllAvailable()


class Clock:
    def __init__(self) -> None:
        self.now_ms = T

    def __call__(self) -> int:
        return self.now_ms


def stream(path: Path, clock: Clock | None = None, /, **options: str) -> StreamReader:
    given_options = {"path": str(path), "startingOffsets": "earliest", **options}
    return StreamReader(parse_options(given_options), KAFKA_SCHEMA, clock or Clock())


def rows(source: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[str, int, int]]:
    found = rows_of(source, source.partitions(start, end))
    return [(row["topic"], row["partition"], row["offset"]) for row in found]


def log_of(path: Path, count: int, first: int = 0) -> None:
    with Log.open(str(path), settings=SMALL_SEGMENTS) as log:
        for number in range(first, first + count, 5):
            append(log, batch(records(min(5, first + count - number), number)))


def test_a_stream_goes_on_where_it_was(tmp_path: Path) -> None:
    log_of(tmp_path / "t", 20)
    source = stream(tmp_path / "t")
    start = source.initialOffset()
    assert start == {"t": {"0": 0}}
    end = source.latestOffset(start, ALL)
    assert rows(source, start, end) == [("t", 0, offset) for offset in range(20)]
    assert source.latestOffset(end, ALL) == end
    log_of(tmp_path / "t", 7, 20)
    later = source.latestOffset(end, ALL)
    assert rows(source, end, later) == [("t", 0, offset) for offset in range(20, 27)]
    # A restarted query plans the same batch again, and gets the same rows.
    assert rows(stream(tmp_path / "t"), start, end) == [("t", 0, offset) for offset in range(20)]
    assert stream(tmp_path / "t").reportLatestOffset() == later


def test_a_stream_begins_at_the_end_unless_it_is_told_otherwise(tmp_path: Path) -> None:
    log_of(tmp_path / "t", 20)
    source = StreamReader(parse_options({"path": str(tmp_path / "t")}), KAFKA_SCHEMA)
    assert source.initialOffset() == {"t": {"0": 20}}
    assert stream(tmp_path / "t", startingOffsets='{"t": {"0": 7}}').initialOffset() == {"t": {"0": 7}}


@pytest.mark.parametrize("limit", [1, 3, 7, 1000])
def test_no_more_than_so_many_at_a_time(tmp_path: Path, limit: int) -> None:
    for partition, directory in enumerate(make_topic(tmp_path, "orders", 3)):
        log_of(directory, 10 * partition + 3)
    source = stream(tmp_path, subscribe="orders", maxOffsetsPerTrigger=str(limit))
    assert source.getDefaultReadLimit() == ReadMaxRows(limit)
    start = source.initialOffset()
    read: list[tuple[str, int, int]] = []
    while (end := source.latestOffset(start, ReadMaxRows(limit))) != start:
        found = rows(source, start, end)
        # One of each partition at least.
        assert len(found) <= max(limit, 3)
        read += found
        start = end
    assert sorted(read) == [("orders", p, offset) for p in range(3) for offset in range(10 * p + 3)]


ends = st.dictionaries(
    st.tuples(st.just("t"), st.integers(0, 5)), st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1
)


@given(ends, st.integers(1, 60))
def test_shares_are_within_what_there_is(ranges: dict[tuple[str, int], tuple[int, int]], limit: int) -> None:
    start = {key: first for key, (first, _) in ranges.items()}
    end = {key: first + count for key, (first, count) in ranges.items()}
    reached = at_most(start, end, limit)
    assert all(start[key] <= reached[key] <= end[key] for key in end)
    assert new_offsets(start, reached) <= limit + len(end)
    assert new_offsets(start, reached) > 0 or not new_offsets(start, end)


def test_not_less_than_so_many_unless_it_takes_too_long(tmp_path: Path) -> None:
    log_of(tmp_path / "t", 4)
    clock = Clock()
    source = stream(tmp_path / "t", clock, minOffsetsPerTrigger="10", maxTriggerDelay="5m")
    limit: ReadLimit = source.getDefaultReadLimit()
    assert limit == ReadMinRows(10)
    start = source.initialOffset()
    assert source.latestOffset(start, limit) == start
    clock.now_ms += 5 * 60_000
    assert source.latestOffset(start, limit) == {"t": {"0": 4}}
    log_of(tmp_path / "t", 9, 4)
    assert source.latestOffset({"t": {"0": 4}}, limit) == {"t": {"0": 4}}
    log_of(tmp_path / "t", 1, 13)
    assert source.latestOffset({"t": {"0": 4}}, limit) == {"t": {"0": 14}}
    # The engine may want all of it, whatever the options say.
    assert source.latestOffset({"t": {"0": 13}}, ALL) == {"t": {"0": 14}}


def test_available_now_ends_where_the_logs_ended_when_it_began(tmp_path: Path) -> None:
    log_of(tmp_path / "t", 10)
    source = stream(tmp_path / "t", maxOffsetsPerTrigger="4", minOffsetsPerTrigger="4")
    source.prepareForTriggerAvailableNow()
    log_of(tmp_path / "t", 10, 10)
    start, reached = source.initialOffset(), []
    while (end := source.latestOffset(start, ReadMaxRows(4))) != start:
        start = end
        reached.append(end["t"]["0"])
    assert reached == [4, 8, 10]


def test_partitions_and_topics_that_come_later_are_read_from_their_beginning(tmp_path: Path) -> None:
    first, second = make_topic(tmp_path, "orders", 2)
    log_of(first, 5)
    source = stream(tmp_path, subscribePattern="orders.*", startingOffsets="latest")
    start = source.initialOffset()
    assert start["orders"] == {"0": 5}
    log_of(second, 3)
    log_of(make_topic(tmp_path, "orders.eu", 1, 2)[0], 2)
    end = source.latestOffset(start, ALL)
    expected = [
        ("orders", 1, 0),
        ("orders", 1, 1),
        ("orders", 1, 2),
        ("orders.eu", 0, 0),
        ("orders.eu", 0, 1),
    ]
    assert rows(source, start, end) == expected


def test_what_was_trimmed_before_it_was_read_is_a_loss(tmp_path: Path) -> None:
    log_of(tmp_path / "t", 300)
    start = {"t": {"0": 10}}
    with Log.open(str(tmp_path / "t"), settings=SMALL_SEGMENTS) as log:
        log.truncate_before(200)
    with pytest.raises(OffsetOutOfRange, match="was trimmed.*failOnDataLoss=false"):
        stream(tmp_path / "t").latestOffset(start, ALL)
    lenient = stream(tmp_path / "t", failOnDataLoss="false")
    end = lenient.latestOffset(start, ALL)
    assert rows(lenient, start, end) == [("t", 0, offset) for offset in range(200, 300)]


def test_a_log_that_is_shorter_than_what_was_read_is_a_loss(tmp_path: Path) -> None:
    log_of(tmp_path / "t", 10)
    with pytest.raises(OffsetOutOfRange, match="shorter than it was"):
        stream(tmp_path / "t").latestOffset({"t": {"0": 11}}, ALL)
    with pytest.raises(OffsetOutOfRange, match="shorter than it was"):
        stream(tmp_path / "t").partitions({"t": {"0": 5}}, {"t": {"0": 11}})


def test_a_topic_that_was_created_again_is_not_the_one_that_was_read(tmp_path: Path) -> None:
    (directory,) = make_topic(tmp_path, "orders")
    log_of(directory, 5)
    source = stream(tmp_path, subscribe="orders")
    start = source.latestOffset(source.initialOffset(), ALL)
    shutil.rmtree(directory.parent)
    with pytest.raises(NoSuchTopic, match="no topic 'orders'"):
        source.latestOffset(start, ALL)
    (directory,) = make_topic(tmp_path, "orders", 1, 2)
    log_of(directory, 8)
    with pytest.raises(NoSuchTopic, match="deleted and created again"):
        stream(tmp_path, subscribe="orders").latestOffset(start, ALL)
    lenient = stream(tmp_path, subscribe="orders", failOnDataLoss="false")
    end = lenient.latestOffset(start, ALL)
    assert len(rows(lenient, start, end)) == 8


def test_a_topic_that_is_created_again_under_a_batch_is_read_once(tmp_path: Path) -> None:
    (directory,) = make_topic(tmp_path, "orders")
    log_of(directory, 5)
    source = stream(tmp_path, subscribe="orders", failOnDataLoss="false")
    start = source.initialOffset()
    planned = source.latestOffset(start, ALL)
    shutil.rmtree(directory.parent)
    (directory,) = make_topic(tmp_path, "orders", 1, 2)
    log_of(directory, 8)
    read = rows(source, start, planned)
    end = source.latestOffset(planned, ALL)
    (split,) = source.partitions(planned, end)
    assert isinstance(split, LogSplit)
    assert split.stretch.path.startswith(str(directory))
    assert read + rows(source, planned, end) == [("orders", 0, offset) for offset in range(8)]
    strict = stream(tmp_path, subscribe="orders")
    with pytest.raises(NoSuchTopic, match="deleted and created again"):
        strict.partitions(start, planned)


def test_a_topic_of_a_pattern_that_is_gone(tmp_path: Path) -> None:
    (kept,), (gone,) = make_topic(tmp_path, "a", 1, 1), make_topic(tmp_path, "b", 1, 2)
    log_of(kept, 2)
    log_of(gone, 2)
    source = stream(tmp_path, subscribePattern=".")
    start = source.latestOffset(source.initialOffset(), ALL)
    shutil.rmtree(gone.parent)
    with pytest.raises(NoSuchTopic, match="partition 0 of topic 'b' is gone"):
        source.latestOffset(start, ALL)
    # Also by a query that ends at what there is, and by a batch that is planned again.
    ending = stream(tmp_path, subscribePattern=".")
    ending.prepareForTriggerAvailableNow()
    with pytest.raises(NoSuchTopic, match="partition 0 of topic 'b' is gone"):
        ending.latestOffset(start, ALL)
    with pytest.raises(NoSuchTopic, match="partition 0 of topic 'b' is gone"):
        stream(tmp_path, subscribePattern=".").partitions({"a": {"0": 0}, "b": {"0": 0}}, start)
    lenient = stream(tmp_path, subscribePattern=".", failOnDataLoss="false")
    lenient.prepareForTriggerAvailableNow()
    assert lenient.latestOffset(start, ALL)["a"] == {"0": 2}


def test_a_stream_does_not_pass_over_a_transaction_that_may_still_be_committed(tmp_path: Path) -> None:
    with Log.open(str(tmp_path / "t")) as log:
        append(
            log, batch(records(2), producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        )
        source = stream(tmp_path / "t")
        start, end = source.initialOffset(), source.latestOffset(source.initialOffset(), ALL)
        with pytest.raises(OpenTransaction, match="producer 7.*has not ended"):
            rows(source, start, end)
        marker = build_control_batch(
            ControlType.COMMIT, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp_ms=T
        )
        append(log, marker)
        end = source.latestOffset(start, ALL)
        assert rows(source, start, end) == [("t", 0, 0), ("t", 0, 1)]


def test_a_look_costs_only_what_is_new(tmp_path: Path) -> None:
    with Log.open(str(tmp_path / "t")) as log:
        append(log, batch(records(500)))
        source = stream(tmp_path / "t")
        start = source.latestOffset(source.initialOffset(), ALL)
        append(log, batch(records(5, 500)))
        assert source.latestOffset(start, ALL) == {"t": {"0": 505}}
