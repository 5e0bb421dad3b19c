"""A directory of objects where disks, crashes and other processes come in.

What it does otherwise is in test_object_store.py.
"""

from __future__ import annotations

import errno
import hashlib
import multiprocessing
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barbicel.disk import TICK_MS, Bytes, RealDisk
from barbicel.errors import ObjectChanged, ObjectExists, ObjectMissing, StoreError, StoreRefused
from barbicel.tier.directory import DirectoryObjects
from tests.support.fault_disk import Call, Fate, FaultDisk, PowerCut

ROOT = "/store"
OLD, NEW = b"old" * 700, b"new" * 900


def open_on(disk: FaultDisk) -> DirectoryObjects:
    return DirectoryObjects(ROOT, disk=disk)


def objects(disk: FaultDisk) -> dict[str, bytes]:
    store = open_on(disk)
    try:
        return {info.key: store.get(info.key) for info in store.list("")}
    except StoreRefused:
        return {}


# Layout


def test_an_object_is_a_plain_file(tmp_path: Path) -> None:
    store = DirectoryObjects(str(tmp_path), disk=RealDisk())
    store.put_new("ns/topic/0/segment-1.kfs", [b"content"], {"name": "value"})
    assert (tmp_path / "ns/topic/0/segment-1.kfs").read_bytes() == b"content"
    (tmp_path / "ns/topic/0/segment-2.kfs").write_bytes(b"by hand")
    assert store.get("ns/topic/0/segment-2.kfs") == b"by hand"
    assert [info.size for info in store.list("ns/")] == [7, 7]
    assert store.metadata("ns/topic/0/segment-2.kfs") == {}
    (tmp_path / "ns/topic/0/segment-1.kfs").write_bytes(b"changed by hand")
    assert store.metadata("ns/topic/0/segment-1.kfs") == {}


def test_names_that_a_file_system_cannot_have_are_objects_too(tmp_path: Path) -> None:
    store = DirectoryObjects(str(tmp_path), disk=RealDisk())
    keys = ["n" * 1000, f"{'d' * 500}.kfs/{'é' * 200}", "%" * 1000, f"{'x' * 239}.{'y' * 300}"]
    for key in keys:
        store.put_new(key, [key.encode()])
    assert sorted(info.key for info in store.list("")) == sorted(keys)
    assert [info.key for info in store.list(f"{'d' * 500}.kfs/é")] == [keys[1]]
    for key in keys:
        assert store.get(key) == key.encode()
        store.delete(key)
    assert [path.name for path in tmp_path.iterdir()] == [".barbicel"]


def test_reading_changes_nothing(tmp_path: Path) -> None:
    store = DirectoryObjects(str(tmp_path), disk=RealDisk())
    (tmp_path / "object.kfs").write_bytes(b"content")
    assert store.get("object.kfs") == b"content"
    assert [info.key for info in store.list("")] == ["object.kfs"]
    assert store.proves(store.head("object.kfs"), hashlib.md5(b"content").hexdigest())
    assert not store.proves(store.head("object.kfs"), hashlib.md5(b"other").hexdigest())
    assert [path.name for path in tmp_path.iterdir()] == ["object.kfs"]


def test_a_directory_that_is_not_there_is_not_an_empty_store(tmp_path: Path) -> None:
    store = DirectoryObjects(str(tmp_path / "not-mounted"), disk=RealDisk())
    for read in (store.get, store.head, store.metadata, store.list):
        with pytest.raises(StoreRefused, match="is it mounted"):
            read("key")
    store.put_new("key", [b"1"])
    assert store.get("key") == b"1"


def test_deleting_leaves_no_empty_directories_and_no_metadata(tmp_path: Path) -> None:
    store = DirectoryObjects(str(tmp_path), disk=RealDisk())
    store.put_new("a/b/c/d.kfs", [b"1"], {"name": "value"})
    store.put_new("a/e.kfs", [b"1"])
    store.delete("a/b/c/d.kfs")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["e.kfs"]
    assert list((tmp_path / ".barbicel/metadata").iterdir()) == []
    store.close()
    assert list((tmp_path / ".barbicel/writers").iterdir()) == []


def test_damaged_metadata_is_an_error_and_the_object_is_readable(tmp_path: Path) -> None:
    store = DirectoryObjects(str(tmp_path), disk=RealDisk())
    store.put_new("key", [b"content"], {"name": "value"})
    (path,) = (tmp_path / ".barbicel/metadata").iterdir()
    for damage in (b"", b"{", b"[]", b'{"etag": 1}', path.read_bytes()[:-9]):
        path.write_bytes(damage)
        with pytest.raises(StoreError, match="damaged"):
            store.metadata("key")
    assert store.get("key") == b"content"


@pytest.mark.parametrize(("age_ms", "waits"), [(0, 1), (TICK_MS, 1), (-TICK_MS, 1), (TICK_MS + 1, 0)])
def test_no_file_is_removed_in_the_tick_of_the_clock_it_was_written_in(
    tmp_path: Path, age_ms: int, waits: int
) -> None:
    """Its inode, its time and so its etag could come back with another content."""
    slept: list[float] = []
    now_ms = 1_000_000
    store = DirectoryObjects(str(tmp_path), disk=RealDisk(), clock=lambda: now_ms, sleep=slept.append)
    store.put_new("key.kfs", [b"1"])
    removals: list[Callable[[], object]] = [
        lambda: store.replace("key.kfs", [b"2"], store.head("key.kfs").etag),
        lambda: store.put_large("key.kfs", iter([b"3"])),
        lambda: store.delete("key.kfs"),
    ]
    for number, remove in enumerate(removals, 1):
        written_ms = now_ms - age_ms
        os.utime(tmp_path / "key.kfs", ns=(written_ms * 1_000_000, written_ms * 1_000_000))
        remove()
        assert slept == [TICK_MS / 1000] * waits * number


# Crashes

BEFORE = dict.fromkeys(("a/kept", "a/old", "c/kept"), OLD)
Write = Callable[[DirectoryObjects], object]


def replace(store: DirectoryObjects) -> object:
    return store.replace("a/old", [NEW], store.head("a/old").etag)


WRITES: dict[str, tuple[Write, dict[str, bytes]]] = {
    "put_new": (lambda store: store.put_new("a/new", [NEW]), {**BEFORE, "a/new": NEW}),
    "put_new with metadata": (
        lambda store: store.put_new("b/new", [NEW], {"name": "value"}),
        {**BEFORE, "b/new": NEW},
    ),
    "replace": (replace, {**BEFORE, "a/old": NEW}),
    "put_headed": (
        lambda store: store.put_headed("a/old", 3, iter([[NEW[3:500]], [NEW[500:]]]), lambda: NEW[:3]),
        {**BEFORE, "a/old": NEW},
    ),
    "put_large": (
        lambda store: store.put_large("a/old", iter([NEW[:500], NEW[500:]])),
        {**BEFORE, "a/old": NEW},
    ),
    "delete": (lambda store: store.delete("a/old"), {"c/kept": OLD, "a/kept": OLD}),
    "delete the last in a directory": (
        lambda store: store.delete("c/kept"),
        {"a/kept": OLD, "a/old": OLD},
    ),
}


def prepared() -> FaultDisk:
    disk = FaultDisk()
    store = open_on(disk)
    for key in BEFORE:
        store.put_new(key, [OLD], {"name": "old"})
    store.close()
    return disk


def calls_of(write: Write) -> int:
    disk = prepared()
    before = disk.calls
    write(open_on(disk))
    return disk.calls - before


@pytest.mark.parametrize(("write", "after"), WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("fate", Fate)
def test_a_crash_leaves_the_old_object_or_the_new_one(
    write: Write, after: dict[str, bytes], fate: Fate
) -> None:
    for stop in range(1, calls_of(write) + 1):
        disk = prepared()
        last = disk.calls + stop
        found: list[FaultDisk] = []

        def cut(call: Call) -> None:
            if call.number == last:  # noqa: B023 - used at once
                found.extend(disk.crash(fate, random.Random(seed)) for seed in range(6))  # noqa: B023
                raise PowerCut

        disk.observer = cut
        with pytest.raises(PowerCut):
            write(open_on(disk))
        for crashed in found:
            assert objects(crashed) in (BEFORE, after), (stop, fate)
            check_usable(crashed)


def check_usable(disk: FaultDisk) -> None:
    """What the crash has left is swept by the next write, and everything goes on."""
    store = open_on(disk)
    for info in store.list(""):
        assert store.metadata(info.key) in ({}, {"name": "old"}, {"name": "value"})
        assert store.get(store.replace(info.key, [b"again"], info.etag).key) == b"again"
    store.put_new("next", [b"next"])
    store.close()
    left = [path for path in disk.files() if "/writers/" in path]
    assert left == []


@pytest.mark.parametrize(("write", "after"), WRITES.values(), ids=WRITES)
def test_on_return_everything_is_durable(write: Write, after: dict[str, bytes]) -> None:
    disk = prepared()
    write(open_on(disk))
    for fate in Fate:
        for seed in range(6):
            assert objects(disk.crash(fate, random.Random(seed))) == after


FAILURES = [
    ("write", errno.ENOSPC, True),
    ("fdatasync", errno.EIO, True),
    ("create", errno.EMFILE, True),
    ("rename", errno.EIO, True),
    ("rename", errno.EROFS, False),
    ("create", errno.EACCES, False),
]


@pytest.mark.parametrize(("operation", "error", "is_passing"), FAILURES)
@pytest.mark.parametrize("name", ["put_new", "replace", "put_large", "put_headed"])
def test_a_disk_that_fails_leaves_what_was_there(
    name: str, operation: str, error: int, is_passing: bool
) -> None:
    disk = prepared()
    store = open_on(disk)
    store.delete("never there")  # makes what every write needs
    disk.fail(operation, error, path_contains="/writers/")  # type: ignore[arg-type]
    write, after = WRITES[name]
    with pytest.raises(StoreError) as caught:
        write(store)
    assert caught.value.is_passing == is_passing
    assert isinstance(caught.value, StoreRefused) != is_passing
    assert objects(disk) == BEFORE
    write(store)
    assert objects(disk) == after
    store.close()
    assert [path for path in disk.files() if "/writers/" in path] == []


def test_pieces_that_fail_leave_no_temporary() -> None:
    def pieces() -> Iterator[Bytes]:
        yield NEW
        raise KeyError

    disk = prepared()
    store = open_on(disk)
    with pytest.raises(KeyError):
        store.put_large("a/new", pieces())
    assert [path for path in disk.files() if "/writers/" in path and "LOCK" not in path] == []


def test_a_temporary_that_cannot_be_removed_is_removed_by_and_by() -> None:
    disk = prepared()
    store = open_on(disk)
    store.delete("never there")
    disk.fail("write", errno.ENOSPC, path_contains="/writers/")
    disk.fail("unlink", errno.EIO, path_contains="/writers/")
    with pytest.raises(StoreError, match="No space left"):
        store.put_large("a/new", iter([NEW]))
    store.put_new("a/new", [NEW], {"name": "value"})
    assert [path for path in disk.files() if "/writers/" in path and "LOCK" not in path] == []


# Other processes


def write_many(root: str, name: str, rounds: int, won: multiprocessing.Queue[str]) -> None:
    store = DirectoryObjects(root, disk=RealDisk())
    for number in range(rounds):
        try:
            store.put_new(f"new/{number}", [name.encode()])
            won.put(f"new/{number}")
        except ObjectExists:
            pass
    done = 0
    while done < rounds:
        info = store.head("counter")
        value = int(store.get("counter"))
        try:
            store.replace("counter", [b"%d" % (value + 1)], info.etag)
            done += 1
        except ObjectChanged:
            pass
    store.close()
    won.put("")


def test_conditions_hold_between_processes(tmp_path: Path) -> None:
    root, rounds, writers = str(tmp_path / "store"), 12, 3
    store = DirectoryObjects(root, disk=RealDisk())
    store.put_new("counter", [b"0"])
    context = multiprocessing.get_context("spawn")
    won: multiprocessing.Queue[str] = context.Queue()
    processes = [context.Process(target=write_many, args=(root, str(n), rounds, won)) for n in range(writers)]
    for process in processes:
        process.start()
    told: list[str] = []
    while told.count("") < writers:
        told.append(won.get(timeout=60))
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert int(store.get("counter")) == rounds * writers
    assert sorted(filter(None, told)) == sorted(f"new/{number}" for number in range(rounds))


def test_a_store_whose_directory_was_emptied_goes_on(tmp_path: Path) -> None:
    root = tmp_path / "store"
    store = DirectoryObjects(str(root), disk=RealDisk())
    store.put_new("key", [b"1"])

    def pieces() -> Iterator[Bytes]:
        yield OLD
        shutil.rmtree(root)

    with pytest.raises(StoreError) as caught:
        store.put_large("key", pieces())
    assert caught.value.is_passing
    store.put_new("key", [b"2"])
    assert store.get("key") == b"2"


def test_a_living_writer_keeps_its_temporaries(tmp_path: Path) -> None:
    """A writer opens the store while another one is in the middle of an object."""
    first = DirectoryObjects(str(tmp_path), disk=RealDisk())

    def pieces() -> Iterator[Bytes]:
        yield OLD
        second = DirectoryObjects(str(tmp_path), disk=RealDisk())
        second.put_new("second", [b"2"])
        second.close()
        yield NEW

    first.put_large("first", pieces())
    assert first.get("first") == OLD + NEW
    assert first.get("second") == b"2"


def test_a_lock_that_is_never_released_is_a_passing_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barbicel.tier.directory_changes.LOCK_WAIT_MS", 50)
    store = DirectoryObjects(str(tmp_path), disk=RealDisk())
    store.put_new("key", [b"1"])
    lock = RealDisk().lock(str(tmp_path / ".barbicel/LOCK"))
    with pytest.raises(StoreError, match="already open by process") as caught:
        store.put_new("other", [b"1"])
    assert caught.value.is_passing
    assert store.get("key") == b"1"
    lock.release()
    with pytest.raises(ObjectMissing):
        store.get("other")
    store.put_new("other", [b"1"])
