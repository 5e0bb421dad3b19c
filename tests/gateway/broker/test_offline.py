"""One unreadable path takes one partition offline; what is lost is told; everything else is served."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from barbicel.codecs.kafka import messages
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.errors import LogStopped
from barbicel.gateway.broker.consumption import Position
from barbicel.keratin import Log
from tests.gateway.kafka.in_memory import Client, Gateway, batch, in_memory_gateway
from tests.gateway.kafka.requests import fetch, list_offsets, only, produce, produced, values_of
from tests.gateway.kestrel.in_memory_queues import in_memory_queues
from tests.support.fault_disk import Fate, FaultDisk

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Topic t with two partitions, a record in each, and a group that has consumed one."""
    with in_memory_gateway(tmp_path / "data") as gateway:
        gateway.create("t", partitions=2)
        gateway.connect().ask(produce(batch(b"zero"), batch(b"one")), 9)
        gateway.reactor.result(gateway.broker.offsets.commit("g", [Position(("t", 0), 1, None, None)]))
    return tmp_path / "data"


def partition_of(data: Path, number: int = 0) -> Path:
    (topic,) = (data / "topics").iterdir()
    return topic / str(number)


def replace_by_a_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("not ours")


def replace_by_a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Callable[[Path], None]] = {
    "the partition is a file": replace_by_a_file,
    "segments is a file": lambda path: replace_by_a_file(path / "segments"),
    "a segment is a directory": lambda path: replace_by_a_directory(
        path / "segments" / "00000000000000000000.log"
    ),
    "the manifest is a directory": lambda path: replace_by_a_directory(path / "manifest.bin"),
}


@pytest.fixture(params=DAMAGES)
def damaged(data: Path, request: pytest.FixtureRequest) -> Path:
    DAMAGES[request.param](partition_of(data))
    return data


@pytest.fixture
def gateway(damaged: Path) -> Iterator[Gateway]:
    with in_memory_gateway(damaged) as gateway:
        yield gateway


@pytest.fixture
def client(gateway: Gateway) -> Client:
    return gateway.connect()


def test_the_others_are_served_and_the_log_says_what_to_do(
    damaged: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with in_memory_gateway(damaged) as gateway:
        client = gateway.connect()
        rows = produced(client.ask(produce(batch(b"a"), batch(b"b")), 9))
        assert [(row.error_code, row.base_offset) for row in rows] == [(STORAGE_ERROR, -1), (0, 1)]
    (told,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert told.startswith("t-0 is offline: ")
    assert str(partition_of(damaged)) in told
    assert "restart" in told


@pytest.mark.parametrize("offset", [0, 1, 500])
def test_no_consumer_is_sent_elsewhere(client: Client, offset: int) -> None:
    """OFFSET_OUT_OF_RANGE would make it start over, or skip everything."""
    rows = only(client.ask(fetch(offset, 0, max_wait_ms=60_000), 11).responses).partitions
    assert rows[0].error_code == STORAGE_ERROR
    row = only(only(client.ask(fetch(0, partitions=[1]), 11).responses).partitions)
    assert values_of(row) == [b"one"]


@pytest.mark.parametrize("timestamp", [-1, -2, -3, 0])
def test_its_offsets_are_not_known(client: Client, timestamp: int) -> None:
    row = only(only(client.ask(list_offsets(timestamp), 7).topics).partitions)
    assert (row.error_code, row.offset) == (STORAGE_ERROR, -1)
    row = only(only(client.ask(list_offsets(-1, partition=1), 7).topics).partitions)
    assert (row.error_code, row.offset) == (ErrorCode.NONE, 1)


def test_nothing_is_deleted_from_it(client: Client) -> None:
    kind = messages.DeleteRecordsRequest.DeleteRecordsTopic
    rows = [kind.DeleteRecordsPartition(partition_index=0, offset=-1)]
    request = messages.DeleteRecordsRequest(topics=[kind(name="t", partitions=rows)], timeout_ms=1000)
    row = only(only(client.ask(request, 1).topics).partitions)
    assert row.error_code == STORAGE_ERROR


def test_groups_keep_their_positions(gateway: Gateway) -> None:
    found = gateway.reactor.result(gateway.broker.offsets.fetch("g", None))
    assert found["t", 0].offset == 1


def test_its_topic_can_be_changed_and_deleted(gateway: Gateway, damaged: Path) -> None:
    topics = gateway.broker.topics
    gateway.reactor.result(topics.add_partitions("t", 3))
    gateway.reactor.result(topics.change_settings("t", lambda _: {"retention.ms": "5"}))
    gateway.reactor.advance(gateway.config.log_retention_check_interval_ms / 1000)
    gateway.reactor.result(topics.delete("t"))
    gateway.reactor.result(gateway.broker.change(lambda: None))
    assert list((damaged / "topics").iterdir()) == []


def test_a_queue_that_is_offline_takes_nothing_and_begins_nothing(tmp_path: Path) -> None:
    with in_memory_queues(tmp_path / "data") as desk:
        desk.put("q", b"item")
    replace_by_a_file(partition_of(tmp_path / "data") / "segments")
    with in_memory_queues(tmp_path / "data") as desk:
        answers: list[object] = []
        desk.queues.put("q", b"more", 0, None, answers.append)
        desk.reactor.until(lambda: answers)
        assert isinstance(answers[0], LogStopped)
        positions = desk.broker.offsets.positions_in("q", 0)
        assert set(positions.values()) == {0}


def test_a_log_that_a_full_disk_keeps_from_being_recovered_can_be_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = FaultDisk()
    with in_memory_gateway("/data", disk) as gateway:
        gateway.create()
        gateway.connect().ask(produce(batch(b"zero")), 9)
        killed = disk.crash(Fate.KEEP, Random(0))
    # At the start, and when it is tried again without and with what is kept for deletions.
    killed.fail("write", errno.ENOSPC, path_contains="manifest.new", times=3)
    with in_memory_gateway("/data", killed) as gateway:
        client = gateway.connect()
        row = only(only(client.ask(fetch(0), 11).responses).partitions)
        assert values_of(row) == [b"zero"]
        assert only(produced(client.ask(produce(batch(b"one")), 9))).error_code == STORAGE_ERROR
        gateway.reactor.result(gateway.broker.topics.reopening.try_all())
    assert "t-0 takes no writes: " in caplog.text
    assert "it can be read, and is opened for writing when there is room" in caplog.text
    with in_memory_gateway("/data", killed) as gateway:
        assert only(produced(gateway.connect().ask(produce(batch(b"one")), 9))).base_offset == 1


# --- logs that are gone ---------------------------------------------------------------------------------


def test_a_log_that_is_gone_is_told_with_what_its_groups_had_consumed(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(partition_of(data))
    with in_memory_gateway(data) as gateway:
        assert only(produced(gateway.connect().ask(produce(batch(b"a")), 9))).base_offset == 0
    (told,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert told.startswith("t-0 had no log, so all of its records are lost, those below offset 1 at least")
    assert "group g" in told
    assert str(partition_of(data)) in told


def test_a_log_that_is_gone_beside_others_with_records_is_an_error(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(partition_of(data, 1))
    with in_memory_gateway(data):
        pass
    (told,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert told.startswith("t-1 had no log, though others of its topic have records")


def test_a_topic_that_a_crash_left_without_logs_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with in_memory_gateway(tmp_path / "data") as gateway:
        gateway.create()
    shutil.rmtree(partition_of(tmp_path / "data"))
    with in_memory_gateway(tmp_path / "data"):
        pass
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "t-0 had no log: it begins at offset 0")
    ]


def test_a_partition_that_another_process_has_open_is_offline(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Log.open(str(partition_of(data))), in_memory_gateway(data) as gateway:
        rows = produced(gateway.connect().ask(produce(batch(b"a"), batch(b"b")), 9))
        assert [row.error_code for row in rows] == [STORAGE_ERROR, ErrorCode.NONE]
    assert "t-0 is offline: " in caplog.text
