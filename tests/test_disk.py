"""The conformance suite of `barbicel.disk.Disk`: what every disk does, the real one and the test's.

What only the real one can show, other processes and short writes, is in test_real_disk.py.
"""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from barbicel.disk import (
    VECTOR_PIECE_BYTES,
    VECTOR_PIECES_MAX,
    Bytes,
    Disk,
    Entry,
    File,
    OpenMode,
    RealDisk,
    copy_file,
    read_file,
    remove_tree,
    replace_file,
)
from barbicel.errors import DiskError, LogLocked
from tests.support.fault_disk import FaultDisk

DISKS: dict[str, Callable[[], Disk]] = {"real": RealDisk, "fault": FaultDisk}


@pytest.fixture(params=DISKS)
def disk(request: pytest.FixtureRequest) -> Disk:
    return DISKS[request.param]()


@pytest.fixture
def root(disk: Disk, tmp_path: Path) -> str:
    path = str(tmp_path / "root")
    disk.make_directory(path)
    return path


def make(disk: Disk, path: str, content: bytes = b"") -> None:
    file = disk.open(path, "create")
    file.append([content])
    file.close()


def content(disk: Disk, path: str) -> bytes:
    return read_file(disk, path, 1 << 30)


def test_space_is_told_of_the_file_system_that_a_path_lies_in(disk: Disk, root: str) -> None:
    make(disk, f"{root}/file", b"content")
    for path in (root, f"{root}/file"):
        space = disk.space(path)
        assert space.total_bytes >= space.usable_bytes > 0
    with pytest.raises(DiskError) as caught:
        disk.space(f"{root}/absent")
    assert (caught.value.operation, caught.value.errno) == ("stat", errno.ENOENT)


# Directories


def test_a_directory_is_unchanged_since_a_file_until_a_name_comes_or_goes(disk: Disk, root: str) -> None:
    directory, mark = f"{root}/directory", f"{root}/mark"
    disk.make_directory(directory)
    make(disk, f"{directory}/a")
    make(disk, f"{root}/b")
    changes: list[Callable[[], None]] = [
        lambda: make(disk, f"{directory}/c"),
        lambda: disk.rename(f"{root}/b", f"{directory}/a"),
        lambda: disk.rename(f"{directory}/a", f"{directory}/d"),
        lambda: disk.unlink(f"{directory}/c"),
    ]
    for change in changes:
        write_until(disk, mark, lambda: disk.unchanged_since(directory, mark))
        file = disk.open(f"{directory}/{disk.names(directory)[0]}", "write")
        file.append([b"more"])
        file.close()
        assert disk.unchanged_since(directory, mark), "a name is not what is in its file"
        change()
        assert not disk.unchanged_since(directory, mark)


def write_until(disk: Disk, path: str, condition: Callable[[], bool]) -> None:
    """Time stamps may be coarse: write a file until it is seen to be younger."""
    deadline = time.monotonic() + 20
    while True:
        replace_file(disk, f"{path}.new", path, [b"mark"])
        if condition():
            return
        assert time.monotonic() < deadline


def test_what_is_not_there_is_not_unchanged(disk: Disk, root: str) -> None:
    make(disk, f"{root}/file")
    assert not disk.unchanged_since(f"{root}/none", f"{root}/file")
    assert not disk.unchanged_since(root, f"{root}/none")


def test_only_an_empty_directory_is_removed(disk: Disk, root: str) -> None:
    disk.make_directory(f"{root}/a/b")
    with pytest.raises(DiskError) as caught:
        disk.remove_directory(f"{root}/a")
    assert (caught.value.operation, caught.value.errno) == ("rmdir", errno.ENOTEMPTY)
    disk.remove_directory(f"{root}/a/b")
    disk.remove_directory(f"{root}/a")
    assert disk.list(root) == []


def test_a_tree_is_removed_with_all_that_is_in_it(disk: Disk, root: str) -> None:
    disk.make_directory(f"{root}/a/b")
    make(disk, f"{root}/a/b/file", b"1")
    make(disk, f"{root}/a/file", b"1")
    make(disk, f"{root}/kept", b"1")
    remove_tree(disk, f"{root}/a")
    assert [entry.name for entry in disk.list(root)] == ["kept"]


def test_two_spellings_of_a_path_resolve_to_one(disk: Disk, root: str) -> None:
    disk.make_directory(f"{root}/a")
    assert disk.resolve(f"{root}/a/../a/") == disk.resolve(f"{root}//a")


# Names


def test_a_created_file_exists_and_cannot_be_created_again(disk: Disk, root: str) -> None:
    path = f"{root}/a"
    assert not disk.exists(path)
    disk.open(path, "create").close()
    assert disk.exists(path)
    with pytest.raises(DiskError) as caught:
        disk.open(path, "create")
    assert (caught.value.operation, caught.value.path) == ("open", path)
    assert caught.value.errno == errno.EEXIST


def test_a_list_is_sorted_and_tells_sizes_and_directories(disk: Disk, root: str) -> None:
    make(disk, f"{root}/b", b"12345")
    make(disk, f"{root}/a")
    disk.make_directory(f"{root}/c")
    make(disk, f"{root}/c/inside", b"1")
    assert disk.list(root) == [Entry("a", 0, False), Entry("b", 5, False), Entry("c", 0, True)]
    assert disk.list(f"{root}/c") == [Entry("inside", 1, False)]


def test_making_a_directory_makes_its_parents_and_leaves_what_is_there(disk: Disk, root: str) -> None:
    disk.make_directory(f"{root}/x/y/z")
    make(disk, f"{root}/x/y/z/file", b"kept")
    disk.make_directory(f"{root}/x/y/z")
    disk.make_directory(f"{root}/x")
    assert content(disk, f"{root}/x/y/z/file") == b"kept"
    assert not disk.exists(f"{root}/x/y/z/file/below")


def test_paths_that_spell_the_same_place_differently_are_one(disk: Disk, root: str) -> None:
    make(disk, f"{root}/a", b"here")
    assert content(disk, f"{root}//./a") == b"here"
    assert disk.list(f"{root}/.") == disk.list(f"{root}/") == [Entry("a", 4, False)]


def test_a_rename_replaces_and_both_handles_live_on(disk: Disk, root: str) -> None:
    make(disk, f"{root}/new", b"new")
    make(disk, f"{root}/old", b"old")
    replaced = disk.open(f"{root}/old", "write")
    renamed = disk.open(f"{root}/new", "write")
    disk.rename(f"{root}/new", f"{root}/old")
    assert disk.list(root) == [Entry("old", 3, False)]
    replaced.append([b" bytes"])
    renamed.append([b" words"])
    replaced.fdatasync()
    assert replaced.pread(100, 0) == b"old bytes"
    assert content(disk, f"{root}/old") == b"new words"
    replaced.close()
    renamed.close()


def test_a_rename_moves_between_directories_and_onto_itself(disk: Disk, root: str) -> None:
    disk.make_directory(f"{root}/to")
    make(disk, f"{root}/a", b"moved")
    disk.rename(f"{root}/a", f"{root}/to/b")
    disk.rename(f"{root}/to/b", f"{root}/to/b")
    disk.sync_directory(f"{root}/to")
    assert disk.list(root) == [Entry("to", 0, True)]
    assert content(disk, f"{root}/to/b") == b"moved"


def test_a_directory_can_be_renamed_with_its_files(disk: Disk, root: str) -> None:
    disk.make_directory(f"{root}/old")
    disk.make_directory(f"{root}/empty")
    make(disk, f"{root}/old/file", b"inside")
    disk.rename(f"{root}/old", f"{root}/empty")
    assert disk.list(root) == [Entry("empty", 0, True)]
    assert content(disk, f"{root}/empty/file") == b"inside"


def test_an_unlinked_file_lives_on_in_its_handle_only(disk: Disk, root: str) -> None:
    make(disk, f"{root}/a", b"before")
    file = disk.open(f"{root}/a", "write")
    disk.unlink(f"{root}/a")
    assert not disk.exists(f"{root}/a")
    make(disk, f"{root}/a", b"another")
    file.append([b", after"])
    file.fdatasync()
    assert file.pread(100, 0) == b"before, after"
    assert content(disk, f"{root}/a") == b"another"
    file.close()


def test_a_rename_keeps_the_identity_of_a_file_and_a_change_does_not(disk: Disk, root: str) -> None:
    make(disk, f"{root}/a", b"1")
    make(disk, f"{root}/b", b"1")
    first, second = disk.identity(f"{root}/a"), disk.identity(f"{root}/b")
    assert first != second
    disk.rename(f"{root}/a", f"{root}/b")
    assert disk.identity(f"{root}/b") == first
    file = disk.open(f"{root}/b", "write")
    file.append([b"2"])
    file.close()
    assert disk.identity(f"{root}/b") not in (first, second)


# Content

_RNG = random.Random(7)
VECTORS: dict[str, list[Bytes]] = {
    "nothing": [],
    "one empty piece": [b""],
    "small pieces": [b"a", bytearray(b"bc"), memoryview(b"_def_")[1:4], b""],
    "more small pieces than a vector holds": [bytes([i & 255]) for i in range(3000)],
    "large pieces": [_RNG.randbytes(VECTOR_PIECE_BYTES * 3), memoryview(_RNG.randbytes(9000))],
    "more large pieces than a vector holds": [
        _RNG.randbytes(VECTOR_PIECE_BYTES) for _ in range(VECTOR_PIECES_MAX + 50)
    ],
}


@pytest.mark.parametrize("pieces", VECTORS.values(), ids=VECTORS)
def test_an_append_writes_every_piece_at_the_end(disk: Disk, root: str, pieces: list[Bytes]) -> None:
    whole = b"".join(pieces)
    file = disk.open(f"{root}/a", "create")
    file.append([b"before"])
    file.append(pieces)
    assert file.end == file.size() == 6 + len(whole)
    file.append([b"after"])
    file.close()
    assert content(disk, f"{root}/a") == b"before" + whole + b"after"


def test_the_end_of_a_reopened_file_is_its_size(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", "create")
    assert file.end == 0
    file.append([b"12345"])
    file.close()
    file = disk.open(f"{root}/a", "write")
    assert file.end == 5
    file.append([b"6"])
    file.close()
    reader = disk.open(f"{root}/a", "read")
    assert (reader.end, reader.path) == (6, f"{root}/a")
    assert reader.pread(100, 0) == b"123456"
    reader.close()


def test_an_append_goes_where_its_handle_ends_even_inside_the_file(disk: Disk, root: str) -> None:
    make(disk, f"{root}/a", b"0123456789")
    file = disk.open(f"{root}/a", "write")
    file.end = 4
    file.append([b"xy"])
    assert (file.end, file.size()) == (6, 10)
    assert file.pread(100, 0) == b"0123xy6789"
    file.end = 12
    file.append([b"z"])
    assert file.pread(100, 8) == b"89\0\0z"
    file.close()


def test_a_read_is_shorter_only_at_the_end(disk: Disk, root: str) -> None:
    make(disk, f"{root}/a", b"0123456789")
    file = disk.open(f"{root}/a", "read")
    assert file.pread(4, 3) == b"3456"
    assert file.pread(4, 8) == b"89"
    assert file.pread(0, 3) == file.pread(4, 10) == file.pread(4, 1000) == b""
    buffer = bytearray(b"........")
    assert file.pread_into(memoryview(buffer)[2:6], 1) == 4
    assert file.pread_into(memoryview(buffer), 9) == 1
    assert file.pread_into(memoryview(buffer), 10) == 0
    assert buffer == b"9.1234.."
    file.close()


def test_a_handle_sees_what_another_one_writes(disk: Disk, root: str) -> None:
    writer = disk.open(f"{root}/a", "create")
    reader = disk.open(f"{root}/a", "read")
    writer.append([b"fresh"])
    assert (reader.pread(10, 0), reader.size(), reader.end) == (b"fresh", 5, 0)
    writer.close()
    reader.close()


def test_preallocation_adds_zeros_and_never_shortens_or_moves_the_end(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", "create")
    file.append([b"data"])
    file.preallocate(1000)
    assert (file.size(), file.end) == (1000, 4)
    assert file.pread(2000, 0) == b"data".ljust(1000, b"\0")
    for size in (10, 0, -1):
        file.preallocate(size)
    assert file.size() == 1000
    file.append([b"more"])
    assert file.pread(10, 0) == b"datamore\0\0"
    file.close()
    assert disk.list(root) == [Entry("a", 1000, False)]


def test_truncation_moves_the_end_both_ways(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", "create")
    file.append([b"0123456789"])
    file.truncate(4)
    assert (file.end, file.size()) == (4, 4)
    file.append([b"x"])
    file.truncate(8)
    assert (file.end, file.pread(100, 0)) == (8, b"0123x\0\0\0")
    file.fdatasync()
    file.close()


# Overwriting and mapping


def test_an_overwrite_stays_where_it_is_told_and_moves_no_end(disk: Disk, root: str) -> None:
    make(disk, f"{root}/a", b"0123456789")
    file = disk.open(f"{root}/a", "write")
    file.pwrite(b"abc", 2)
    file.pwrite(memoryview(b"")[:0], 5)
    assert (file.end, file.pread(100, 0)) == (10, b"01abc56789")
    file.pwrite(b"z", 12)
    assert (file.end, file.pread(100, 8)) == (10, b"89\0\0z")
    file.close()


def test_what_is_written_to_a_mapping_is_in_the_file(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", "create")
    file.preallocate(8192)
    mapped = file.map(8192)
    assert mapped.size == 8192
    mapped.write(0, b"first")
    mapped.write(8192 - 4, memoryview(b"last"))
    mapped.write(8192, b"")
    file.pwrite(b"F", 0)
    reader = disk.open(f"{root}/a", "read")
    assert reader.pread(8192, 0) == b"First".ljust(8188, b"\0") + b"last"
    file.fdatasync()
    mapped.close()
    mapped.close()
    with pytest.raises(ValueError, match="closed"):
        mapped.write(0, b"x")
    file.truncate(5)
    assert (file.end, reader.pread(100, 0)) == (5, b"First")
    file.close()
    reader.close()


def test_a_mapping_outlives_its_file_handle_and_is_made_anew_when_the_file_grows(
    disk: Disk, root: str
) -> None:
    file = disk.open(f"{root}/a", "create")
    file.preallocate(4096)
    mapped = file.map(4096)
    file.preallocate(8192)
    mapped.close()
    mapped = file.map(8192)
    file.close()
    mapped.write(5000, b"beyond")
    assert content(disk, f"{root}/a")[5000:5006] == b"beyond"
    mapped.close()


@pytest.mark.parametrize(("position", "data"), [(-1, b"x"), (4096, b"x"), (4090, b"1234567"), (9999, b"")])
def test_nothing_is_written_beside_a_mapping(disk: Disk, root: str, position: int, data: bytes) -> None:
    file = disk.open(f"{root}/a", "create")
    file.preallocate(8192)
    mapped = file.map(4096)
    with pytest.raises(ValueError, match="do not lie within 4096"):
        mapped.write(position, data)
    mapped.close()
    assert file.pread(8192, 0) == bytes(8192)
    file.close()


# Locks


def test_a_lock_conflicts_within_a_process_until_it_is_released(disk: Disk, root: str) -> None:
    path = f"{root}/LOCK"
    lock = disk.lock(path)
    assert disk.exists(path)
    for _ in range(2):
        with pytest.raises(LogLocked, match=f"already open by process {os.getpid()} ") as caught:
            disk.lock(path)
        assert caught.value.path == path
    disk.lock(f"{root}/OTHER").release()
    lock.release()
    again = disk.lock(path)
    lock.release()  # a second release must not free what somebody else holds by now
    with pytest.raises(LogLocked):
        disk.lock(path)
    again.release()


def test_a_lock_file_holds_the_number_of_its_process(disk: Disk, root: str) -> None:
    make(disk, f"{root}/LOCK", b"12345678901234567890")
    disk.lock(f"{root}/LOCK").release()
    assert content(disk, f"{root}/LOCK") == str(os.getpid()).encode().ljust(20)


# The functions over a disk


def test_replace_file_puts_new_content_in_place(disk: Disk, root: str) -> None:
    disk.make_directory(f"{root}/tmp")
    make(disk, f"{root}/tmp/a", b"left behind by a crash")
    for pieces in ([b"fir", b"st"], [b"second"]):
        replace_file(disk, f"{root}/tmp/a", f"{root}/a", pieces)
        assert content(disk, f"{root}/a") == b"".join(pieces)
    replace_file(disk, f"{root}/a.tmp", f"{root}/a", [b"third"])
    assert disk.list(root) == [Entry("a", 5, False), Entry("tmp", 0, True)]
    assert disk.list(f"{root}/tmp") == []


@pytest.mark.parametrize(("start", "end"), [(0, None), (0, 0), (3, None), (3, 25), (90, 1000)])
def test_copy_file_copies_a_range(
    disk: Disk, root: str, start: int, end: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barbicel.disk.COPY_CHUNK_BYTES", 10)
    data = random.Random(1).randbytes(100)
    make(disk, f"{root}/a", data)
    copy_file(disk, f"{root}/a", f"{root}/b", start, end)
    assert content(disk, f"{root}/b") == data[start:end]
    assert content(disk, f"{root}/a") == data
    with pytest.raises(DiskError):
        copy_file(disk, f"{root}/a", f"{root}/b", start, end)


def test_read_file_cuts_at_its_limit(disk: Disk, root: str) -> None:
    make(disk, f"{root}/a", b"0123456789")
    assert read_file(disk, f"{root}/a", 4) == b"0123"
    assert read_file(disk, f"{root}/a", 10) == read_file(disk, f"{root}/a", 11) == b"0123456789"


# Errors

# In the root are `file`, and `full` and `empty`, two directories.
REFUSED: list[tuple[str, int, str, Callable[[Disk, str], object]]] = [
    ("open", errno.ENOENT, "none", lambda disk, at: disk.open(f"{at}/none", "read")),
    ("open", errno.ENOENT, "none", lambda disk, at: disk.open(f"{at}/none", "write")),
    ("open", errno.EEXIST, "file", lambda disk, at: disk.open(f"{at}/file", "create")),
    ("open", errno.EEXIST, "full", lambda disk, at: disk.open(f"{at}/full", "create")),
    ("open", errno.EISDIR, "full", lambda disk, at: disk.open(f"{at}/full", "write")),
    ("open", errno.ENOENT, "none/a", lambda disk, at: disk.open(f"{at}/none/a", "create")),
    ("open", errno.ENOTDIR, "file/a", lambda disk, at: disk.open(f"{at}/file/a", "create")),
    ("open", errno.ENOTDIR, "file/a", lambda disk, at: disk.open(f"{at}/file/a", "read")),
    ("open", errno.ENOENT, "none/lock", lambda disk, at: disk.lock(f"{at}/none/lock")),
    ("open", errno.EISDIR, "full", lambda disk, at: disk.lock(f"{at}/full")),
    ("stat", errno.ENOENT, "none", lambda disk, at: disk.identity(f"{at}/none")),
    ("list", errno.ENOENT, "none", lambda disk, at: disk.list(f"{at}/none")),
    ("list", errno.ENOTDIR, "file", lambda disk, at: disk.list(f"{at}/file")),
    ("mkdir", errno.ENOTDIR, "file/a", lambda disk, at: disk.make_directory(f"{at}/file/a")),
    ("fsync", errno.ENOENT, "none", lambda disk, at: disk.sync_directory(f"{at}/none")),
    ("fsync", errno.ENOTDIR, "file", lambda disk, at: disk.sync_directory(f"{at}/file")),
    ("unlink", errno.ENOENT, "none", lambda disk, at: disk.unlink(f"{at}/none")),
    ("unlink", errno.EISDIR, "empty", lambda disk, at: disk.unlink(f"{at}/empty")),
    ("unlink", errno.ENOTDIR, "file/a", lambda disk, at: disk.unlink(f"{at}/file/a")),
]

REFUSED_RENAMES = [
    (errno.ENOENT, "none", "file"),
    (errno.ENOENT, "file", "none/a"),
    (errno.ENOTDIR, "file/a", "b"),
    (errno.ENOTDIR, "file", "file/a"),
    (errno.EISDIR, "file", "empty"),
    (errno.ENOTDIR, "full", "file"),
    (errno.ENOTEMPTY, "empty", "full"),
]

Use: TypeAlias = Callable[[File], object]

# Without fdatasync, which Python itself refuses on a closed real file, with a ValueError.
USES: list[tuple[str, Use]] = [
    ("write", lambda file: file.append([b"x"])),
    ("write", lambda file: file.append([bytes(10_000)])),
    ("write", lambda file: file.pwrite(b"x", 0)),
    ("map", lambda file: file.map(1).close()),
    ("preallocate", lambda file: file.preallocate(100)),
    ("truncate", lambda file: file.truncate(0)),
    ("read", lambda file: file.pread(1, 0)),
    ("read", lambda file: file.pread_into(memoryview(bytearray(1)), 0)),
    ("stat", lambda file: file.size()),
]

MISUSES: list[tuple[OpenMode, str, int, Use]] = [
    ("read", "write", errno.EBADF, lambda file: file.append([b"x"])),
    ("read", "write", errno.EBADF, lambda file: file.pwrite(b"x", 0)),
    ("read", "map", errno.EACCES, lambda file: file.map(7)),
    ("write", "map", errno.EINVAL, lambda file: file.map(0)),
    ("write", "map", errno.EINVAL, lambda file: file.map(8)),
    ("write", "write", errno.EINVAL, lambda file: file.pwrite(b"x", -1)),
    ("read", "preallocate", errno.EBADF, lambda file: file.preallocate(100)),
    ("read", "truncate", errno.EINVAL, lambda file: file.truncate(0)),
    ("write", "truncate", errno.EINVAL, lambda file: file.truncate(-1)),
    ("write", "read", errno.EINVAL, lambda file: file.pread(1, -1)),
    ("write", "read", errno.EINVAL, lambda file: file.pread(-1, 0)),
]


@pytest.fixture
def filled(disk: Disk, root: str) -> str:
    make(disk, f"{root}/file", b"content")
    disk.make_directory(f"{root}/empty")
    disk.make_directory(f"{root}/full")
    make(disk, f"{root}/full/inside")
    return root


@pytest.mark.parametrize(("operation", "error", "name", "call"), REFUSED)
def test_a_refused_call_says_what_where_and_why(
    disk: Disk,
    filled: str,
    operation: str,
    error: int,
    name: str,
    call: Callable[[Disk, str], object],
) -> None:
    before = disk.list(filled)
    with pytest.raises(DiskError) as caught:
        call(disk, filled)
    assert (caught.value.operation, caught.value.errno) == (operation, error)
    assert caught.value.path == f"{filled}/{name}"
    assert disk.list(filled) == before


@pytest.mark.parametrize(("error", "source", "target"), REFUSED_RENAMES)
def test_a_refused_rename_names_both_paths(
    disk: Disk, filled: str, error: int, source: str, target: str
) -> None:
    with pytest.raises(DiskError) as caught:
        disk.rename(f"{filled}/{source}", f"{filled}/{target}")
    assert caught.value.operation == f"rename to {filled}/{target}"
    assert (caught.value.path, caught.value.errno) == (f"{filled}/{source}", error)
    assert [entry.name for entry in disk.list(filled)] == ["empty", "file", "full"]
    assert content(disk, f"{filled}/file") == b"content"


def test_a_directory_is_not_read_as_a_file(disk: Disk, filled: str) -> None:
    # The real disk notices at the read, the test's at the open.
    with pytest.raises(DiskError) as caught:
        read_file(disk, f"{filled}/full", 100)
    assert (caught.value.path, caught.value.errno) == (f"{filled}/full", errno.EISDIR)


@pytest.mark.parametrize(("operation", "use"), USES)
def test_a_closed_file_refuses_everything(disk: Disk, filled: str, operation: str, use: Use) -> None:
    file = disk.open(f"{filled}/file", "write")
    use(file)
    file.close()
    file.close()
    with pytest.raises(DiskError) as caught:
        use(file)
    assert (caught.value.operation, caught.value.errno) == (operation, errno.EBADF)
    assert caught.value.path == f"{filled}/file"


@pytest.mark.parametrize(("mode", "operation", "error", "use"), MISUSES)
def test_a_misused_file_stays_as_it_is(
    disk: Disk, filled: str, mode: OpenMode, operation: str, error: int, use: Use
) -> None:
    file = disk.open(f"{filled}/file", mode)
    with pytest.raises(DiskError) as caught:
        use(file)
    assert (caught.value.operation, caught.value.errno) == (operation, error)
    assert (file.end, file.pread(100, 0)) == (7, b"content")
    file.close()


def test_a_negative_end_does_not_count_from_behind(disk: Disk, filled: str) -> None:
    file = disk.open(f"{filled}/file", "write")
    file.end = -2
    with pytest.raises(DiskError) as caught:
        file.append([b"x"])
    assert (caught.value.operation, caught.value.errno) == ("write", errno.EINVAL)
    assert file.pread(100, 0) == b"content"
    file.close()
