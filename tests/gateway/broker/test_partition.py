"""A partition: when its end moves, who is told, and what memory it takes."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from twisted.internet.defer import Deferred

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.new_batch import NewRecord, build_batch
from barbicel.codecs.kafka.produced_batch import check_batch
from barbicel.codecs.kafka.record_batch import Batch
from barbicel.errors import LogStopped
from barbicel.gateway.broker.partition import Partition, Produced
from barbicel.keratin import Appended, Log
from barbicel.keratin import NewRecord as LogRecord
from tests.gateway.kafka.in_memory import NOW_MS, Gateway, batch, in_memory_gateway
from tests.gateway.kafka.requests import produce
from tests.keratin.builders import wait_until
from tests.support.fault_disk import FaultDisk


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with in_memory_gateway(tmp_path / "data") as gateway:
        yield gateway


@pytest.fixture
def partition(gateway: Gateway) -> Partition:
    return gateway.create().partitions[0]


class Failing:
    """Where no append succeeds."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __call__(self, log: Log, record: LogRecord, done: Callable[[Appended | Exception], None]) -> None:
        done(self._error)

    def work_long(self, function: Callable[[], Batch], /) -> Deferred[Batch]:
        raise AssertionError("nothing is to be opened")


def test_the_end_moves_when_the_writer_has_answered(gateway: Gateway, partition: Partition) -> None:
    done: list[Produced] = []
    data = memoryview(bytearray(batch(b"a", b"b")))
    partition.produce(check_batch(data, 1000), gateway.broker.append, done.append)
    assert (partition.end_offset, done) == (0, [])
    gateway.reactor.until(lambda: done)
    assert (partition.end_offset, done) == (2, [Produced(ErrorCode.NONE, 0)])
    assert partition.is_in_tail(0)


def test_an_error_that_is_not_ours_is_logged_with_its_traceback(
    partition: Partition, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[Produced] = []
    data = memoryview(bytearray(batch(b"a")))
    partition.produce(check_batch(data, 1000), Failing(ZeroDivisionError("x")), done.append)
    assert [row.error_code for row in done] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert caplog.records[0].exc_info is not None


def test_a_log_that_takes_no_writes_is_told_once(
    partition: Partition, caplog: pytest.LogCaptureFixture
) -> None:
    data = memoryview(bytearray(batch(b"a")))
    for _ in range(3):
        partition.produce(check_batch(data, 1000), Failing(LogStopped("full")), lambda _: None)
    assert len(caplog.records) == 1
    assert "t-0 takes no writes: full; restart the server" in caplog.text


def test_a_producers_next_batches_fail_with_the_one_that_found_no_room_and_it_goes_on() -> None:
    disk = FaultDisk()
    with in_memory_gateway("/data", disk) as gateway:
        partition = gateway.create().partitions[0]
        disk.fail("write", errno.ENOSPC, path_contains=".log")
        refused: list[Produced] = []
        for sequence in (0, 1):
            batch = check_batch(build(sequence), 1000)
            partition.produce(batch, gateway.broker.append, refused.append)
            # The second one is sent before anybody knows of the first one's failure.
            wait_until(lambda: partition.log.failures == 1, "the failure")
        gateway.reactor.until(lambda: len(refused) == 2)
        assert [row.error_code for row in refused] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
        stored: list[Produced] = []
        for sequence in (0, 1):
            partition.produce(check_batch(build(sequence), 1000), gateway.broker.append, stored.append)
        gateway.reactor.until(lambda: len(stored) == 2)
        assert [(row.error_code, row.base_offset) for row in stored] == [(0, 0), (0, 1)]


def build(sequence: int) -> memoryview:
    """A batch of one record of an idempotent producer."""
    data = build_batch(
        [NewRecord(NOW_MS, None, b"x")], producer_id=7, producer_epoch=0, base_sequence=sequence
    )
    return memoryview(bytearray(data))


def test_a_full_disk_is_told_of_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    disk = FaultDisk()
    with in_memory_gateway("/data", disk) as gateway:
        partition = gateway.create().partitions[0]
        disk.fail("write", errno.ENOSPC, path_contains=".log", times=3)
        client = gateway.connect()
        for _ in range(3):
            client.ask(produce(batch(b"a")), 9)
        assert len(caplog.records) == 1
        assert "an append to t-0 failed, the next one is tried" in caplog.text
        assert partition.is_writable


def test_a_small_batch_does_not_keep_a_large_request(gateway: Gateway) -> None:
    topic = gateway.create("u", partitions=2)
    client = gateway.connect()
    client.ask(produce(batch(b"small"), batch(b"x" * 900_000), topic="u"), 9)
    (held,) = topic.partitions[0].read_tail(0, 10**6, at_least_one=True)
    assert isinstance(held.obj, bytes | bytearray)
    assert len(held.obj) < 1000


def test_a_retired_partition_holds_nothing_and_takes_nothing(gateway: Gateway, partition: Partition) -> None:
    client = gateway.connect()
    client.ask(produce(batch(b"a")), 9)
    partition.retire()
    assert not partition.is_in_tail(0)
    client.ask(produce(batch(b"b")), 9)
    assert not partition.is_in_tail(1)
    assert partition.tail.held_bytes == 0
    assert [len(piece) > 0 for piece in partition.stored.read(0, 2, 10**6, at_least_one=True)] == [True, True]
    partition.revive()
    client.ask(produce(batch(b"c")), 9)
    assert partition.is_in_tail(2)


def test_the_disk_and_the_memory_say_the_same(gateway: Gateway, partition: Partition) -> None:
    client = gateway.connect()
    for size in (1, 10, 100):
        client.ask(produce(batch(*[b"x"] * size)), 9)
    for offset in (0, 1, 5, 11, 110):
        for limit in (0, 200, 400, 10**6):
            for one in (True, False):
                warm = partition.read_tail(offset, limit, at_least_one=one)
                cold = partition.stored.read(offset, partition.end_offset, limit, at_least_one=one)
                assert [bytes(piece) for piece in warm] == [bytes(piece) for piece in cold]
    assert partition.stored.read(0, 1, 10**6, at_least_one=True)[1:] == []
    assert Appended(0, 1)
