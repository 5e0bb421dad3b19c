"""Idempotent producers are remembered when what they wrote is deleted, and the server killed after that."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.gateway.broker.broker import _retain_all
from barbicel.gateway.broker.partition import Partition
from barbicel.keratin.retention import RetentionRules
from tests.gateway.kafka.in_memory import Gateway, batch, in_memory_gateway
from tests.gateway.kafka.requests import only, produce, produced
from tests.support.fault_disk import Fate, FaultDisk


def put(gateway: Gateway, sequence: int, epoch: int = 0) -> Any:
    content = batch(b"x", producer_id=7, producer_epoch=epoch, base_sequence=sequence)
    return only(produced(gateway.connect().ask(produce(content), 9)))


def delete_records(partition: Partition) -> None:
    assert partition.stored.drop_before(partition.end_offset) == partition.end_offset


def apply_retention(partition: Partition) -> None:
    partition.log.roll()
    _retain_all([(partition, RetentionRules(max_bytes=0, max_age_ms=None))])
    assert partition.start_offset == partition.end_offset


@pytest.mark.parametrize("delete", [delete_records, apply_retention])
def test_a_producer_goes_on_after_its_records_were_deleted_and_the_server_was_killed(
    tmp_path: Path, delete: Callable[[Partition], None]
) -> None:
    with in_memory_gateway(tmp_path / "data") as gateway:
        gateway.create()
        put(gateway, 0)
    # Stopped in order: there is a snapshot, which gets old now.
    with in_memory_gateway(tmp_path / "data") as gateway:
        assert [put(gateway, 0, epoch=1).base_offset, put(gateway, 1, epoch=1).base_offset] == [1, 2]
        (partition,) = only(gateway.broker.topics).partitions
        delete(partition)
        shutil.copytree(tmp_path / "data", tmp_path / "killed")
    with in_memory_gateway(tmp_path / "killed") as gateway:
        again, following = put(gateway, 1, epoch=1), put(gateway, 2, epoch=1)
        assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 2)
        assert (following.error_code, following.base_offset) == (ErrorCode.NONE, 3)


def test_a_disk_too_full_to_remember_them_still_deletes_and_lets_them_go_on() -> None:
    disk = FaultDisk()
    with in_memory_gateway("/data", disk) as gateway:
        gateway.create()
        put(gateway, 0)
    with in_memory_gateway("/data", disk) as gateway:
        put(gateway, 0, epoch=1)
        put(gateway, 1, epoch=1)
        (partition,) = only(gateway.broker.topics).partitions
        disk.fail("write", errno.ENOSPC, path_contains="producers.snap")
        delete_records(partition)
        assert not disk.exists(partition.producer_file.path)
        killed = disk.crash(Fate.KEEP, Random(1))
    with in_memory_gateway("/data", killed) as gateway:
        assert put(gateway, 2, epoch=1).error_code == ErrorCode.NONE


def test_what_a_snapshot_tells_already_is_not_written_again() -> None:
    disk = FaultDisk()
    with in_memory_gateway("/data", disk) as gateway:
        gateway.create()
        for sequence in range(4):
            put(gateway, sequence)
        (partition,) = only(gateway.broker.topics).partitions
        partition.stored.drop_before(2)
        written: list[str] = []
        disk.observer = lambda call: written.append(call.path)
        partition.stored.drop_before(3)
        disk.observer = None
        assert written
        assert not any("producers" in path for path in written)
