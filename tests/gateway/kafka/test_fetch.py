"""Fetch: from memory and from the disk, limits, waiting, and logs with holes in them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.gateway.broker.partition import DamageFound
from barbicel.gateway.kafka.fetch import AHEAD_PARTITIONS_MAX
from barbicel.gateway.kafka.fetch_wanted import Wanted
from tests.cli.support import flip, run
from tests.gateway.kafka.in_memory import DEADLINE_S, Client, Gateway, batch, in_memory_gateway
from tests.gateway.kafka.requests import fetch, offsets_of, only, produce, produced, values_of

VERSIONS = range(4, 19)
BATCH_BYTES = len(batch(b"x" * 1000))


def rows(answer: Any) -> list[Any]:
    return list(only(answer.responses).partitions)


def put(client: Client, *values: bytes, partition: int = 0) -> None:
    """One batch a value."""
    for value in values:
        answer = client.ask(produce(batch(value), partitions=[partition]), 9)
        assert only(produced(answer)).error_code == 0


@pytest.fixture(params=["warm", "cold"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Gateway]:
    """One that has everything in memory, and one that has nothing there."""
    memory: dict[str, Any] = {} if request.param == "warm" else {"tail_partition_bytes": 0}
    with in_memory_gateway(tmp_path / "data", **memory) as gateway:
        yield gateway


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_is_answered(either: Gateway, version: int) -> None:
    topic = either.create(partitions=2)
    client = either.connect()
    put(client, b"a", b"b")
    found, empty = rows(client.ask(fetch(0, 0, topic_id=topic.topic.id), version))
    assert values_of(found) == [b"a", b"b"]
    assert (found.error_code, found.high_watermark, found.last_stable_offset) == (0, 2, 2)
    assert (empty.error_code, empty.high_watermark, empty.records) == (0, 0, b"")


def test_an_offset_inside_of_a_batch_gets_the_whole_batch(either: Gateway) -> None:
    either.create()
    client = either.connect()
    client.ask(produce(batch(b"a", b"b", b"c")), 9)
    put(client, b"d")
    assert offsets_of(only(rows(client.ask(fetch(1), 11)))) == [0, 1, 2, 3]
    assert offsets_of(only(rows(client.ask(fetch(3), 11)))) == [3]


# --- limits ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "count"),
    [(-1, 1), (0, 1), (1, 1), (BATCH_BYTES, 1), (2 * BATCH_BYTES - 1, 1), (2 * BATCH_BYTES, 2)],
)
@pytest.mark.parametrize("which", ["max_bytes", "partition_max_bytes"])
def test_as_many_whole_batches_as_fit_and_one_at_least(
    either: Gateway, which: str, limit: int, count: int
) -> None:
    either.create()
    client = either.connect()
    limits: dict[str, Any] = {which: limit}
    put(client, *[b"x" * 1000] * 3)
    assert len(values_of(only(rows(client.ask(fetch(0, **limits), 11))))) == count


def test_the_limit_of_the_whole_fetch_is_shared_by_its_partitions(either: Gateway) -> None:
    either.create(partitions=3)
    client = either.connect()
    for number in range(3):
        put(client, *[b"x" * 1000] * 4, partition=number)
    counts = [len(values_of(row)) for row in rows(client.ask(fetch(0, 0, 0, max_bytes=6 * BATCH_BYTES), 11))]
    assert counts[0] == 4
    assert sum(counts) <= 6
    large = 4 * BATCH_BYTES
    per_partition = fetch(0, 0, 0, max_bytes=large, partition_max_bytes=2 * BATCH_BYTES)
    assert [len(values_of(row)) for row in rows(client.ask(per_partition, 11))] == [2, 2, 0]


def test_cold_and_warm_partitions_together_keep_the_limit(gateway: Gateway) -> None:
    topic = gateway.create(partitions=4)
    client = gateway.connect()
    for number in range(4):
        put(client, *[b"x" * 1000] * 4, partition=number)
    for number in (0, 2):
        topic.partitions[number].retire()
    limit = 9 * BATCH_BYTES
    answer = rows(client.ask(fetch(0, 0, 0, 0, max_bytes=limit, partition_max_bytes=4 * BATCH_BYTES), 11))
    assert sum(len(row.records) for row in answer) <= limit
    # What has to come from the disk goes first.
    assert [len(values_of(row)) for row in answer] == [4, 1, 4, 0]


def test_a_partition_that_leaves_memory_during_a_read_from_the_disk_keeps_nobody_waiting(
    gateway: Gateway,
) -> None:
    topic = gateway.create(partitions=4)
    client = gateway.connect()
    for number in range(4):
        put(client, b"a", partition=number)
    topic.partitions[0].retire()
    client.send(fetch(0, 0, 0, 0), 11)
    topic.partitions[1].retire()
    found = [values_of(row) for row in rows(client.answer())]
    assert found[0] == [b"a"]
    assert all(values in ([], [b"a"]) for values in found)


def test_a_partition_named_twice_is_answered_once_from_the_last_offset(either: Gateway) -> None:
    either.create(partitions=2)
    client = either.connect()
    put(client, b"a", b"b")
    put(client, b"c", partition=1)
    first, second = rows(client.ask(fetch(0, 0, 1, partitions=[0, 1, 0]), 11))
    assert (first.partition_index, values_of(first)) == (0, [b"b"])
    assert (second.partition_index, values_of(second)) == (1, [b"c"])


def test_the_servers_own_limit_holds(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data", fetch_max_bytes=2 * BATCH_BYTES) as gateway:
        gateway.create()
        client = gateway.connect()
        put(client, *[b"x" * 1000] * 4)
        assert len(values_of(only(rows(client.ask(fetch(0), 11))))) == 2


# --- refusals -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "version", "code"),
    [
        (fetch(0, topic="unknown"), 11, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (fetch(0, partitions=[1]), 11, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (fetch(0, topic_id=UUID(int=9)), 13, ErrorCode.UNKNOWN_TOPIC_ID),
        (fetch(2), 11, ErrorCode.OFFSET_OUT_OF_RANGE),
        (fetch(-1), 11, ErrorCode.OFFSET_OUT_OF_RANGE),
        (fetch(2**63 - 1), 11, ErrorCode.OFFSET_OUT_OF_RANGE),
        (fetch(0, current_leader_epoch=1), 11, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_partition_is_refused_with_kafkas_code_at_once(
    gateway: Gateway, request_: Any, version: int, code: ErrorCode
) -> None:
    gateway.create()
    client = gateway.connect()
    put(client, b"a")
    request_.max_wait_ms = 60_000
    request_.min_bytes = 10**6
    row = only(rows(client.ask(request_, version)))
    assert (row.error_code, row.records) == (code, b"")


@pytest.mark.parametrize("memory", [{}, {"tail_partition_bytes": 0}])
def test_one_that_is_refused_from_the_start_ends_no_wait_for_the_others(
    tmp_path: Path, memory: dict[str, Any]
) -> None:
    with in_memory_gateway(tmp_path / "data", **memory) as gateway:
        gateway.create()
        waiting, client = gateway.connect(port=1), gateway.connect(port=2)
        waiting.send(fetch(0, 0, partitions=[0, 5], max_wait_ms=60_000), 11)
        assert not waiting.has_answer
        put(client, b"a")
        found, unknown = rows(waiting.answer())
        assert (found.error_code, values_of(found)) == (0, [b"a"])
        assert (unknown.error_code, unknown.records) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, b"")
        waiting.send(fetch(1, 0, partitions=[0, 5], max_wait_ms=500), 11)
        gateway.reactor.advance(0.4)
        assert not waiting.has_answer
        gateway.reactor.advance(0.2)
        errors = [row.error_code for row in rows(waiting.answer())]
        assert errors == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_an_error_of_one_that_is_there_ends_the_wait_for_the_others(gateway: Gateway) -> None:
    gateway.create(partitions=2)
    client = gateway.connect()
    answer = client.ask(fetch(0, 9, 0, partitions=[0, 1, 5], max_wait_ms=60_000), 11)
    errors = [row.error_code for row in rows(answer)]
    assert errors == [0, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"replica_id": 1}, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        ({"session_id": 5, "session_epoch": 1}, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        ({"session_epoch": 1}, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
    ],
)
def test_a_fetch_is_refused_as_a_whole(gateway: Gateway, more: dict[str, Any], code: ErrorCode) -> None:
    gateway.create()
    answer = gateway.connect().ask(fetch(0, **more), 11)
    assert (answer.error_code, answer.responses) == (code, [])


@pytest.mark.parametrize("session", [(0, 0), (0, -1), (5, 0), (5, -1)])
def test_a_full_fetch_is_served_without_a_session(gateway: Gateway, session: tuple[int, int]) -> None:
    gateway.create()
    answer = gateway.connect().ask(fetch(0, session_id=session[0], session_epoch=session[1]), 11)
    assert (answer.error_code, answer.session_id) == (0, 0)
    assert only(rows(answer)).error_code == 0


# --- waiting --------------------------------------------------------------------------------------------


def test_a_waiting_fetch_is_woken_by_the_append(gateway: Gateway) -> None:
    gateway.create(partitions=2)
    waiting, client = gateway.connect(port=1), gateway.connect(port=2)
    waiting.send(fetch(0, 0, max_wait_ms=60_000), 11)
    assert not waiting.has_answer
    put(client, b"a", partition=1)
    assert [values_of(row) for row in rows(waiting.answer())] == [[], [b"a"]]
    assert all(call.getTime() > 60 for call in gateway.reactor.getDelayedCalls())


def test_it_waits_until_there_is_enough(gateway: Gateway) -> None:
    gateway.create()
    waiting, client = gateway.connect(port=1), gateway.connect(port=2)
    waiting.send(fetch(0, max_wait_ms=60_000, min_bytes=2 * BATCH_BYTES), 11)
    put(client, b"x" * 1000)
    assert not waiting.has_answer
    put(client, b"x" * 1000)
    assert len(values_of(only(rows(waiting.answer())))) == 2


@pytest.mark.parametrize(
    "limits",
    [
        {"min_bytes": 9 * BATCH_BYTES, "max_bytes": 2 * BATCH_BYTES},
        {"min_bytes": 3 * BATCH_BYTES - 1, "max_bytes": 3 * BATCH_BYTES - 1},
        {"min_bytes": 3 * BATCH_BYTES - 1, "partition_max_bytes": 3 * BATCH_BYTES - 1},
        {"min_bytes": BATCH_BYTES, "partition_max_bytes": 1},
    ],
)
def test_it_does_not_wait_when_enough_is_there_that_does_not_fit(
    gateway: Gateway, limits: dict[str, Any]
) -> None:
    """Kafka would fill up the answer with a part of a batch."""
    gateway.create()
    client = gateway.connect()
    put(client, *[b"x" * 1000] * 4)
    client.send(fetch(0, max_wait_ms=60_000, **limits), 11)
    assert client.has_answer
    assert values_of(only(rows(client.answer())))


def test_what_two_partitions_have_is_enough_together(gateway: Gateway) -> None:
    gateway.create(partitions=2)
    waiting, client = gateway.connect(port=1), gateway.connect(port=2)
    waiting.send(fetch(0, 0, max_wait_ms=60_000, min_bytes=3 * BATCH_BYTES), 11)
    put(client, b"x" * 1000)
    put(client, b"x" * 1000, partition=1)
    assert not waiting.has_answer
    put(client, b"x" * 1000)
    assert [len(values_of(row)) for row in rows(waiting.answer())] == [2, 1]


def test_an_append_costs_a_waiting_fetch_a_look_at_one_partition_and_reads_nothing(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = gateway.create(partitions=20)
    waiting, client = gateway.connect(port=1), gateway.connect(port=2)
    numbers = [*range(20)] * 3
    offsets = [0] * len(numbers)
    waiting.send(fetch(*offsets, partitions=numbers, max_wait_ms=60_000, min_bytes=10**6), 11)
    assert [len(partition.waiters) for partition in topic.partitions] == [1] * 20
    counted: list[Wanted] = []
    count = Wanted.count

    def counted_count(wanted: Wanted) -> int:
        counted.append(wanted)
        return count(wanted)

    monkeypatch.setattr(Wanted, "count", counted_count)
    with monkeypatch.context() as patch:
        patch.setattr("barbicel.gateway.broker.tail.Tail._spans", lambda *a, **k: 1 // 0)
        put(client, *[b"x" * 1000] * 5, partition=7)
    assert len(counted) == 5
    gateway.reactor.advance(60)
    assert [len(values_of(row)) for row in rows(waiting.answer())] == [0] * 7 + [5] + [0] * 12
    assert not any(partition.waiters for partition in topic.partitions)


@pytest.mark.parametrize("memory", [{}, {"tail_partition_bytes": 0}])
def test_it_is_answered_with_what_there_is_when_its_time_is_over(
    tmp_path: Path, memory: dict[str, Any]
) -> None:
    with in_memory_gateway(tmp_path / "data", **memory) as gateway:
        gateway.create()
        waiting = gateway.connect(port=1)
        waiting.send(fetch(0, max_wait_ms=500, min_bytes=10**6), 11)
        gateway.reactor.advance(0.4)
        assert not waiting.has_answer
        gateway.reactor.advance(0.2)
        assert values_of(only(rows(waiting.answer()))) == []
        assert not gateway.broker.topics.by_name("t").partitions[0].waiters  # type: ignore[union-attr]


def test_a_fetch_of_nothing_waits_for_nothing(gateway: Gateway) -> None:
    """Java ends its session with one when a consumer is closed, and waits for the answer."""
    client = gateway.connect()
    client.send(fetch(max_wait_ms=500), 11)
    assert client.has_answer
    assert client.answer().responses == []


@pytest.mark.parametrize(
    ("version", "code"),
    [(11, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (13, ErrorCode.UNKNOWN_TOPIC_ID)],
)
def test_a_wait_on_a_topic_that_is_deleted_ends_at_once(
    gateway: Gateway, version: int, code: ErrorCode
) -> None:
    topic = gateway.create()
    client = gateway.connect()
    client.send(fetch(0, max_wait_ms=60_000, topic_id=topic.topic.id), version)
    deleting = gateway.broker.topics.delete("t")
    assert client.has_answer
    assert only(rows(client.answer())).error_code == code
    gateway.reactor.result(deleting)


def test_a_topic_that_is_deleted_while_the_disk_is_read_is_an_error_and_no_more(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data", tail_partition_bytes=0) as gateway:
        topic = gateway.create()
        client = gateway.connect()
        put(client, b"a")
        topic.partitions[0].log.close()
        row = only(rows(client.ask(fetch(0), 11)))
        assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_error_while_it_waits_is_told(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway.create()
    waiting, client = gateway.connect(port=1), gateway.connect(port=2)
    waiting.send(fetch(0, max_wait_ms=60_000), 11)
    monkeypatch.setattr("barbicel.gateway.broker.tail.Tail.read", lambda *a, **k: 1 // 0)
    put(client, b"a")
    assert waiting.is_closed


# --- reading ahead --------------------------------------------------------------------------------------


LARGE = b"x" * 40_000
LARGE_BYTES = len(batch(LARGE))


def take_two(client: Client, offset: int) -> Any:
    """Two batches at the most; what the server does once it has answered is begun."""
    row = only(rows(client.ask(fetch(offset, partition_max_bytes=2 * LARGE_BYTES), 11)))
    client.gateway.reactor.advance(0)
    return row


def test_the_disk_is_read_once_for_each_stretch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with in_memory_gateway(tmp_path / "data", tail_partition_bytes=0) as gateway:
        partition = gateway.create().partitions[0]
        client = gateway.connect()
        put(client, *[LARGE] * 12)
        asked: list[int] = []
        read = partition.stored.read

        def noted(offset: int, *arguments: Any, **named: Any) -> list[memoryview]:
            asked.append(offset)
            return read(offset, *arguments, **named)

        monkeypatch.setattr(partition.stored, "read", noted)
        for offset in range(0, 12, 2):
            assert offsets_of(take_two(client, offset)) == [offset, offset + 1]
        # Those that were read ahead were for two fetches each.
        assert asked == [0, 2, 4, 8]
        assert partition.fetched_bytes == 12 * LARGE_BYTES


def test_what_is_in_memory_already_is_answered_at_once(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data", tail_partition_bytes=0) as gateway:
        partition = gateway.create().partitions[0]
        client = gateway.connect()
        put(client, *[LARGE] * 12)
        for offset in (0, 2):
            take_two(client, offset)
            assert not client.has_answer
        gateway.reactor.until(lambda: not gateway.broker.ahead.is_coming(partition, 4))
        client.send(fetch(4, partition_max_bytes=2 * LARGE_BYTES), 11)
        # No thread was asked.
        assert client.has_answer
        assert offsets_of(only(rows(client.answer()))) == [4, 5]


def test_what_was_read_ahead_and_is_deleted_is_not_handed_out(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data", tail_partition_bytes=0) as gateway:
        partition = gateway.create(**SEGMENTS).partitions[0]
        client = gateway.connect()
        for _ in range(9):
            put(client, LARGE)
            partition.log.roll()
        for offset in (0, 2):
            take_two(client, offset)
        gateway.reactor.until(lambda: not gateway.broker.ahead.is_coming(partition, 4))
        assert gateway.broker.ahead.held_bytes
        partition.log.truncate_before(6)
        assert take_two(client, 4).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_damage_in_what_is_read_ahead_is_told_to_whoever_comes_to_it(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data", tail_partition_bytes=0) as gateway:
        partition = gateway.create(**SEGMENTS).partitions[0]
        client = gateway.connect()
        for _ in range(9):
            put(client, LARGE)
            partition.log.roll()
        (path,) = (tmp_path / "data").glob("topics/*/0/segments/*0004.log")
        flip(path, 500)
        for offset in (0, 2):
            take_two(client, offset)
        assert take_two(client, 4).error_code == ErrorCode.CORRUPT_MESSAGE
        assert partition.damage_found == DamageFound(log=1)


def test_what_is_on_its_way_is_for_the_next_answer_if_there_is_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with in_memory_gateway(tmp_path / "data", tail_partition_bytes=0) as gateway:
        first, second = gateway.create(partitions=2).partitions
        client = gateway.connect()
        for number in (0, 1):
            put(client, *[LARGE] * 12, partition=number)

        def ask(*offsets: int) -> list[list[int]]:
            answer = client.ask(fetch(*offsets, partition_max_bytes=2 * LARGE_BYTES), 11)
            gateway.reactor.advance(0)
            return [offsets_of(row) for row in rows(answer)]

        may_end = threading.Event()
        read = second.stored.read

        def slowly(offset: int, *arguments: Any, **named: Any) -> list[memoryview]:
            if offset == 4:
                assert may_end.wait(DEADLINE_S)
            return read(offset, *arguments, **named)

        monkeypatch.setattr(second.stored, "read", slowly)
        ahead = gateway.broker.ahead
        assert ask(0, 0) == [[0, 1], [0, 1]]
        assert ask(2, 2) == [[2, 3], [2, 3]]
        gateway.reactor.until(lambda: not ahead.is_coming(first, 4))
        assert ask(4, 4) == [[4, 5], []]
        assert ahead.is_coming(second, 4)
        may_end.set()
        gateway.reactor.until(lambda: not ahead.is_coming(second, 4))
        assert ask(6, 4)[1] == [4, 5]


def test_many_partitions_are_read_together_and_not_ahead(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data", tail_partition_bytes=0) as gateway:
        count = AHEAD_PARTITIONS_MAX + 1
        gateway.create(partitions=count)
        client = gateway.connect()
        for number in range(count):
            put(client, *[LARGE] * 4, partition=number)
        for offset in (0, 1, 2):
            answer = client.ask(fetch(*[offset] * count, partition_max_bytes=2 * LARGE_BYTES), 11)
            assert all(offsets_of(row)[0] == offset for row in rows(answer))
            gateway.reactor.advance(0)
            assert gateway.broker.ahead.held_bytes == 0


# --- segments, retention, damage ------------------------------------------------------------------------

SEGMENTS: dict[str, Any] = {"segment_bytes": str(1 << 20)}


def test_reading_goes_on_across_segments_while_retention_takes_them(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data", tail_partition_bytes=0) as gateway:
        topic = gateway.create(**SEGMENTS)
        log = topic.partitions[0].log
        client = gateway.connect()
        for number in range(6):
            put(client, b"%d" % number)
            log.roll()
        assert values_of(only(rows(client.ask(fetch(0), 11)))) == [b"%d" % number for number in range(6)]
        log.truncate_before(3)
        assert only(rows(client.ask(fetch(0), 11))).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        row = only(rows(client.ask(fetch(3), 11)))
        assert (row.log_start_offset, values_of(row)) == (3, [b"3", b"4", b"5"])


def damaged(tmp_path: Path, *, at_end: bool = False) -> Path:
    """A partition of five sealed batches, the third (or the last two) unreadable; its directory."""
    with in_memory_gateway(tmp_path / "data") as gateway:
        topic = gateway.create()
        client = gateway.connect()
        put(client, *[b"value %d" % number for number in range(5)])
        topic.partitions[0].log.roll()
        directory = Path(topic.partitions[0].log.path)
    segment = directory / "segments" / f"{0:020d}.log"
    data = segment.read_bytes()
    for number in (3, 4) if at_end else (2,):
        flip(segment, data.index(b"value %d" % number))
    return directory


def test_damage_is_an_error_that_consumers_see_and_what_is_before_and_behind_is_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    damaged(tmp_path)
    with in_memory_gateway(tmp_path / "data") as gateway:
        client = gateway.connect()
        assert values_of(only(rows(client.ask(fetch(0), 11)))) == [b"value 0", b"value 1"]
        caplog.clear()
        for _ in range(2):
            assert only(rows(client.ask(fetch(2), 11))).error_code == ErrorCode.CORRUPT_MESSAGE
        assert "offset 2 cannot be read" in only(caplog.messages)
        topic = gateway.broker.topics.by_name("t")
        assert topic is not None
        # Counted once, however often it is asked for.
        assert topic.partitions[0].damage_found == DamageFound(log=1)
        assert values_of(only(rows(client.ask(fetch(3), 11)))) == [b"value 3", b"value 4"]


def test_offsets_that_a_repair_gave_up_are_passed_over(tmp_path: Path) -> None:
    assert run("log", "repair", damaged(tmp_path), "--apply").exit_code != 70
    with in_memory_gateway(tmp_path / "data") as gateway:
        client = gateway.connect()
        assert offsets_of(only(rows(client.ask(fetch(0), 11)))) == [0, 1, 3, 4]
        assert offsets_of(only(rows(client.ask(fetch(2), 11)))) == [3, 4]


def test_a_consumer_behind_which_all_was_given_up_waits_and_goes_on(tmp_path: Path) -> None:
    assert run("log", "repair", damaged(tmp_path, at_end=True), "--apply").exit_code != 70
    with in_memory_gateway(tmp_path / "data") as gateway:
        waiting, client = gateway.connect(port=1), gateway.connect(port=2)
        waiting.send(fetch(3, max_wait_ms=500), 11)
        partition = only(gateway.broker.topics).partitions[0]
        gateway.reactor.until(lambda: partition.waiters)
        assert not waiting.has_answer
        gateway.reactor.advance(0.6)
        assert values_of(only(rows(waiting.answer()))) == []
        waiting.send(fetch(3, max_wait_ms=500), 11)
        gateway.reactor.until(lambda: partition.waiters)
        put(client, b"new")
        row = only(rows(waiting.answer()))
        assert (values_of(row), offsets_of(row)) == ([b"new"], [5])
        assert values_of(only(rows(client.ask(fetch(4), 11)))) == [b"new"]


def test_a_client_that_has_taken_little_waits_for_what_it_wants_and_is_answered_with_little(
    gateway: Gateway,
) -> None:
    gateway.create()
    producer, client = gateway.connect(port=2), gateway.connect()
    client.send(fetch(0, min_bytes=2_000_000, max_wait_ms=60_000), 11)
    for _ in range(2):
        producer.ask(produce(batch(b"x" * 700_000)), 9)
    assert not client.has_answer
    producer.ask(produce(batch(b"x" * 700_000)), 9)
    found = only(rows(client.answer()))
    assert 700_000 < len(found.records) < 1 << 20
