"""The fault disk itself: what a crash leaves of contents and of names.

Faults on demand, numbering and limits are in test_faults.py.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barbicel.disk import Disk, Entry, File, Lock, copy_file, read_file, replace_file
from barbicel.errors import DiskError
from tests.support.fault_disk import SECTOR_BYTES, Call, Fate, FaultDisk
from tests.support.inodes import Inode

SEEDS = range(60)
OLD = b"o" * (4 * SECTOR_BYTES)
NEW = b"n" * (4 * SECTOR_BYTES)


@pytest.fixture
def disk() -> FaultDisk:
    disk = FaultDisk()
    disk.make_directory("/d")
    return disk


def crashed(disk: FaultDisk, fate: Fate, seed: int = 0) -> dict[str, bytes]:
    return disk.crash(fate, random.Random(seed)).files()


def torn(disk: FaultDisk) -> list[dict[str, bytes]]:
    return [crashed(disk, Fate.TEAR, seed) for seed in SEEDS]


def overwrite(disk: FaultDisk, path: str, data: bytes) -> None:
    file = disk.open(path, "write")
    file.end = 0
    file.append([data])
    file.close()


def test_it_is_a_disk(disk: FaultDisk) -> None:
    as_disk: Disk = disk
    as_file: File = disk.open("/d/a", "create")
    as_lock: Lock = disk.lock("/d/LOCK")
    assert as_disk.exists(as_file.path)
    as_lock.release()


# Contents


def test_mapped_bytes_reach_the_disk_in_any_order_until_they_are_synced(disk: FaultDisk) -> None:
    disk.put("/d/a", OLD)
    file = disk.open("/d/a", "write")
    mapped = file.map(len(OLD))
    mapped.write(0, NEW)
    assert crashed(disk, Fate.DROP) == {"/d/a": OLD}
    assert crashed(disk, Fate.KEEP) == {"/d/a": NEW}
    # The last sector without the first: no order holds.
    assert any(found["/d/a"][:1] == b"o" and found["/d/a"][-1:] == b"n" for found in torn(disk))
    mapped.close()
    assert crashed(disk, Fate.DROP) == {"/d/a": OLD}
    file.fdatasync()
    assert {found["/d/a"] for found in torn(disk)} == {NEW}


def test_a_crash_comes_between_two_bytes_of_a_copy_into_a_mapping(disk: FaultDisk) -> None:
    disk.put("/d/a", OLD)
    mapped = disk.open("/d/a", "write").map(len(OLD))
    found: list[bytes] = []

    def cut(call: Call) -> None:
        assert (call.operation, call.data) == ("write", b"nnn")
        found.append(disk.crash(Fate.KEEP, random.Random(0), torn_append=2).files()["/d/a"])

    disk.observer = cut
    mapped.write(1, b"nnn")
    assert found == [b"onno" + OLD[4:]]


def test_unsynced_content_is_dropped_or_kept(disk: FaultDisk) -> None:
    disk.put("/d/a", OLD)
    overwrite(disk, "/d/a", NEW + b"tail")
    assert crashed(disk, Fate.DROP) == {"/d/a": OLD}
    assert crashed(disk, Fate.KEEP) == {"/d/a": NEW + b"tail"}


def test_a_tear_takes_each_dirty_sector_or_leaves_it(disk: FaultDisk) -> None:
    disk.put("/d/a", OLD)
    file = disk.open("/d/a", "write")
    file.end = SECTOR_BYTES + 100
    file.append([b"n" * SECTOR_BYTES])  # parts of the second and the third sector
    was = [OLD[at : at + SECTOR_BYTES] for at in range(0, len(OLD), SECTOR_BYTES)]
    now = [b"o" * 512, b"o" * 100 + b"n" * 412, b"n" * 100 + b"o" * 412, b"o" * 512]
    images = {files["/d/a"] for files in torn(disk)}
    assert images == {
        was[0] + second + third + was[3] for second in (was[1], now[1]) for third in (was[2], now[2])
    }


def test_a_torn_growth_has_the_old_size_or_the_new_one_or_whole_sectors_between(
    disk: FaultDisk,
) -> None:
    disk.put("/d/a", b"o" * 100)
    file = disk.open("/d/a", "write")
    file.append([b"n" * 1500])
    images = [files["/d/a"] for files in torn(disk)]
    assert {len(image) for image in images} == {100, 512, 1024, 1536, 1600}
    # The first sector is dirty: its old image is the old bytes, then zeros up to the size.
    assert {image[:100] for image in images} == {b"o" * 100}
    assert {image[100:512] for image in images} == {b"", b"n" * 412, bytes(412)}
    assert {image[512:1024] for image in images} == {b"", b"n" * 512, bytes(512)}
    assert {image[1536:] for image in images} == {b"", b"n" * 64, bytes(64)}


def test_a_torn_truncation_may_bring_old_bytes_back(disk: FaultDisk) -> None:
    disk.put("/d/a", b"o" * 1000)
    file = disk.open("/d/a", "write")
    file.truncate(600)
    assert crashed(disk, Fate.DROP)["/d/a"] == b"o" * 1000
    images = {files["/d/a"] for files in torn(disk)}
    # The size, then the second sector: 88 bytes of it stay in the new image, zeros behind.
    assert images == {b"o" * 600, b"o" * 1000, b"o" * 600 + bytes(400)}


def test_bytes_cut_off_do_not_come_back_once_zeros_in_their_place_are_synced(
    disk: FaultDisk,
) -> None:
    disk.put("/d/a", OLD)
    file = disk.open("/d/a", "write")
    file.truncate(10)
    file.preallocate(len(OLD))
    assert OLD in [files["/d/a"] for files in torn(disk)] + [crashed(disk, Fate.DROP)["/d/a"]]
    file.fdatasync()
    for fate in Fate:
        assert crashed(disk, fate)["/d/a"] == OLD[:10].ljust(len(OLD), b"\0")


def test_what_is_synced_survives_everything(disk: FaultDisk) -> None:
    file = disk.open("/d/a", "create")
    file.append([NEW, b"tail"])
    file.preallocate(5000)
    file.fdatasync()
    disk.sync_directory("/d")
    expected = {"/d/a": (NEW + b"tail").ljust(5000, b"\0")}
    assert [crashed(disk, Fate.DROP), crashed(disk, Fate.KEEP)] == [expected, expected]
    assert torn(disk) == [expected] * len(SEEDS)


@pytest.mark.parametrize("written", [b"", b"written"])
def test_a_write_that_is_only_imagined_leaves_the_inode_alone(written: bytes) -> None:
    inode = Inode(b"synced")
    inode.write(6, written)
    imagined = inode.with_write(len(inode.current), b" and imagined")
    assert imagined.current == b"synced" + written + b" and imagined"
    assert inode.current == b"synced" + written
    assert inode.is_dirty() == bool(written)
    inode.replace(b"put")
    assert (inode.current, inode.synced, inode.is_dirty()) == (b"put", b"put", False)


_STEP = st.one_of(
    st.tuples(st.just("write"), st.integers(0, 1600), st.integers(1, 1200)),
    st.tuples(st.just("resize"), st.integers(0, 2600), st.just(0)),
    st.tuples(st.just("sync"), st.just(0), st.just(0)),
)


@given(st.lists(_STEP, max_size=12), st.integers(0, 1 << 30))
def test_any_history_leaves_old_or_new_sectors(steps: list[tuple[str, int, int]], seed: int) -> None:
    """Against a model that copies whole files where the inode tracks sectors."""
    inode, old, new = Inode(), b"", b""
    for number, (step, at, size) in enumerate(steps):
        if step == "write":
            data = bytes([number + 1]) * size
            inode.write(at, data)
            new = new[:at].ljust(at, b"\0") + data + new[at + size :]
        elif step == "resize":
            inode.resize(at)
            new = new[:at].ljust(at, b"\0")
        else:
            inode.sync()
            old = new
            assert not inode.is_dirty()
    rng = random.Random(seed)
    assert (bytes(inode.current), inode.synced) == (new, old)
    assert inode.content_after(Fate.DROP, rng) == old
    assert inode.content_after(Fate.KEEP, rng) == new
    image = inode.content_after(Fate.TEAR, rng)
    between = len(old) < len(image) < len(new) and len(image) % SECTOR_BYTES == 0
    assert len(image) in (len(old), len(new)) or between
    for start in range(0, len(image), SECTOR_BYTES):
        end = min(start + SECTOR_BYTES, len(image))
        padded = [side[start:end].ljust(end - start, b"\0") for side in (old, new)]
        assert image[start:end] in padded


# Names


def test_unsynced_names_are_dropped_or_kept(disk: FaultDisk) -> None:
    disk.put("/d/gone", b"1")
    disk.unlink("/d/gone")
    file = disk.open("/d/fresh", "create")
    file.append([b"2"])
    file.fdatasync()
    assert crashed(disk, Fate.DROP) == {"/d/gone": b"1"}
    assert crashed(disk, Fate.KEEP) == {"/d/fresh": b"2"}
    disk.sync_directory("/d")
    assert crashed(disk, Fate.DROP) == {"/d/fresh": b"2"}


def test_a_synced_name_does_not_make_its_content_durable(disk: FaultDisk) -> None:
    disk.open("/d/a", "create").append([b"content"])
    disk.sync_directory("/d")
    assert crashed(disk, Fate.DROP) == {"/d/a": b""}
    assert {files["/d/a"] for files in torn(disk)} == {b"", b"content", bytes(7)}


def test_an_unsynced_rename_is_there_or_not_but_never_half(disk: FaultDisk) -> None:
    disk.put("/d/a", b"old")
    disk.put("/d/b", b"new")
    disk.rename("/d/b", "/d/a")
    before, after = {"/d/a": b"old", "/d/b": b"new"}, {"/d/a": b"new"}
    assert crashed(disk, Fate.DROP) == before
    assert crashed(disk, Fate.KEEP) == after
    found = torn(disk)
    assert before in found
    assert after in found
    assert all(files in (before, after) for files in found)


def test_a_directory_keeps_a_prefix_of_its_changes(disk: FaultDisk) -> None:
    disk.put("/d/0", b"")
    for number in range(1, 4):
        disk.rename(f"/d/{number - 1}", f"/d/{number}")
        disk.open(f"/d/new{number}", "create").close()
    states = {" ".join(sorted(name[3:] for name in files)) for files in torn(disk)}
    assert states == {
        "0",
        "1",
        "1 new1",
        "2 new1",
        "2 new1 new2",
        "3 new1 new2",
        "3 new1 new2 new3",
    }


def test_a_rename_between_directories_is_two_changes(disk: FaultDisk) -> None:
    disk.make_directory("/e")
    disk.put("/d/a", b"1")
    disk.rename("/d/a", "/e/a")
    assert {" ".join(sorted(files)) for files in torn(disk)} == {"", "/d/a", "/e/a", "/d/a /e/a"}
    disk.sync_directory("/e")
    assert {" ".join(sorted(files)) for files in torn(disk)} == {"/e/a", "/d/a /e/a"}
    disk.sync_directory("/d")
    assert crashed(disk, Fate.DROP) == {"/e/a": b"1"}


def test_a_directory_stays_in_its_parent(disk: FaultDisk) -> None:
    disk.make_directory("/d/x/y")
    with pytest.raises(DiskError) as caught:
        disk.rename("/d/x", "/e")
    assert caught.value.errno == errno.EXDEV
    assert disk.list("/") == [Entry("d", 0, True)]


def test_two_names_of_one_file_after_a_crash_are_one_file(disk: FaultDisk) -> None:
    disk.make_directory("/e")
    disk.put("/d/a", b"1")
    disk.rename("/d/a", "/e/a")
    disk.sync_directory("/e")
    found = disk.crash(Fate.DROP, random.Random(0))
    overwrite(found, "/d/a", b"2")
    found.rename("/d/a", "/e/a")  # rename(2) does nothing then
    assert found.files() == {"/d/a": b"2", "/e/a": b"2"}


def test_a_made_directory_is_durable_and_its_neighbours_are_not(disk: FaultDisk) -> None:
    disk.open("/d/file", "create").close()
    disk.make_directory("/d/x/y")
    found = disk.crash(Fate.DROP, random.Random(0))
    assert found.list("/d") == [Entry("x", 0, True)]
    assert found.list("/d/x") == [Entry("y", 0, True)]


def test_a_directory_made_in_the_place_of_a_file_is_durable(disk: FaultDisk) -> None:
    disk.put("/d/a", b"1")
    disk.rename("/d/a", "/d/b")
    disk.make_directory("/d/a")
    for fate in Fate:
        found = disk.crash(fate, random.Random(0))
        assert found.list("/d") == [Entry("a", 0, True), Entry("b", 1, False)]


@pytest.mark.parametrize("fate", Fate)
def test_replaced_and_copied_files_are_durable_on_return(disk: FaultDisk, fate: Fate) -> None:
    disk.put("/d/a", OLD)
    disk.make_directory("/e")
    disk.make_directory("/tmp")
    replace_file(disk, "/tmp/a", "/d/a", [NEW])
    copy_file(disk, "/d/a", "/e/copy")
    assert crashed(disk, fate) == {"/d/a": NEW, "/e/copy": NEW}


# The whole of it: does a crash campaign find what it is there to find?


def careless_replace(disk: Disk, temporary: str, path: str, pieces: list[bytes]) -> None:
    file = disk.open(temporary, "create")
    file.append(pieces)
    file.close()
    disk.rename(temporary, path)
    disk.sync_directory("/d")


def states_of(replace: Callable[[Disk, str, str, list[bytes]], None]) -> set[bytes | None]:
    """What /d/a holds after a crash at any call, and after the last one."""
    disk = FaultDisk()
    disk.put("/d/a", OLD)
    disk.make_directory("/tmp")
    found: set[bytes | None] = set()

    def cut(call: Call) -> None:
        tears = range(len(call.data) + 1) if call.operation == "write" else [None]
        for torn_append in tears:
            for fate in Fate:
                rng = random.Random(f"{call.number} {torn_append}")
                after = disk.crash(fate, rng, torn_append=torn_append)
                found.add(read_file(after, "/d/a", 1 << 20) if after.exists("/d/a") else None)

    disk.observer = cut
    replace(disk, "/tmp/a", "/d/a", [NEW])
    for seed in SEEDS:
        found.add(crashed(disk, Fate.TEAR, seed).get("/d/a"))
    return found


def test_a_campaign_accepts_the_careful_and_convicts_the_careless() -> None:
    assert states_of(replace_file) == {OLD, NEW}
    assert len(states_of(careless_replace) - {OLD, NEW}) > 1
