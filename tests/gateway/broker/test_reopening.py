"""Logs that a full disk kept from being recovered take writes as soon as there is room, or room is made."""

from __future__ import annotations

import logging
from pathlib import Path
from random import Random
from typing import Any

import pytest

from barbicel.codecs.kafka import messages
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.gateway.broker.consumption import Position
from barbicel.gateway.broker.partition import Partition
from barbicel.gateway.broker.spare import SPARE_BYTES
from barbicel.keratin import Log, NewRecord
from tests.gateway.kafka.in_memory import Client, Gateway, batch, in_memory_gateway
from tests.gateway.kafka.requests import fetch, only, produce, produced, values_of
from tests.gateway.kestrel.in_memory_queues import in_memory_queues
from tests.support.fault_disk import Fate, FaultDisk

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
RETENTION_S = 60.0
PACE_MS = 10_000
SEGMENTS = 4


def killed_and_full() -> FaultDisk:
    """Topic t with a record in each of its segments, and one in the last; not a byte is left."""
    disk = FaultDisk()
    with in_memory_gateway("/data", disk) as gateway:
        topic = gateway.create()
        client = gateway.connect()
        for number in range(SEGMENTS):
            client.ask(produce(numbered(number)), 9)
            topic.partitions[0].log.roll()
        client.ask(produce(numbered(SEGMENTS)), 9)
        positions = [Position(("t", 0), SEGMENTS + 1, None, None)]
        gateway.reactor.result(gateway.broker.offsets.commit("g", positions))
        found = disk.crash(Fate.KEEP, Random(0))
    for path, data in found.files().items():
        if path.endswith(".log"):
            found.put(path, data.rstrip(b"\0"))  # nothing was allocated ahead
    fill(found)
    return found


def numbered(number: int) -> bytes:
    """The batches of one producer."""
    return batch(b"%d" % number * 500, producer_id=7, producer_epoch=0, base_sequence=number)


def fill(disk: FaultDisk) -> None:
    disk.capacity_bytes = disk.used_bytes


def started(disk: FaultDisk) -> Any:
    return in_memory_gateway(
        "/data", disk, log_retention_check_interval_ms=int(RETENTION_S * 1000), log_retention_ms=-1
    )


def ask_for(client: Client, number: int) -> tuple[int, int]:
    row = only(produced(client.ask(produce(numbered(number)), 9)))
    return row.error_code, row.base_offset


def delete_below(client: Client, offset: int) -> tuple[int, int]:
    kind = messages.DeleteRecordsRequest.DeleteRecordsTopic
    rows = [kind.DeleteRecordsPartition(partition_index=0, offset=offset)]
    request = messages.DeleteRecordsRequest(topics=[kind(name="t", partitions=rows)], timeout_ms=1000)
    row = only(only(client.ask(request, 1).topics).partitions)
    return row.error_code, row.low_watermark


def try_all(gateway: Gateway) -> None:
    gateway.reactor.result(gateway.broker.topics.reopening.try_all())


def partition_of(gateway: Gateway) -> Partition:
    found = gateway.broker.topics.partition("t", 0)
    assert found is not None
    return found


def is_writable(gateway: Gateway) -> bool:
    return partition_of(gateway).is_writable


def test_what_is_kept_can_be_shortened_on_the_full_disk() -> None:
    disk = killed_and_full()
    with started(disk) as gateway:
        client, partition = gateway.connect(), partition_of(gateway)
        assert not is_writable(gateway)
        change = gateway.broker.topics.change_settings("t", lambda _: {"retention.bytes": "0"})
        gateway.reactor.result(change)
        timers = len(gateway.reactor.getDelayedCalls())
        gateway.reactor.advance(RETENTION_S)
        gateway.reactor.until(lambda: len(gateway.reactor.getDelayedCalls()) == timers)
        assert partition.start_offset == SEGMENTS
        assert ask_for(client, SEGMENTS + 1) == (0, SEGMENTS + 1)
        assert disk.size("/data/tmp/spare") == SPARE_BYTES


def test_records_can_be_deleted_on_the_full_disk() -> None:
    with started(killed_and_full()) as gateway:
        client = gateway.connect()
        assert delete_below(client, SEGMENTS) == (0, SEGMENTS)
        assert ask_for(client, SEGMENTS + 1) == (0, SEGMENTS + 1)


def test_whoever_produces_is_served_when_there_is_room(caplog: pytest.LogCaptureFixture) -> None:
    disk = killed_and_full()
    # Not even what is kept for deletions.
    disk.unlink("/data/tmp/spare")
    fill(disk)
    with started(disk) as gateway:
        client = gateway.connect()
        for _ in range(3):
            assert ask_for(client, SEGMENTS + 1) == (STORAGE_ERROR, -1)
        assert delete_below(client, 1)[0] == STORAGE_ERROR
        try_all(gateway)
        assert not is_writable(gateway)
        disk.capacity_bytes = None
        gateway.now_ms += PACE_MS
        assert ask_for(client, SEGMENTS + 1) == (STORAGE_ERROR, -1)
        gateway.reactor.until(lambda: not gateway.broker.topics.reopening.waiting)
        assert ask_for(client, SEGMENTS + 1) == (0, SEGMENTS + 1)
    assert caplog.text.count("t-0 takes no writes: ") == 1
    assert "is opened for writing when there is room" in caplog.text
    assert "t-0 takes writes: there is room again" in caplog.text


def test_nothing_that_was_known_is_forgotten() -> None:
    disk = killed_and_full()
    with started(disk) as gateway:
        waiting, client = gateway.connect(), gateway.connect()
        waiting.send(fetch(SEGMENTS + 1, max_wait_ms=60_000), 11)
        disk.capacity_bytes = None
        try_all(gateway)
        # The producer's last batch is known, and the next one must follow it.
        assert ask_for(client, SEGMENTS) == (0, SEGMENTS)
        assert ask_for(client, SEGMENTS + 2)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert ask_for(client, SEGMENTS + 1) == (0, SEGMENTS + 1)
        row = only(only(waiting.answer().responses).partitions)
        assert values_of(row) == [b"5" * 500]
        values = values_of(only(only(client.ask(fetch(0), 11).responses).partitions))
        assert values == [b"%d" % number * 500 for number in range(SEGMENTS + 2)]
    with started(disk) as gateway:
        assert ask_for(gateway.connect(), SEGMENTS + 1) == (0, SEGMENTS + 1)


def test_groups_are_set_back_before_anything_is_appended() -> None:
    """A crash may take what was consumed, and its offsets are given out again."""
    disk = killed_and_full()
    path = f"{partition_path(disk)}/segments/{SEGMENTS:020d}.log"
    disk.put(path, disk.files()[path][:-300] + bytes(300))
    with started(disk) as gateway:
        assert not is_writable(gateway)
        offsets = gateway.broker.offsets
        assert offsets.positions_in("t", 0) == {"g": SEGMENTS + 1}
        disk.capacity_bytes = None
        try_all(gateway)
        assert offsets.positions_in("t", 0) == {"g": SEGMENTS}
        assert ask_for(gateway.connect(), SEGMENTS) == (0, SEGMENTS)


def partition_path(disk: FaultDisk) -> str:
    (manifest,) = (path for path in disk.files() if path.endswith("manifest.bin"))
    return manifest.removesuffix("/manifest.bin")


def test_a_topic_that_is_deleted_meanwhile_is_not_opened() -> None:
    disk = killed_and_full()
    with started(disk) as gateway:
        deletion = gateway.broker.topics.delete("t")
        try_all(gateway)
        gateway.reactor.result(deletion)
        assert not gateway.broker.topics.reopening.waiting
        gateway.reactor.until(lambda: not gateway.broker.topics.catalogue.deleted)
        disk.capacity_bytes = None
        gateway.create()
        row = only(produced(gateway.connect().ask(produce(batch(b"new")), 9)))
        assert (row.error_code, row.base_offset) == (0, 0)


def test_a_log_that_somebody_else_has_changed_waits_for_a_restart(caplog: pytest.LogCaptureFixture) -> None:
    disk = killed_and_full()
    with started(disk) as gateway:
        disk.capacity_bytes = None
        with Log.open(partition_path(disk), disk=disk) as other:
            other.append([NewRecord(b"another's")])
        try_all(gateway)
        assert not is_writable(gateway)
        assert not gateway.broker.topics.reopening.waiting
        assert ask_for(gateway.connect(), SEGMENTS + 1) == (STORAGE_ERROR, -1)
    assert "is another now" in caplog.text


def test_a_fault_keeps_none_of_the_others_from_being_opened(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with started(killed_and_full()) as gateway:
        reopening = gateway.broker.topics.reopening

        def fail(_: object) -> None:
            raise RuntimeError("a fault")

        with monkeypatch.context() as patch:
            patch.setattr(reopening._opener, "reopen", fail)
            first, second = reopening.try_all(), reopening.try_all()
            gateway.reactor.result(first)
            gateway.reactor.result(second)
        assert not is_writable(gateway)
        try_all(gateway)
        assert is_writable(gateway)
    assert [record.levelno for record in caplog.records if "was not opened" in record.message] == [
        logging.ERROR
    ]


def test_a_queue_that_was_asked_meanwhile_gives_what_comes_then() -> None:
    """Its position was beyond the end that a crash has left."""
    disk = FaultDisk()
    with in_memory_queues(Path("/data"), disk) as queues:
        for number in range(5):
            queues.put("q", b"%d" % number * 500)
        assert len(queues.get_all("q")) == 5
        found = disk.crash(Fate.KEEP, Random(0))
    for path, data in found.files().items():
        if path.endswith(".log"):
            written = data.rstrip(b"\0")
            found.put(path, written[:-300] + bytes(300))
    found.capacity_bytes = found.used_bytes - 20_000
    with in_memory_queues(Path("/data"), found) as queues:
        assert queues.get("q") is None
        partition = queues.broker.topics.partition("q", 0)
        assert partition is not None
        assert (partition.is_writable, partition.end_offset) == (False, 4)
        found.capacity_bytes = None
        queues.reactor.result(queues.broker.topics.reopening.try_all())
        assert partition.is_writable
        queues.put("q", b"new")
        queues.put("q", b"newer")
        assert queues.get_all("q") == [b"new", b"newer"]


def test_a_topic_that_was_deleted_meanwhile_is_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    disk = killed_and_full()
    with started(disk) as gateway:
        partition = partition_of(gateway)
        disk.capacity_bytes = None
        gateway.reactor.result(gateway.broker.topics.delete("t"))
        gateway.reactor.result(gateway.broker.change(lambda: None))  # its files are removed before
        assert not [path for path in disk.files() if path.startswith(partition.log.path)]
        try_all(gateway)
        assert not gateway.broker.topics.reopening.waiting
    assert "open failed" not in caplog.text
