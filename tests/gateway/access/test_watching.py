"""Files that are replaced while the server runs."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from barbicel.disk import RealDisk, read_file
from barbicel.errors import BarbicelError, DiskError
from barbicel.gateway.access.watching import Watched


def load(path: Path) -> bytes:
    data = read_file(RealDisk(), str(path), 100)
    if data.startswith(b"bad"):
        raise BarbicelError("this cannot be used")
    if data.startswith(b"odd"):
        raise RecursionError("of a library")
    return data


def watched(path: Path) -> Watched[bytes]:
    return Watched(RealDisk(), "file", [str(path)], lambda: load(path))


def test_a_new_file_is_used_and_a_bad_one_is_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    one = watched(path)
    assert (one.value, one.look_again()) == (b"one", False)
    path.write_bytes(b"bad one")
    assert (one.look_again(), one.value) == (False, b"one")
    assert "the new file cannot be used, the old one stays: this cannot be used" in caplog.text
    caplog.clear()
    assert not one.look_again()
    assert not caplog.text  # it was told once
    path.write_bytes(b"another")
    assert (one.look_again(), one.value) == (True, b"another")


def test_an_error_that_nobody_expects_does_not_end_the_looking(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    one = watched(path)
    path.write_bytes(b"odd one")
    assert (one.look_again(), one.value) == (False, b"one")
    assert "the old one stays: RecursionError('of a library')" in caplog.text
    path.write_bytes(b"good again")
    assert (one.look_again(), one.value) == (True, b"good again")


def test_a_file_that_could_not_be_read_for_a_moment_is_tried_again(tmp_path: Path) -> None:
    """Too many files were open when it was read: it is as good as it was."""
    path = tmp_path / "file"
    path.write_bytes(b"one")
    failing = [DiskError("open", str(path), OSError(errno.EMFILE, "too many open files"))]

    def load_later() -> bytes:
        if path.read_bytes() == b"two" and failing:
            raise failing.pop()
        return load(path)

    one = Watched(RealDisk(), "file", [str(path)], load_later)
    path.write_bytes(b"two")
    assert (one.look_again(), one.value) == (False, b"one")
    assert (one.look_again(), one.value) == (True, b"two")


def test_a_file_of_the_same_size_and_time_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    os.utime(path, ns=(0, 0))
    one = watched(path)
    path.write_bytes(b"two")
    os.utime(path, ns=(0, 0))
    assert (one.look_again(), one.value) == (True, b"two")


def test_a_file_that_is_gone_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    one = watched(path)
    path.unlink()
    assert (one.look_again(), one.value) == (False, b"one")
    assert "the old one stays" in caplog.text
    caplog.clear()
    assert not one.look_again()
    assert not caplog.text  # it was told once
    path.write_bytes(b"back")
    assert (one.look_again(), one.value) == (True, b"back")


def test_a_server_does_not_start_on_what_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(DiskError):
        watched(tmp_path / "nothing")
    (tmp_path / "bad").write_bytes(b"bad")
    with pytest.raises(BarbicelError, match="cannot be used"):
        watched(tmp_path / "bad")
