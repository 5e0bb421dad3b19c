"""The broker as a whole: retention, snapshots of producers, the directory's lock, closing."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from barbicel.config.settings import Config
from barbicel.disk import RealDisk
from barbicel.errors import BarbicelError, CorruptFile, LogLocked
from barbicel.gateway.broker import partition as partition_module
from barbicel.gateway.broker.broker import Broker
from tests.gateway.kafka.in_memory import HandReactor, batch, in_memory_gateway, untyped
from tests.gateway.kafka.requests import fetch, only, produce, produced, values_of
from tests.support.fault_disk import FaultDisk


def test_a_second_server_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data") as gateway:
        gateway.create()
        with pytest.raises(LogLocked):
            Broker.open(RealDisk(), gateway.config, gateway.reactor)
        assert only(produced(gateway.connect().ask(produce(batch(b"a")), 9))).base_offset == 0


def test_a_start_that_fails_lets_go_of_everything(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with in_memory_gateway(data) as gateway:
        gateway.create("a")
        topic = gateway.create("b")
        path = Path(gateway.broker.catalogue.layout.topic_file(topic.topic))
    sound = path.read_bytes()
    path.write_bytes(b"damaged")
    reactor = untyped(HandReactor())
    with pytest.raises(CorruptFile):
        Broker.open(RealDisk(), Config(data_directory=str(data)), reactor)
    path.write_bytes(sound)
    with in_memory_gateway(data) as gateway:
        assert len(gateway.broker.topics) == 2


def test_retention_runs_and_readers_go_on(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data", log_retention_check_interval_ms=1000) as gateway:
        topic = gateway.create(retention_ms="5000")
        gateway.create("other")
        client = gateway.connect()
        log = topic.partitions[0].log
        client.ask(produce(batch(b"old")), 9)
        gateway.now_ms += 10_000
        client.ask(produce(batch(b"new", timestamp_ms=gateway.now_ms)), 9)
        assert log.start_offset == 0
        log.roll()
        gateway.now_ms += 2000
        timers = len(gateway.reactor.getDelayedCalls())
        gateway.reactor.advance(1.0)
        gateway.reactor.until(lambda: len(gateway.reactor.getDelayedCalls()) == timers)
        # Both are in one segment, whose newest record is not old enough.
        assert log.start_offset == 0
        gateway.now_ms += 10_000
        gateway.broker.topics.delete("other")
        gateway.reactor.advance(1.0)
        gateway.reactor.until(lambda: len(gateway.reactor.getDelayedCalls()) == timers)
        assert log.start_offset == 2
        row = only(only(client.ask(fetch(2), 11).responses).partitions)
        assert (row.error_code, row.log_start_offset, values_of(row)) == (0, 2, [])


def test_retention_drops_old_segments_where_there_is_no_room_to_roll() -> None:
    disk = FaultDisk()
    with in_memory_gateway("/data", disk, log_retention_check_interval_ms=1000) as gateway:
        topic = gateway.create(retention_ms="5000", segment_ms="1000")
        client = gateway.connect()
        log = topic.partitions[0].log
        client.ask(produce(batch(b"old")), 9)
        log.roll()
        client.ask(produce(batch(b"old too")), 9)
        gateway.now_ms += 10_000
        # For the roll that is due, and for the one that would let the active segment go.
        disk.fail("open", errno.ENOSPC, path_contains=".idx.new", times=2)
        timers = len(gateway.reactor.getDelayedCalls())
        gateway.reactor.advance(1.0)
        gateway.reactor.until(lambda: len(gateway.reactor.getDelayedCalls()) == timers)
        assert (log.start_offset, log.end_offset) == (1, 2)
        assert log.is_writable


def test_producers_are_written_down_after_enough_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_module, "SNAPSHOT_BYTES", 300)
    with in_memory_gateway(tmp_path / "data") as gateway:
        topic = gateway.create()
        client = gateway.connect()
        path = Path(topic.partitions[0].producer_file.path)
        for sequence in range(3):
            assert not path.exists()
            values = batch(b"x" * 50, producer_id=1, producer_epoch=0, base_sequence=sequence)
            client.ask(produce(values), 9)
        gateway.reactor.result(gateway.broker.change(lambda: None))
        assert path.exists()
        assert topic.partitions[0].bytes_since_snapshot == 0


def test_closing_twice_is_closing_once(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data") as gateway:
        gateway.create()
        gateway.broker.close()


def test_silent_producers_expire(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data", producer_id_expiration_ms=1000) as gateway:
        topic = gateway.create()
        gateway.connect().ask(produce(batch(b"x", producer_id=1, producer_epoch=0, base_sequence=0)), 9)
        assert len(list(topic.partitions[0].producers.describe())) == 1
        gateway.now_ms += 1000
        gateway.reactor.advance(600)
        assert not list(topic.partitions[0].producers.describe())


def test_a_job_that_raises_is_told_to_who_asked(tmp_path: Path) -> None:
    def fail() -> None:
        raise BarbicelError("no")

    with in_memory_gateway(tmp_path / "data") as gateway:
        for answer in (gateway.broker.change(fail), gateway.broker.read_cold(fail)):
            with pytest.raises(BarbicelError, match="no"):
                gateway.reactor.result(answer)
