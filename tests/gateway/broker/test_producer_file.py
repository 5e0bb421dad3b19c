"""What is known of producers after a restart, a crash, a power cut and damage."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from barbicel.codecs.kafka.record_batch import decode_header
from barbicel.codecs.producer_snapshot import ProducerSnapshot
from barbicel.disk import RealDisk
from barbicel.gateway.broker.producer_file import ProducerFile
from barbicel.gateway.broker.producers import ProducerStates, Repeated
from barbicel.keratin import Log, NewRecord
from tests.gateway.kafka.in_memory import batch
from tests.support.fault_disk import FaultDisk, Operation


def stored(sequence: int) -> bytes:
    return batch(b"x", producer_id=7, producer_epoch=0, base_sequence=sequence, base_offset=sequence)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = Log.open(str(tmp_path / "log"))
    log.append([NewRecord(stored(sequence)) for sequence in range(4)])
    return log


@pytest.fixture
def file(log: Log) -> ProducerFile:
    return ProducerFile(RealDisk(), log.path)


def knows(states: ProducerStates, sequence: int) -> bool:
    return isinstance(states.check(decode_header(memoryview(stored(sequence)))), Repeated)


def test_without_a_file_all_is_learned_from_the_log(log: Log, file: ProducerFile) -> None:
    states = file.restore(log, lambda: 0)
    assert all(knows(states, sequence) for sequence in range(4))
    assert states.exact_until == 4
    assert not Path(file.path).exists()


def test_what_is_newer_than_the_file_is_learned(log: Log, file: ProducerFile) -> None:
    file.write(file.restore(log, lambda: 0).snapshot())
    log.append([NewRecord(stored(4))])
    states = file.restore(log, lambda: 0)
    assert all(knows(states, sequence) for sequence in range(5))


def test_a_file_that_speaks_of_what_the_log_lost_is_not_believed(log: Log, file: ProducerFile) -> None:
    """The log may grow past that offset with other records: so it is replaced before anything is appended."""
    file.write(ProducerSnapshot(9, ()))
    states = file.restore(log, lambda: 0)
    assert all(knows(states, sequence) for sequence in range(4))
    log.append([NewRecord(stored(sequence)) for sequence in range(4, 12)])
    assert all(knows(file.restore(log, lambda: 0), sequence) for sequence in range(7, 12))


@pytest.mark.parametrize("damage", [b"", b"garbage", b"\0" * 100])
def test_a_damaged_file_is_reported_and_replaced(
    log: Log, file: ProducerFile, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    Path(file.path).write_bytes(damage)
    assert knows(file.restore(log, lambda: 0), 3)
    assert file.path in caplog.text
    caplog.clear()
    assert knows(file.restore(log, lambda: 0), 3)
    assert not caplog.messages


def test_a_directory_in_its_place_is_reported_and_moved_away(
    log: Log, file: ProducerFile, caplog: pytest.LogCaptureFixture
) -> None:
    Path(file.path).mkdir()
    assert knows(file.restore(log, lambda: 77), 3)
    assert file.path in caplog.text
    assert Path(f"{file.path}.corrupt-77").is_dir()
    assert Path(file.path).is_file()


@pytest.mark.parametrize("operation", ["open", "read"])
def test_a_file_that_cannot_be_read_is_reported_and_replaced(
    operation: Operation, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultDisk()
    log = Log.open("/log", disk=disk)
    log.append([NewRecord(stored(sequence)) for sequence in range(4)])
    file = ProducerFile(disk, log.path)
    file.write(ProducerSnapshot(4, ()))
    disk.fail(operation, errno.EIO, path_contains="producers.snap")
    assert knows(file.restore(log, lambda: 0), 3)
    assert file.path in caplog.text
    caplog.clear()
    assert knows(file.restore(log, lambda: 0), 3)
    assert not caplog.messages


def test_what_is_no_batch_is_passed_over(tmp_path: Path) -> None:
    with Log.open(str(tmp_path / "other")) as log:
        log.append([NewRecord(b"hello"), NewRecord(stored(1))])
        states = ProducerFile(RealDisk(), log.path).restore(log, lambda: 0)
        assert states.exact_until == 2
        assert knows(states, 1)
