"""The catalogue over damaged files, foreign files and a disk that fails."""

from __future__ import annotations

import errno
from collections.abc import Callable
from uuid import UUID

import pytest

from barbicel.codecs.topic_file import Topic, encode_topic, render_id
from barbicel.errors import CorruptFile, DiskError, UnknownVersion
from barbicel.gateway.broker.catalogue import Catalogue
from barbicel.gateway.broker.topic_errors import (
    CatalogueStopped,
)
from tests.gateway.broker.catalogues import DATA, file_of, opened, reopened
from tests.support.fault_disk import FaultDisk


@pytest.fixture
def disk() -> FaultDisk:
    return FaultDisk()


@pytest.fixture
def catalogue(disk: FaultDisk) -> Catalogue:
    return opened(disk)


# What else lies there


def test_what_is_not_ours_is_reported_and_left_alone(disk: FaultDisk, catalogue: Catalogue) -> None:
    catalogue.create("a", 1, {})
    catalogue.close()
    disk.put(f"{DATA}/topics/README", b"hello")
    disk.make_directory(f"{DATA}/topics/empty")
    before = disk.files()
    with opened(disk) as after:
        assert after.strays == tuple(f"{DATA}/topics/{name}" for name in ("README", "empty"))
        assert [topic.name for topic in after] == ["a"]
    assert disk.files() == before
    assert disk.exists(f"{DATA}/topics/empty")


def test_a_topics_directory_without_its_file_stops_the_opening(disk: FaultDisk, catalogue: Catalogue) -> None:
    """Or the next client would create the topic anew, empty."""
    catalogue.close()
    directory = f"{DATA}/topics/b-{render_id(UUID(int=5))}"
    disk.put(f"{directory}/0/manifest.bin", b"a log without its topic")
    before = disk.files()
    with pytest.raises(CorruptFile, match="without its topic.json") as caught:
        opened(disk)
    assert caught.value.path == f"{directory}/topic.json"
    assert disk.files() == before


def test_an_empty_directory_that_a_crash_left_is_removed(disk: FaultDisk, catalogue: Catalogue) -> None:
    leftover = f"{DATA}/topics/a-{render_id(UUID(int=5))}"
    disk.make_directory(leftover)
    assert reopened(disk, catalogue).strays == ()
    assert not disk.exists(leftover)


# Damage


def test_every_damaged_byte_stops_the_opening(disk: FaultDisk, catalogue: Catalogue) -> None:
    catalogue.create("a", 1, {"retention.ms": "5"})
    path = file_of(catalogue, "a")
    catalogue.close()
    data = disk.files()[path]
    changed = [data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :] for at in range(len(data))]
    for content in [*changed, *(data[:size] for size in range(len(data)))]:
        disk.put(path, content)
        with pytest.raises(CorruptFile) as caught:
            opened(disk)
        assert caught.value.path == path
        assert "move its directory away" in str(caught.value)
        assert disk.files()[path] == content
    disk.put(path, data)
    assert opened(disk).by_name("a") is not None


def test_a_file_of_a_newer_version_stops_the_opening(
    disk: FaultDisk, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue.create("a", 1, {})
    topic = catalogue.by_name("a")
    assert topic is not None
    path = file_of(catalogue, "a")
    with monkeypatch.context() as patch:
        patch.setattr("barbicel.codecs.topic_file.FORMAT", 2)
        disk.put(path, encode_topic(topic))
    with pytest.raises(UnknownVersion, match="a newer version wrote it"):
        reopened(disk, catalogue)


def test_a_copied_directory_stops_the_opening(disk: FaultDisk, catalogue: Catalogue) -> None:
    catalogue.create("a", 1, {})
    data = disk.files()[file_of(catalogue, "a")]
    disk.put(f"{DATA}/topics/copy/topic.json", data)
    with pytest.raises(CorruptFile, match="neither copied nor renamed"):
        reopened(disk, catalogue)


def test_two_topics_of_one_name_stop_the_opening(disk: FaultDisk, catalogue: Catalogue) -> None:
    catalogue.create("a", 1, {})
    twin = Topic("a", UUID(int=7), 1, 0)
    disk.put(catalogue.layout.topic_file(twin), encode_topic(twin))
    with pytest.raises(CorruptFile, match="is also in"):
        reopened(disk, catalogue)


def test_a_failed_opening_lets_the_next_one_in(disk: FaultDisk, catalogue: Catalogue) -> None:
    catalogue.create("a", 1, {})
    path = file_of(catalogue, "a")
    data = disk.files()[path]
    disk.put(path, b"")
    with pytest.raises(CorruptFile):
        reopened(disk, catalogue)
    disk.put(path, data)
    assert len(opened(disk)) == 1


def test_a_file_that_cannot_be_read_stops_the_opening(disk: FaultDisk, catalogue: Catalogue) -> None:
    catalogue.create("a", 1, {})
    disk.fail("read", errno.EIO, path_contains="topic.json")
    with pytest.raises(DiskError, match="topic.json"):
        reopened(disk, catalogue)


def test_every_damaged_byte_of_the_cluster_file_stops_the_opening(
    disk: FaultDisk, catalogue: Catalogue
) -> None:
    catalogue.close()
    path = f"{DATA}/cluster.json"
    data = disk.files()[path]
    changed = [data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :] for at in range(len(data))]
    for content in [*changed, *(data[:size] for size in range(len(data)))]:
        disk.put(path, content)
        with pytest.raises(CorruptFile) as caught:
            opened(disk)
        assert caught.value.path == path


def test_a_lost_cluster_file_is_not_made_anew(disk: FaultDisk, catalogue: Catalogue) -> None:
    catalogue.close()
    disk.unlink(f"{DATA}/cluster.json")
    with pytest.raises(CorruptFile, match="producer ids could be given out twice"):
        opened(disk)


# Failures


@pytest.mark.parametrize(
    "fail",
    [
        lambda disk: disk.fail("mkdir", errno.ENOSPC),
        lambda disk: disk.fail("open", errno.EMFILE, path_contains="topic.json.new"),
        lambda disk: disk.fail("write", errno.ENOSPC, path_contains="topic.json.new", partial=7),
        lambda disk: disk.fail("fdatasync", errno.EIO, path_contains="topic.json.new"),
        lambda disk: disk.fail("rename", errno.EIO),
    ],
    ids=["mkdir", "create", "write", "sync", "rename"],
)
def test_a_creation_that_fails_before_it_counts_leaves_nothing(
    disk: FaultDisk, catalogue: Catalogue, fail: Callable[[FaultDisk], None]
) -> None:
    fail(disk)
    with pytest.raises(DiskError):
        catalogue.create("a", 1, {})
    assert catalogue.by_name("a") is None
    assert disk.list(f"{DATA}/topics") == []
    topic = catalogue.create("a", 1, {})
    assert list(reopened(disk, catalogue)) == [topic]


@pytest.mark.parametrize(
    "change",
    [
        lambda catalogue: catalogue.create("b", 1, {}),
        lambda catalogue: catalogue.add_partitions("a", 2),
        lambda catalogue: catalogue.change_settings("a", {"retention.ms": "5"}),
        lambda catalogue: catalogue.delete("a"),
    ],
    ids=["create", "partitions", "settings", "delete"],
)
def test_a_change_that_fails_half_way_is_the_last_one(
    disk: FaultDisk, catalogue: Catalogue, change: Callable[[Catalogue], Topic]
) -> None:
    before = catalogue.create("a", 1, {})
    disk.fail("fsync", errno.EIO, path_contains=f"{DATA}/topics/")
    with pytest.raises(DiskError):
        change(catalogue)
    assert list(catalogue) == [before]
    with pytest.raises(CatalogueStopped):
        change(catalogue)
    assert reopened(disk, catalogue).create("c", 1, {}).name == "c"


def test_a_change_that_fails_before_it_counts_leaves_all_as_it_was(
    disk: FaultDisk, catalogue: Catalogue
) -> None:
    topic = catalogue.create("a", 1, {})
    disk.fail("write", errno.EIO, path_contains="topic.json.new", partial=7)
    with pytest.raises(DiskError):
        catalogue.delete("a")
    assert list(catalogue) == [topic]
    assert catalogue.add_partitions("a", 2).partitions == 2


def test_a_removal_that_fails_can_be_done_again(disk: FaultDisk, catalogue: Catalogue) -> None:
    topic = catalogue.create("a", 1, {})
    disk.put(f"{catalogue.layout.partition(topic, 0)}/LOCK", b"")
    deleted = catalogue.delete("a")
    disk.fail("unlink", errno.EIO, path_contains="LOCK")
    with pytest.raises(DiskError):
        catalogue.remove_deleted(deleted)
    assert catalogue.deleted == (deleted,)
    catalogue.remove_deleted(deleted)
    assert disk.list(f"{DATA}/topics") == []
