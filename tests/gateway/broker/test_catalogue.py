"""The catalogue: topics come, change and go, and the directory has one owner."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from barbicel.codecs.topic_file import Topic, encode_topic, render_id
from barbicel.disk import RealDisk
from barbicel.errors import DiskError, LogLocked
from barbicel.gateway.broker.catalogue import MAX_PARTITIONS, Catalogue
from barbicel.gateway.broker.cluster import PRODUCER_ID_BLOCK, random_id
from barbicel.gateway.broker.spare import SPARE_BYTES
from barbicel.gateway.broker.topic_errors import (
    CatalogueStopped,
    InvalidPartitions,
    InvalidSetting,
    InvalidTopic,
    TopicExists,
    UnknownTopic,
)
from tests.gateway.broker.catalogues import DATA, NOW_MS, opened, reopened
from tests.support.fault_disk import Call, FaultDisk


@pytest.fixture
def disk() -> FaultDisk:
    return FaultDisk()


@pytest.fixture
def catalogue(disk: FaultDisk) -> Catalogue:
    return opened(disk)


# Topics


def test_a_new_directory_has_no_topics(catalogue: Catalogue) -> None:
    assert list(catalogue) == []
    assert len(catalogue) == 0
    assert (catalogue.strays, catalogue.deleted) == ((), ())


def test_a_topic_is_there_for_good(disk: FaultDisk, catalogue: Catalogue) -> None:
    topic = catalogue.create("orders", 3, {"retention.ms": "5"})
    assert (topic.name, topic.partitions, topic.settings) == ("orders", 3, {"retention.ms": "5"})
    assert topic.created_ms == NOW_MS
    after = reopened(disk, catalogue)
    assert list(after) == [topic]
    assert after.by_name("orders") == after.by_id(topic.id) == topic


def test_topics_come_in_the_order_of_names(catalogue: Catalogue) -> None:
    for name in ("b", "c", "a"):
        catalogue.create(name, 1, {})
    assert [topic.name for topic in catalogue] == ["a", "b", "c"]


def test_what_is_not_there_is_not_found(catalogue: Catalogue) -> None:
    assert catalogue.by_name("none") is None
    assert catalogue.by_id(UUID(int=0)) is None
    with pytest.raises(UnknownTopic, match="'none'"):
        catalogue.delete("none")
    with pytest.raises(UnknownTopic, match="'none'"):
        catalogue.add_partitions("none", 5)
    with pytest.raises(UnknownTopic, match="'none'"):
        catalogue.change_settings("none", {})


def test_paths(catalogue: Catalogue) -> None:
    topic = catalogue.create("n" * 249, 2, {})
    directory = f"{DATA}/topics/{'n' * 200}-{render_id(topic.id)}"
    assert catalogue.layout.directory(topic) == directory
    assert catalogue.layout.partition(topic, 1) == f"{directory}/1"


def test_long_names_with_one_beginning_are_two_topics(disk: FaultDisk, catalogue: Catalogue) -> None:
    names = ["n" * 248 + "a", "n" * 248 + "b"]
    for name in names:
        catalogue.create(name, 1, {})
    assert [topic.name for topic in reopened(disk, catalogue)] == names


@pytest.mark.parametrize("name", ["a", ".a", "...", "A-b_c.9", "-", "__consumer_offsets", "x" * 249])
def test_good_names(catalogue: Catalogue, name: str) -> None:
    assert catalogue.create(name, 1, {}).name == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../a", "a b", "ä", "a\n", "a\0", "x" * 250, "٣", "a:b", "a+b"]
)
def test_bad_names(disk: FaultDisk, catalogue: Catalogue, name: str) -> None:
    before = disk.files()
    with pytest.raises(InvalidTopic):
        catalogue.create(name, 1, {})
    assert disk.files() == before


def test_a_name_is_given_once(catalogue: Catalogue) -> None:
    catalogue.create("a", 1, {})
    with pytest.raises(TopicExists, match="'a'"):
        catalogue.create("a", 1, {})


@pytest.mark.parametrize(("first", "second"), [("a.b", "a_b"), ("a_b", "a.b"), ("x._", "x_.")])
def test_a_point_and_an_underscore_count_as_the_same(
    disk: FaultDisk, catalogue: Catalogue, first: str, second: str
) -> None:
    catalogue.create(first, 1, {})
    after = reopened(disk, catalogue)
    with pytest.raises(InvalidTopic, match="collides"):
        after.create(second, 1, {})
    after.delete(first)
    assert after.create(second, 1, {}).name == second


def test_queues_may_collide(disk: FaultDisk, catalogue: Catalogue) -> None:
    names = ("a.b", "a_b")
    for name in names:
        catalogue.create(name, 1, {}, may_collide=True)
    catalogue.change_settings("a_b", {"retention.ms": "5"})
    with pytest.raises(TopicExists):
        catalogue.create("a.b", 1, {}, may_collide=True)
    after = reopened(disk, catalogue)
    assert {topic.name for topic in after} == set(names)
    # The rest of them still is in the way of others.
    after.delete("a.b")
    with pytest.raises(InvalidTopic, match="collides with 'a_b'"):
        after.create("a.b", 1, {})
    after.delete("a_b")
    assert after.create("a.b", 1, {}).name == "a.b"


def test_a_queue_has_one_partition(catalogue: Catalogue) -> None:
    with pytest.raises(InvalidPartitions, match="a Kestrel queue has one"):
        catalogue.create("q", 2, {"kestrel.queue": "true"})
    assert catalogue.by_name("q") is None
    catalogue.create("q", 1, {"kestrel.queue": "true"})
    with pytest.raises(InvalidPartitions, match="a Kestrel queue has one"):
        catalogue.add_partitions("q", 2)
    catalogue.create("t", 2, {"kestrel.queue": "false"})
    assert catalogue.add_partitions("t", 3).partitions == 3


@pytest.mark.parametrize("text", ["true", "false"])
def test_a_topic_stays_a_queue_or_none(disk: FaultDisk, catalogue: Catalogue, text: str) -> None:
    other = {"true": "false", "false": "true"}[text]
    catalogue.create("q", 1, {"kestrel.queue": text})
    with pytest.raises(InvalidSetting, match=f"'q' it stays {text}"):
        catalogue.change_settings("q", {"kestrel.queue": other})
    changed = catalogue.change_settings("q", {"kestrel.queue": text, "retention.ms": "5"})
    assert reopened(disk, catalogue).by_name("q") == changed


def test_settings_without_it_would_make_a_queue_none(catalogue: Catalogue) -> None:
    catalogue.create("q", 1, {"kestrel.queue": "true"})
    with pytest.raises(InvalidSetting):
        catalogue.change_settings("q", {"retention.ms": "5"})


@pytest.mark.parametrize("partitions", [0, -1, MAX_PARTITIONS + 1, 1 << 31])
def test_an_impossible_number_of_partitions(catalogue: Catalogue, partitions: int) -> None:
    with pytest.raises(InvalidPartitions):
        catalogue.create("a", partitions, {})
    assert catalogue.by_name("a") is None


def test_partitions_are_added(disk: FaultDisk, catalogue: Catalogue) -> None:
    topic = catalogue.create("a", 2, {"retention.ms": "5"})
    grown = catalogue.add_partitions("a", 4)
    assert (grown.partitions, grown.id, grown.settings) == (4, topic.id, topic.settings)
    assert catalogue.by_id(topic.id) == grown
    assert reopened(disk, catalogue).by_name("a") == grown


@pytest.mark.parametrize("total", [2, 1, 0, -5, MAX_PARTITIONS + 1])
def test_partitions_are_never_taken_away(catalogue: Catalogue, total: int) -> None:
    topic = catalogue.create("a", 2, {})
    with pytest.raises(InvalidPartitions):
        catalogue.add_partitions("a", total)
    assert catalogue.by_name("a") == topic


def test_settings_are_replaced(disk: FaultDisk, catalogue: Catalogue) -> None:
    catalogue.create("a", 2, {"retention.ms": "5"})
    changed = catalogue.change_settings("a", {"segment.ms": "6"})
    assert changed.settings == {"segment.ms": "6"}
    assert reopened(disk, catalogue).by_name("a") == changed


def test_asking_changes_nothing(disk: FaultDisk, catalogue: Catalogue) -> None:
    catalogue.create("a", 2, {})
    before = disk.files()
    catalogue.check_new("b", 1)
    with pytest.raises(TopicExists):
        catalogue.check_new("a", 1)
    assert catalogue.check_partitions("a", 3).partitions == 2
    with pytest.raises(InvalidPartitions):
        catalogue.check_partitions("a", 2)
    assert disk.files() == before


# Deletion


def test_a_deleted_topic_is_gone_at_once_and_its_files_later(disk: FaultDisk, catalogue: Catalogue) -> None:
    topic = catalogue.create("a", 1, {})
    disk.put(f"{catalogue.layout.partition(topic, 0)}/segments/0.log", b"x")
    disk.put(f"{catalogue.layout.directory(topic)}/notes.txt", b"x")
    deleted = catalogue.delete("a")
    assert catalogue.by_name("a") is catalogue.by_id(topic.id) is None
    assert catalogue.deleted == (deleted,)
    after = reopened(disk, catalogue)
    assert (list(after), after.deleted) == ([], (deleted,))
    after.remove_deleted(deleted)
    assert after.deleted == ()
    assert not any("topics" in path for path in disk.files())
    assert disk.list(after.layout.topics) == []
    assert reopened(disk, after).deleted == ()


def test_a_new_topic_of_the_old_name_has_nothing_of_the_old_one(
    disk: FaultDisk, catalogue: Catalogue
) -> None:
    old = catalogue.create("a", 1, {"retention.ms": "5"})
    deleted = catalogue.delete("a")
    new = catalogue.create("a", 2, {})
    assert new.id != old.id
    catalogue.remove_deleted(deleted)
    assert list(reopened(disk, catalogue)) == [new]


def test_only_a_deleted_topic_is_removed(catalogue: Catalogue) -> None:
    topic = catalogue.create("a", 1, {})
    with pytest.raises(UnknownTopic):
        catalogue.remove_deleted(topic)
    deleted = catalogue.delete("a")
    catalogue.remove_deleted(deleted)
    with pytest.raises(UnknownTopic):
        catalogue.remove_deleted(deleted)


def test_a_link_in_a_deleted_topic_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_bytes(b"x")
    with opened(RealDisk(), str(tmp_path / "data")) as catalogue:
        topic = catalogue.create("a", 1, {})
        Path(catalogue.layout.partition(topic, 0)).symlink_to(elsewhere)
        catalogue.remove_deleted(catalogue.delete("a"))
        assert not Path(catalogue.layout.directory(topic)).exists()
    assert (elsewhere / "precious").exists()


# The directory


def test_a_second_server_is_refused(disk: FaultDisk, catalogue: Catalogue) -> None:
    with pytest.raises(LogLocked):
        opened(disk)
    catalogue.close()
    opened(disk).close()


def test_a_closed_catalogue_takes_no_changes(catalogue: Catalogue) -> None:
    catalogue.close()
    with pytest.raises(CatalogueStopped):
        catalogue.create("a", 1, {})


def test_a_cluster_keeps_its_id(disk: FaultDisk, catalogue: Catalogue) -> None:
    identity = catalogue.cluster.id
    assert len(identity) == 22
    assert reopened(disk, catalogue).cluster.id == identity


def test_producer_ids_are_given_out_once(disk: FaultDisk, catalogue: Catalogue) -> None:
    first = [catalogue.cluster.new_producer_id() for _ in range(PRODUCER_ID_BLOCK + 5)]
    assert first == list(range(PRODUCER_ID_BLOCK + 5))
    assert reopened(disk, catalogue).cluster.new_producer_id() == 2 * PRODUCER_ID_BLOCK


def test_a_block_that_could_not_be_taken_is_not_used(disk: FaultDisk, catalogue: Catalogue) -> None:
    disk.fail("fdatasync", errno.EIO, path_contains="cluster.json.new")
    with pytest.raises(DiskError):
        catalogue.cluster.new_producer_id()
    assert catalogue.cluster.new_producer_id() == 0


def test_an_id_never_begins_like_a_flag() -> None:
    assert render_id(UUID(bytes=b"\xf8" + bytes(15), version=4)).startswith("-")
    candidates = iter([b"\xf8" + bytes(15), bytes(16)])
    assert random_id(lambda _: next(candidates)) == UUID(bytes=bytes(16), version=4)


def test_an_id_is_never_used_again(disk: FaultDisk) -> None:
    ids = iter([bytes([n]) + bytes(15) for n in (1, 2, 2, 3, 3, 4)])
    catalogue = Catalogue.open(disk, DATA, lambda: NOW_MS, lambda _: next(ids))
    topics = [catalogue.create("a", 1, {}), catalogue.create("b", 1, {})]
    catalogue.delete("b")
    topics.append(catalogue.create("c", 1, {}))
    assert [topic.id.bytes[0] for topic in topics] == [2, 3, 4]


def test_of_two_who_create_a_topic_at_once_one_does(disk: FaultDisk, catalogue: Catalogue) -> None:
    refused: list[TopicExists] = []

    def create_too() -> None:
        try:
            catalogue.create("a", 1, {})
        except TopicExists as error:
            refused.append(error)

    second = threading.Thread(target=create_too)

    def let_the_second_try(call: Call) -> None:
        disk.observer = None
        second.start()
        # It waits for the first one, which waits here: long enough for it to do wrong if it did not.
        second.join(0.2)

    disk.observer = let_the_second_try
    topic = catalogue.create("a", 1, {})
    second.join()
    assert (len(refused), list(catalogue)) == (1, [topic])


def test_ten_thousand_topics(disk: FaultDisk, catalogue: Catalogue) -> None:
    rng = Random(5)
    for number in range(10_000):
        topic = Topic(f"topic-{number}", random_id(rng.randbytes), 1, 0, {"retention.ms": "5"})
        disk.put(catalogue.layout.topic_file(topic), encode_topic(topic))
    after = reopened(disk, catalogue)
    assert len(after) == 10_000
    assert after.by_name("topic-9999") is not None


# A full disk


def fill(disk: FaultDisk) -> None:
    disk.capacity_bytes = disk.used_bytes


def test_a_full_disk_takes_settings_and_deletions_one_after_the_other(
    disk: FaultDisk, catalogue: Catalogue
) -> None:
    for name in ("a", "b", "c"):
        catalogue.create(name, 1, {})
    fill(disk)
    for age in ("1", "22", "333"):
        catalogue.change_settings("a", {"retention.ms": age})
    for name in ("b", "c"):
        catalogue.delete(name)
    after = reopened(disk, catalogue)
    assert [(topic.name, topic.settings) for topic in after] == [("a", {"retention.ms": "333"})]
    assert {topic.name for topic in after.deleted} == {"b", "c"}


def test_a_full_disk_without_a_spare_block_refuses_and_goes_on(disk: FaultDisk, catalogue: Catalogue) -> None:
    catalogue.create("a", 1, {})
    disk.unlink(catalogue.layout.spare)
    fill(disk)
    with pytest.raises(DiskError) as refused:
        catalogue.delete("a")
    assert refused.value.errno == errno.ENOSPC
    assert catalogue.by_name("a") is not None
    assert catalogue.is_running
    disk.capacity_bytes = None
    catalogue.remove_deleted(catalogue.delete("a"))
    assert disk.size(catalogue.layout.spare) == SPARE_BYTES


@pytest.mark.parametrize("left", [0, 100])
def test_what_is_left_of_a_spare_block_is_made_whole(
    disk: FaultDisk, catalogue: Catalogue, left: int
) -> None:
    file = disk.open(catalogue.layout.spare, "write")
    file.truncate(left)
    file.close()
    assert disk.size(reopened(disk, catalogue).layout.spare) == SPARE_BYTES


def test_a_full_disk_is_opened_without_a_spare_block(disk: FaultDisk, catalogue: Catalogue) -> None:
    disk.unlink(catalogue.layout.spare)
    fill(disk)
    assert disk.size(reopened(disk, catalogue).layout.spare) is None
