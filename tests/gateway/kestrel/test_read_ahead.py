"""What is held in memory of what the log has: little, however much is inside what it has."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from barbicel.codecs.kafka.compression import Codec
from barbicel.codecs.kafka.new_batch import NewRecord, build_batch
from barbicel.gateway.kestrel import counting, line_reader, stretches
from barbicel.gateway.kestrel.line_reader import LineReader
from barbicel.gateway.kestrel.session import Session
from barbicel.gateway.kestrel.stretches import read_stretch
from barbicel.gateway.kestrel.upkeep import IDLE_MS
from barbicel.kestrel_compat.items import EXPIRY_HEADER, FOR_HEADER
from barbicel.stroma.ranges import RangeSet
from tests.gateway.kafka.in_memory import NOW_MS
from tests.gateway.kestrel.in_memory_queues import InMemoryQueues, in_memory_queues
from tests.support.fault_disk import FaultDisk

SMALL = {"default_journal_size_bytes": 1 << 20}
LARGE = b"x" * 30_000


@pytest.fixture
def queues() -> Iterator[InMemoryQueues]:
    with in_memory_queues(Path("/data"), FaultDisk()) as queues:
        queues.rules(SMALL)
        yield queues


def packed(*values: bytes, codec: Codec = Codec.ZSTD) -> bytes:
    return build_batch([NewRecord(NOW_MS, None, value) for value in values], codec=codec)


def reader_of(queues: InMemoryQueues, name: str) -> LineReader:
    return queues.queues._readers[name]


# --- one queue ------------------------------------------------------------------------------------------


def test_one_look_opens_no_more_than_it_may_hold(queues: InMemoryQueues) -> None:
    queues.get("q")
    queues.rules({**SMALL, "max_memory_size_bytes": 40_000})
    for _ in range(20):
        queues.produce("q", packed(LARGE))
    queues.quiesce()
    assert queues.peek("q") == LARGE
    assert reader_of(queues, "q").line.ahead_bytes <= 40_000 + len(LARGE)
    assert queues.get_all("q") == [LARGE] * 20


def test_counting_opens_one_batch_at_a_time(queues: InMemoryQueues, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "COUNT_BYTES", 1000)
    held: list[int] = []

    def read(*given: Any) -> Any:
        stretch = read_stretch(*given)
        held.append(len(stretch.items))
        return stretch

    monkeypatch.setattr(counting, "read_stretch", read)
    queues.get("q")
    for _ in range(20):
        queues.produce("q", packed(LARGE))
    queues.quiesce()
    reader = reader_of(queues, "q")
    held.clear()
    counted = counting.count_items(
        queues.broker.read_cold, reader.partition, 0, 20, {reader.key.group: RangeSet()}
    )
    assert queues.reactor.result(counted) == {reader.key.group: (20, 20 * len(LARGE))}
    assert held == [1] * 20


def fill_with_all_kinds(queues: InMemoryQueues) -> None:
    """Plain and compressed, for all or for some, expired or not, and some that are passed over."""
    marks = cycle(
        [
            (),
            ((EXPIRY_HEADER, b"%d" % (NOW_MS - 1)),),
            ((FOR_HEADER, b"kestrel+a"),),
            (),
            ((FOR_HEADER, b""),),
        ]
    )
    for number in range(30):
        size = 9000 if number % 7 == 3 else 10 * number
        codec = list(Codec)[number % 5]
        values: list[bytes | None] = [b"%d." % number + b"x" * size, None, b"%d;" % number, b"%d:" % number]
        records = [NewRecord(NOW_MS, None, value, next(marks)) for value in values]
        queues.produce("q", build_batch(records, codec=codec))
        queues.put("q+a" if number % 2 else "q", b"put %d" % number)


@pytest.mark.parametrize("tail_bytes", [0, 1 << 20])
def test_little_at_a_time_gives_what_much_gives(tail_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "MAX_OPENED_BYTES", 5000)
    found: list[Any] = []
    for ahead_bytes in (1, 300, 1 << 20):
        monkeypatch.setattr(counting, "COUNT_BYTES", ahead_bytes)
        with in_memory_queues(Path("/data"), FaultDisk(), tail_partition_bytes=tail_bytes) as queues:
            queues.rules({**SMALL, "max_memory_size_bytes": ahead_bytes})
            queues.get("q")
            queues.get("q+a")
            fill_with_all_kinds(queues)
            counted = [(queues.stats(name).items, queues.stats(name).bytes) for name in ("q", "q+a")]
            opened = [queues.get("q", is_open=True) for _ in range(5)]
            assert queues.abort("q")
            queues.close("q", 2)
            queues.disconnect()
            taken = [queues.get_all("q"), queues.get_all("q+a")]
            expired = [queues.stats(name).expired_items for name in ("q", "q+a")]
            ends = [reader_of(queues, name).line.frontier for name in ("q", "q+a")]
            found.append((counted, opened, taken, expired, ends))
    assert found[0] == found[1] == found[2]
    assert len(found[0][2][0]) > 30


# --- all queues together --------------------------------------------------------------------------------


def fill_some(queues: InMemoryQueues, *, count: int = 4) -> list[str]:
    """Queues with two large items each, of which one batch is more than a queue reads ahead."""
    queues.rules({**SMALL, "max_memory_size_bytes": 1000})
    names = [f"q-{number}" for number in range(count)]
    for name in names:
        queues.get(name)
        queues.produce(name, packed(LARGE, LARGE))
    queues.quiesce()
    return names


def held(queues: InMemoryQueues) -> list[int]:
    return [reader.line.ahead_bytes for reader in queues.queues._readers.values()]


def test_queues_let_go_of_what_others_have_no_room_for(queues: InMemoryQueues) -> None:
    """Those that have read least lately. They read it again when somebody asks."""
    queues.queues.ahead.max_bytes = 5 * len(LARGE)
    names = fill_some(queues)
    for name in names:
        assert queues.peek(name) == LARGE
    assert held(queues) == [0, 0, 2 * len(LARGE), 2 * len(LARGE)]
    assert 4 * len(LARGE) <= queues.queues.ahead.held_bytes <= 5 * len(LARGE)
    assert queues.peek(names[0]) == LARGE
    assert held(queues) == [len(LARGE), 0, 0, 2 * len(LARGE)]
    for name in names:
        assert queues.stats(name).items == 2
        assert queues.get_all(name) == [LARGE, LARGE]
    assert queues.queues.ahead.held_bytes == 0


def test_everybody_is_served_though_there_is_no_room_at_all(queues: InMemoryQueues) -> None:
    queues.queues.ahead.max_bytes = 0
    names = fill_some(queues)
    asked = [queues.ask(name, is_open=True, session=Session()) for name in names for _ in range(2)]
    queues.reactor.until(lambda: all(one.answers for one in asked))
    assert [one.data for one in asked] == [LARGE] * 8


def test_what_comes_back_when_clients_leave_is_not_held(queues: InMemoryQueues) -> None:
    names = fill_some(queues)
    sessions = [Session() for _ in names]
    for name, session in zip(names, sessions, strict=True):
        assert [queues.get(name, is_open=True, session=session) for _ in range(2)] == [LARGE, LARGE]
    assert held(queues) == [0] * 4
    for session in sessions:
        queues.disconnect(session)
    assert held(queues) == [0] * 4
    for name in names:
        assert (queues.stats(name).items, queues.stats(name).bytes) == (2, 2 * len(LARGE))
        assert queues.get_all(name) == [LARGE, LARGE]


def test_a_small_item_that_comes_back_is_there_at_once(queues: InMemoryQueues) -> None:
    queues.put("q", b"small")
    assert queues.get("q", is_open=True) == b"small"
    queues.abort("q")
    assert reader_of(queues, "q").line.ahead_bytes == 5
    assert queues.get("q") == b"small"


def test_what_came_back_and_was_taken_by_retention_is_gone(queues: InMemoryQueues) -> None:
    (name,) = fill_some(queues, count=1)
    assert queues.get(name, is_open=True) == LARGE
    reader = reader_of(queues, name)
    reader.partition.log.roll()
    reader.partition.log.truncate_before(1)
    queues.abort(name)
    assert queues.get_all(name) == [LARGE]
    assert (queues.stats(name).items, reader.line.frontier) == (0, 2)


def test_looking_for_expired_items_reads_nothing_again(
    queues: InMemoryQueues, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is done every second in every queue."""
    queues.queues.ahead.max_bytes = 0
    names = fill_some(queues)
    queues.upkeep._expire_all()
    queues.quiesce()
    with monkeypatch.context() as patched:
        patched.setattr(line_reader, "read_stretch", None)
        for _ in range(3):
            queues.upkeep._expire_all()
            queues.quiesce()
    queues.rules({**SMALL, "max_age_ms": 1000})
    queues.advance(2000)
    for _ in range(2):
        queues.upkeep._expire_all()
        queues.quiesce()
    assert [queues.stats(name).expired_items for name in names] == [2] * 4


def test_a_sweep_of_a_few_goes_on_where_the_head_has_to_be_read_again() -> None:
    """An idle queue lets go of its head every second, between two looks."""
    with in_memory_queues(Path("/data"), FaultDisk(), tail_partition_bytes=0) as queues:
        queues.rules(SMALL, q={"max_expire_sweep": 2})
        for _ in range(6):
            queues.put("q", LARGE, expiry_ms=queues.now_ms + 500)
        queues.advance(2 * IDLE_MS)
        expired = []
        for _ in range(4):
            queues.reactor.result(queues.upkeep._trim_all())
            queues.upkeep._expire_all()
            queues.quiesce()
            expired.append(queues.stats("q").expired_items)
        assert expired == [2, 4, 6, 6]


def test_a_queue_that_is_gone_is_not_counted(queues: InMemoryQueues) -> None:
    (name,) = fill_some(queues, count=1)
    assert queues.peek(name) == LARGE
    assert queues.queues.ahead.held_bytes > 2 * len(LARGE)
    queues.delete(name)
    assert queues.queues.ahead.held_bytes == 0
