"""What is held in memory of what the log has: little, however much is inside what it has."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from barbicel.codecs.kafka.compression import Codec
from barbicel.codecs.kafka.new_batch import NewRecord, build_batch
from barbicel.gateway.kestrel import counting, stretches
from barbicel.gateway.kestrel.line_reader import LineReader
from barbicel.gateway.kestrel.stretches import read_stretch
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
