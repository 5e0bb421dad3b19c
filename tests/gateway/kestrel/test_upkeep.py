"""What happens to queues by themselves."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from barbicel.gateway.broker.consumption import Position
from barbicel.gateway.kestrel.upkeep import IDLE_MS
from tests.gateway.kafka.in_memory import batch
from tests.gateway.kestrel.in_memory_queues import InMemoryQueues, in_memory_queues
from tests.support.fault_disk import Call, Fate, FaultDisk

DATA = Path("/data")
SMALL = {"default_journal_size_bytes": 1 << 20}
OLD_MS = 10_000


@pytest.fixture
def disk() -> FaultDisk:
    return FaultDisk()


@pytest.fixture
def queues(disk: FaultDisk) -> Iterator[InMemoryQueues]:
    with in_memory_queues(DATA, disk) as queues:
        queues.rules(SMALL)
        yield queues


def sweep(queues: InMemoryQueues) -> None:
    queues.upkeep._expire_all()
    queues.quiesce()


def trim(queues: InMemoryQueues) -> None:
    queues.reactor.result(queues.upkeep._trim_all())


def log_of(queues: InMemoryQueues, topic: str) -> Any:
    partition = queues.broker.topics.partition(topic, 0)
    assert partition is not None
    return partition.log


# --- expiring -------------------------------------------------------------------------------------------


def test_rounds_are_as_frequent_as_the_setting_says(queues: InMemoryQueues) -> None:
    queues.put("q", b"a", expiry_ms=queues.now_ms + 500)
    queues.upkeep.start()
    queues.advance(999)
    assert queues.stats("q").expired_items == 0
    queues.advance(1)
    assert queues.stats("q").expired_items == 1
    queues.upkeep.stop()
    queues.put("q", b"b", expiry_ms=queues.now_ms + 500)
    queues.advance(60_000)
    assert queues.stats("q").expired_items == 1


def test_the_setting_may_turn_them_off(disk: FaultDisk) -> None:
    with in_memory_queues(DATA, disk, kestrel_expiration_timer_frequency_ms=0) as queues:
        queues.put("q", b"a", expiry_ms=queues.now_ms + 500)
        queues.upkeep.start()
        queues.advance(10_000)
        assert queues.stats("q").items == 1
        assert queues.get("q") is None
        queues.upkeep.stop()


def test_a_round_expires_no_more_than_is_allowed(queues: InMemoryQueues) -> None:
    queues.rules(SMALL, q={"max_expire_sweep": 2})
    for _ in range(5):
        queues.put("q", b"a", expiry_ms=queues.now_ms + 500)
    queues.put("q", b"good")
    queues.advance(1000)
    found = []
    for _ in range(4):
        sweep(queues)
        found.append(queues.stats("q").items)
    assert found == [4, 2, 1, 1]


def test_a_round_expires_what_is_on_the_disk_too(disk: FaultDisk) -> None:
    with in_memory_queues(DATA, disk, background_threads=1, tail_partition_bytes=0) as queues:
        for _ in range(40):
            queues.put("q", b"x" * 100_000, expiry_ms=queues.now_ms + 500)
        queues.advance(1000)
        sweep(queues)
        queues.reactor.until(lambda: queues.stats("q").expired_items == 40)
        assert queues.stats("q").items == 0


def test_what_stands_behind_a_good_item_waits_for_its_turn(queues: InMemoryQueues) -> None:
    queues.put("q", b"good")
    queues.put("q", b"old", expiry_ms=queues.now_ms + 500)
    queues.advance(1000)
    sweep(queues)
    assert queues.stats("q").items == 2
    assert queues.get_all("q") == [b"good"]


# --- old queues -----------------------------------------------------------------------------------------


def age(queues: InMemoryQueues) -> None:
    queues.rules({**SMALL, "max_queue_age_ms": OLD_MS})
    queues.advance(OLD_MS + 1)


def test_an_old_queue_that_is_empty_goes(queues: InMemoryQueues) -> None:
    queues.get("q")
    queues.rules({**SMALL, "max_queue_age_ms": OLD_MS})
    queues.advance(OLD_MS)
    sweep(queues)
    assert queues.queues.names() == ["q"]
    queues.advance(1)
    sweep(queues)
    assert queues.queues.names() == []
    assert queues.queues.counters.queue_expires == 1
    assert queues.broker.topics.by_name("q") is None


def fill(queues: InMemoryQueues) -> None:
    queues.put("q", b"a")


def open_one(queues: InMemoryQueues) -> None:
    queues.put("q", b"a")
    queues.get("q", is_open=True)


def wait(queues: InMemoryQueues) -> None:
    queues.ask("q", timeout_ms=1_000_000)


def produce(queues: InMemoryQueues) -> None:
    queues.produce("q", batch(b"a"))


def put_without_waiting(queues: InMemoryQueues) -> None:
    queues.queues.put("q", b"a", 0, None, lambda _: None)


@pytest.mark.parametrize("use", [fill, open_one, wait, produce, put_without_waiting])
def test_one_that_is_used_stays(queues: InMemoryQueues, use: Callable[[InMemoryQueues], None]) -> None:
    queues.get("q")
    age(queues)
    use(queues)
    sweep(queues)
    assert queues.queues.names() == ["q"]
    assert queues.queues.counters.queue_expires == 0


def test_one_whose_items_are_not_counted_yet_stays(disk: FaultDisk) -> None:
    """After a start nobody knows how many there are until all of them were looked at."""
    with in_memory_queues(DATA, disk) as queues:
        queues.put("q", b"a")
    with in_memory_queues(DATA, disk) as queues:
        queues.queues.open_all()
        queues.reactor.until(lambda: queues.queues.by_master("q") is not None)
        age(queues)
        queues.upkeep._expire_all()
        queues.quiesce()
        assert queues.get_all("q") == [b"a"]


def test_one_whose_items_are_on_their_way_elsewhere_stays(disk: FaultDisk, queues: InMemoryQueues) -> None:
    """It holds the only copy until they are stored there."""
    queues.put("q", b"a")
    queues.rules({**SMALL, "max_queue_age_ms": OLD_MS}, q={"max_age_ms": 1000, "expire_to_queue": "late"})
    queues.advance(OLD_MS + 1)
    disk.fail("create", errno.ENOSPC, path_contains="/late", times=100)
    sweep(queues)
    sweep(queues)
    assert queues.queues.names() == ["q"]


def test_a_topic_that_kafka_made_is_not_deleted_again_and_again(queues: InMemoryQueues) -> None:
    queues.reactor.result(queues.broker.topics.create("k", 1, {}))
    queues.get("k")
    queues.get("k+a")
    age(queues)
    sweep(queues)
    sweep(queues)
    assert queues.queues.names() == ["k"]
    assert queues.queues.counters.queue_expires == 1


# --- giving back ----------------------------------------------------------------------------------------


def test_segments_wait_for_kafkas_consumers_too(queues: InMemoryQueues) -> None:
    for number in range(4):
        queues.put("q", b"%d" % number)
        log_of(queues, "q").roll()
    queues.get_all("q")
    queues.reactor.result(queues.broker.offsets.commit("kafka", [Position(("q", 0), 2, None, None)]))
    trim(queues)
    assert log_of(queues, "q").start_offset == 2
    queues.reactor.result(queues.broker.offsets.commit("kafka", [Position(("q", 0), 4, None, None)]))
    trim(queues)
    assert log_of(queues, "q").start_offset == 4


def test_an_open_read_holds_its_segment(queues: InMemoryQueues) -> None:
    for number in range(4):
        queues.put("q", b"%d" % number)
        log_of(queues, "q").roll()
    queues.get("q")
    queues.get("q", is_open=True)
    queues.get_all("q")
    trim(queues)
    assert log_of(queues, "q").start_offset == 1
    queues.disconnect()
    assert queues.get_all("q") == [b"1"]
    trim(queues)
    assert log_of(queues, "q").start_offset == 4


def test_topics_that_kafka_made_keep_what_kafkas_retention_keeps(queues: InMemoryQueues) -> None:
    queues.reactor.result(queues.broker.topics.create("k", 1, {}))
    queues.produce("k", batch(b"a"))
    log_of(queues, "k").roll()
    queues.get_all("k")
    trim(queues)
    assert log_of(queues, "k").start_offset == 0


def test_a_fanout_that_nobody_reads_keeps_nothing(queues: InMemoryQueues) -> None:
    queues.rules(SMALL, q={"fanout_only": True})
    for _ in range(3):
        assert queues.put("q", b"a")
    log_of(queues, "q").roll()
    trim(queues)
    assert log_of(queues, "q").start_offset == 3


def test_one_queue_that_cannot_be_trimmed_does_not_keep_the_others(
    disk: FaultDisk, queues: InMemoryQueues, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b"):
        queues.put(name, b"x")
        log_of(queues, name).roll()
        queues.get_all(name)
    disk.fail("rename", errno.EIO, path_contains="/topics/a-")
    with caplog.at_level(logging.WARNING):
        trim(queues)
    assert "storage of a could not be given back" in caplog.text
    assert log_of(queues, "b").start_offset == 1


def test_a_queue_that_goes_meanwhile_is_no_error(
    queues: InMemoryQueues, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b"):
        queues.put(name, b"x")
        log_of(queues, name).roll()
        queues.get_all(name)
    trimming = queues.upkeep._trim_all()
    queues.delete("a")
    queues.delete("b")
    queues.reactor.result(trimming)
    assert queues.queues.names() == []
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_what_was_read_ahead_is_forgotten_when_nobody_asks(queues: InMemoryQueues) -> None:
    for number in range(5):
        queues.put("q", b"%d" % number)
    assert queues.get("q") == b"0"
    queues.get("q", is_open=True)
    assert queues.stats("q").mem_items == 3
    queues.advance(IDLE_MS + 1)
    trim(queues)
    assert (queues.stats("q").mem_items, queues.stats("q").items) == (0, 3)
    queues.disconnect()
    assert queues.get_all("q") == [b"1", b"2", b"3", b"4"]


def test_what_retention_takes_is_not_counted_for_ever(disk: FaultDisk) -> None:
    """Or a queue that is full by its count alone would refuse everything."""
    with in_memory_queues(DATA, disk, tail_partition_bytes=0) as queues:
        queues.reactor.result(queues.broker.topics.create("k", 1, {}))
        queues.produce("k", batch(b"a", b"b", b"c"))
        queues.rules(SMALL, k={"max_items": 3})
        assert queues.get("k") == b"a"
        assert queues.stats("k").items == 2
        queues.advance(IDLE_MS + 1)
        trim(queues)
        log_of(queues, "k").truncate_before(3)
        assert [queues.get("k"), queues.get("k")] == [None, None]
        assert (queues.stats("k").items, queues.stats("k").bytes) == (0, 0)
        assert [queues.put("k", b"%d" % number) for number in range(4)] == [True, True, True, False]


def test_what_retention_takes_of_a_queue_that_was_read_out_of_order(disk: FaultDisk) -> None:
    """A frontier never goes back, whatever lies between it and the log's new start."""
    with in_memory_queues(DATA, disk) as queues:
        queues.reactor.result(queues.broker.topics.create("k", 1, {}))
        queues.produce("k", batch(*[b"%d" % number for number in range(8)]))
        assert queues.get("k", is_open=True) == b"0"
        assert [queues.get("k") for _ in range(2)] == [b"1", b"2"]
        assert queues.get("k", is_open=True) == b"3"
        assert queues.get("k") == b"4"
        log_of(queues, "k").truncate_before(6)
    with in_memory_queues(DATA, disk) as queues:
        assert queues.get("k") == b"6"
        assert queues.get("k") == b"7"
        queue = queues.queues.by_master("k")
        assert queue is not None
        reader = queue.readers["kestrel"]
        assert (reader.line.frontier, list(reader.line.acked)) == (8, [])
        assert queues.reactor.result(queues.queues.groups.lowest_frontier(("k", 0))) == 8


def test_a_queue_that_nobody_asks_is_not_read_again_and_again(disk: FaultDisk) -> None:
    """Each second there is a look for expired items."""
    with in_memory_queues(DATA, disk, tail_partition_bytes=0) as queues:
        for number in range(5):
            queues.put("q", b"%d" % number)
        assert queues.get("q") == b"0"
        queues.advance(IDLE_MS + 1)
        trim(queues)
        reads: list[Call] = []
        disk.observe_reads, disk.observer = True, reads.append
        for _ in range(5):
            sweep(queues)
            trim(queues)
        assert [call for call in reads if "/topics/" in call.path] == []
        disk.observer = None
        assert queues.get_all("q") == [b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("fate", list(Fate))
def test_nothing_that_is_unread_is_given_back_in_a_crash(disk: FaultDisk, fate: Fate) -> None:
    """The groups' positions are older after a power cut than the storage that they have given back."""
    with in_memory_queues(DATA, disk, durability="fsync") as queues:
        queues.rules(SMALL)
        queues.get("q+a")
        for number in range(6):
            queues.put("q", b"%d" % number)
            log_of(queues, "q").roll()
        assert [queues.get("q") for _ in range(4)] == [b"0", b"1", b"2", b"3"]
        assert [queues.get("q+a") for _ in range(2)] == [b"0", b"1"]
        trim(queues)
        after = disk.crash(fate, Random(1))
    with in_memory_queues(DATA, after) as queues:
        assert queues.get_all("q")[-2:] == [b"4", b"5"]
        assert queues.get_all("q+a")[-4:] == [b"2", b"3", b"4", b"5"]
        assert queues.stats("q").items == queues.stats("q+a").items == 0
