"""Syncs are timed, and nothing else about the disk is different."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from barbicel.errors import DiskError
from barbicel.gateway.admin.timed_disk import TimedDisk


def count(disk: TimedDisk) -> float:
    return next(sample.value for sample in disk.syncs.histogram.samples() if sample.suffix == "_count")


def test_every_sync_is_noted(tmp_path: Path) -> None:
    disk = TimedDisk()
    file = disk.open(str(tmp_path / "file"), "create")
    file.append([b"data"])
    assert count(disk) == 0
    for _ in range(3):
        file.fdatasync()
    file.close()
    assert count(disk) == 3
    assert disk.syncs.failures == 0
    assert (tmp_path / "file").read_bytes() == b"data"


def test_a_sync_that_fails_is_counted_and_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = TimedDisk()
    file = disk.open(str(tmp_path / "file"), "create")

    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        with pytest.raises(DiskError):
            file.fdatasync()
    file.close()
    assert (disk.syncs.failures, count(disk)) == (1, 0)
