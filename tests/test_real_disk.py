"""What only a real disk can show: other processes, short writes and reads, a kernel's errors."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from barbicel.disk import (
    VECTOR_PIECE_BYTES,
    VECTOR_PIECES_MAX,
    Bytes,
    Entry,
    OpenMode,
    RealDisk,
    read_file,
    remove_tree,
)
from barbicel.errors import DiskError, LogLocked

HOLD_A_LOCK = """
import sys
from barbicel.disk import RealDisk
lock = RealDisk().lock(sys.argv[1])
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def another_process(script: str, path: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", script, path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_directory_whose_time_was_set_back_is_not_unchanged(tmp_path: Path) -> None:
    """As programs do that copy a tree with its times."""
    mark, directory = tmp_path / "mark", tmp_path / "directory"
    mark.write_bytes(b"")
    directory.mkdir()
    os.utime(directory, ns=(0, 0))
    assert not RealDisk().unchanged_since(str(directory), str(mark))


def test_a_lock_conflicts_between_processes_and_ends_with_kill_9(tmp_path: Path) -> None:
    path = str(tmp_path / "LOCK")
    with another_process(HOLD_A_LOCK, path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        with pytest.raises(LogLocked, match=f"already open by process {process.pid} "):
            RealDisk().lock(path)
        process.kill()
        process.wait()
        RealDisk().lock(path).release()


def test_another_process_is_locked_out(tmp_path: Path) -> None:
    path = str(tmp_path / "LOCK")
    lock = RealDisk().lock(path)
    with another_process(HOLD_A_LOCK, path) as process:
        _, errors = process.communicate("")
    lock.release()
    assert process.returncode == 1
    assert f"LogLocked: {path}: already open by process {os.getpid()}" in errors


def test_a_full_disk_is_told_with_a_hint_and_leaves_the_end() -> None:
    file = RealDisk().open("/dev/full", "write")
    for pieces in ([b"small"], [bytes(VECTOR_PIECE_BYTES)]):
        with pytest.raises(DiskError) as caught:
            file.append(pieces)
        assert str(caught.value) == (
            "/dev/full: write failed: No space left on device (the disk is full: free some space)"
        )
        assert file.end == 0
    file.close()


def _write_at_most(monkeypatch: pytest.MonkeyPatch, limit_bytes: int) -> list[int]:
    """Let the kernel write so little at once. The answer collects what each call was given."""
    pwrite = os.pwrite
    given: list[int] = []

    def short_pwrite(fd: int, data: Bytes, position: int) -> int:
        given.append(len(data))
        return pwrite(fd, bytes(data[:limit_bytes]), position)

    def short_pwritev(fd: int, pieces: Sequence[Bytes], position: int) -> int:
        return short_pwrite(fd, b"".join(pieces), position)

    monkeypatch.setattr("os.pwrite", short_pwrite)
    monkeypatch.setattr("os.pwritev", short_pwritev)
    return given


@pytest.mark.parametrize(
    ("piece_bytes", "pieces", "limit_bytes"),
    [
        (10, 10, 7),
        (VECTOR_PIECE_BYTES, 3, 1000),
        (VECTOR_PIECE_BYTES, VECTOR_PIECES_MAX + 5, 100_001),
    ],
)
def test_short_writes_are_continued(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    piece_bytes: int,
    pieces: int,
    limit_bytes: int,
) -> None:
    data = random.Random(3).randbytes(piece_bytes * pieces)
    file = RealDisk().open(str(tmp_path / "a"), "create")
    file.append([b"before"])
    given = _write_at_most(monkeypatch, limit_bytes)
    file.append([data[at : at + piece_bytes] for at in range(0, len(data), piece_bytes)])
    monkeypatch.undo()
    file.append([b"after"])
    file.close()
    assert len(given) >= len(data) / limit_bytes
    assert read_file(RealDisk(), str(tmp_path / "a"), 1 << 30) == b"before" + data + b"after"


def test_short_reads_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pread, preadv = os.pread, os.preadv
    monkeypatch.setattr("os.pread", lambda fd, size, at: pread(fd, min(size, 3), at))
    monkeypatch.setattr("os.preadv", lambda fd, views, at: preadv(fd, [views[0][:3]], at))
    file = RealDisk().open(str(tmp_path / "a"), "create")
    file.append([b"0123456789"])
    assert (file.pread(8, 1), file.pread(100, 1)) == (b"12345678", b"123456789")
    buffer = bytearray(12)
    assert file.pread_into(memoryview(buffer), 1) == 9
    assert buffer == b"123456789\0\0\0"
    file.close()


def test_removing_a_tree_removes_links_and_not_what_they_lead_to(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_bytes(b"1")
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "link").symlink_to(tmp_path / "kept")
    remove_tree(RealDisk(), str(tmp_path / "gone"))
    assert not (tmp_path / "gone").exists()
    assert (tmp_path / "kept" / "file").read_bytes() == b"1"


def test_links_that_lead_nowhere_are_listed_like_files(tmp_path: Path) -> None:
    """One of them must not hide everything else in its directory."""
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    (tmp_path / "nowhere").symlink_to(tmp_path / "none")
    (tmp_path / "file").write_bytes(b"123")
    assert RealDisk().list(str(tmp_path)) == [
        Entry("circle", 0, False),
        Entry("file", 3, False),
        Entry("nowhere", 0, False),
    ]
    assert RealDisk().modified_ms(str(tmp_path / "circle")) == 0


def test_a_link_resolves_to_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert RealDisk().resolve(f"{tmp_path}/link/a") == RealDisk().resolve(f"{tmp_path}/a")


@pytest.mark.parametrize("mode", ["read", "write"])
def test_a_pipe_in_a_files_place_is_refused_at_once(tmp_path: Path, mode: OpenMode) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DiskError, match="not a regular file"):
        RealDisk().open(str(tmp_path / "pipe"), mode)
    with pytest.raises(DiskError, match="not a regular file"):
        RealDisk().lock(str(tmp_path / "pipe"))


def test_whoever_only_asks_for_the_holder_keeps_nobody_from_the_lock(tmp_path: Path) -> None:
    path = str(tmp_path / "LOCK")
    RealDisk().lock(path).release()
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            RealDisk().lock_holder(path)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for _ in range(200):
            RealDisk().lock(path).release()
    finally:
        stop.set()
        asking.join()
