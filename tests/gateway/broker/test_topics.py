"""Topics that are created, changed and deleted, in whatever order that is asked for."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from barbicel.errors import BarbicelError, DiskError
from barbicel.gateway.broker.consumption import Position
from barbicel.gateway.broker.topic_errors import TopicExists, UnknownTopic
from barbicel.keratin import Log
from tests.gateway.kafka.in_memory import Gateway, batch, in_memory_gateway
from tests.gateway.kafka.requests import only, produce, produced
from tests.support.fault_disk import Call, Fate, FaultDisk, Operation


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with in_memory_gateway(tmp_path / "data") as gateway:
        yield gateway


def test_lookups(gateway: Gateway) -> None:
    topic = gateway.create("t", partitions=2)
    topics = gateway.broker.topics
    assert topics.by_name("t") is topics.by_id(topic.id_bytes) is topics.find("t", None) is topic
    assert topics.find(None, topic.id_bytes) is topic
    assert topics.find(None, None) is None
    assert topics.partition("t", 1) is topic.partitions[1]
    assert topics.partition("t", 2) is topics.partition("t", -1) is topics.partition("u", 0) is None


def test_a_deleted_topic_is_gone_at_once_and_its_name_is_free(gateway: Gateway) -> None:
    old = gateway.create()
    deleting = gateway.broker.topics.delete("t")
    assert gateway.broker.topics.by_name("t") is None
    gateway.reactor.result(deleting)
    new = gateway.create()
    assert new.id_bytes != old.id_bytes
    assert gateway.broker.topics.by_id(old.id_bytes) is None


def test_a_topic_deleted_while_it_is_being_created_does_not_come_back(gateway: Gateway) -> None:
    topics = gateway.broker.topics
    creating, deleting = topics.create("t", 2, {}), topics.delete("t")
    created = gateway.reactor.result(creating)
    gateway.reactor.result(deleting)
    assert topics.by_name("t") is None
    assert topics.by_id(created.id_bytes) is None
    assert not created.partitions[0].is_writable
    gateway.create()


def test_partitions_added_twice_in_a_row_and_then_deleted(gateway: Gateway) -> None:
    gateway.create()
    topics = gateway.broker.topics
    changes: list[Any] = [topics.add_partitions("t", 2), topics.add_partitions("t", 4), topics.delete("t")]
    two, four, _ = [gateway.reactor.result(change) for change in changes]
    assert len(four.partitions) == 4
    assert two is four
    assert topics.by_name("t") is None
    assert not any(partition.is_writable for partition in four.partitions)


def test_settings_changed_while_the_topic_is_deleted(gateway: Gateway) -> None:
    gateway.create()
    topics = gateway.broker.topics

    def longer(settings: Mapping[str, str]) -> Mapping[str, str]:
        return {**settings, "retention.ms": "5"}

    changing, deleting = topics.change_settings("t", longer), topics.delete("t")
    assert gateway.reactor.result(changing).values.retention_ms == 5
    gateway.reactor.result(deleting)
    with pytest.raises(UnknownTopic):
        gateway.reactor.result(topics.change_settings("t", longer))


def test_settings_reach_every_partition(gateway: Gateway) -> None:
    topic = gateway.create(partitions=2)
    changing = gateway.broker.topics.change_settings("t", lambda _: {"max.message.bytes": "77"})
    gateway.reactor.result(changing)
    assert [partition.values.max_message_bytes for partition in topic.partitions] == [77, 77]


def test_what_exists_is_not_created_again(gateway: Gateway) -> None:
    gateway.create()
    with pytest.raises(TopicExists):
        gateway.create()


def test_a_topic_whose_logs_cannot_be_made_leaves_nothing_behind(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, **_: object) -> Log:
        raise DiskError("open", path, OSError(errno.ENOSPC, "full"))

    with monkeypatch.context() as patch:
        patch.setattr("barbicel.gateway.broker.partition_opening.Log.open", refuse)
        with pytest.raises(DiskError):
            gateway.create()
    gateway.create()


def test_partitions_that_cannot_all_be_made_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with in_memory_gateway(tmp_path / "data") as gateway:
        topic = gateway.create()
        really_open = Log.open

        def refuse_the_third(path: str, **more: Any) -> Log:
            if path.endswith("/3"):
                raise DiskError("open", path, OSError(errno.EMFILE, "too many open files"))
            return really_open(path, **more)

        with monkeypatch.context() as patch:
            patch.setattr("barbicel.gateway.broker.partition_opening.Log.open", refuse_the_third)
            with pytest.raises(DiskError):
                gateway.reactor.result(gateway.broker.topics.add_partitions("t", 5))
        assert len(topic.partitions) == 1
        assert gateway.broker.catalogue.by_name("t") == topic.topic
        directory = Path(gateway.broker.catalogue.layout.directory(topic.topic))
        assert sorted(path.name for path in directory.iterdir()) == ["0", "topic.json"]
        assert gateway.broker.descriptors.partitions == 1
    with in_memory_gateway(tmp_path / "data") as gateway:
        assert len(gateway.reactor.result(gateway.broker.topics.add_partitions("t", 5)).partitions) == 5


def calls_of_two_more_partitions(operation: Operation) -> int:
    disk = FaultDisk()
    calls: list[Call] = []
    with in_memory_gateway("/data", disk) as gateway:
        gateway.create()
        disk.observer = calls.append
        gateway.reactor.result(gateway.broker.topics.add_partitions("t", 3))
        disk.observer = None
    return sum(call.operation == operation for call in calls)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE])
@pytest.mark.parametrize("operation", ["write", "rename", "fsync"])
def test_partitions_that_are_refused_are_not_there_after_a_restart_either(
    operation: Operation, error: int
) -> None:
    for number in range(calls_of_two_more_partitions(operation)):
        disk = FaultDisk()
        with in_memory_gateway("/data", disk) as gateway:
            topic = gateway.create()
            disk.fail(operation, error, after=number)
            with pytest.raises(DiskError):
                gateway.reactor.result(gateway.broker.topics.add_partitions("t", 3))
            assert len(topic.partitions) == 1
            may_have_happened = not gateway.broker.catalogue.is_running
        with in_memory_gateway("/data", disk) as gateway:
            again = gateway.broker.topics.by_name("t")
            assert again is not None
            assert len(again.partitions) == 1 or may_have_happened
            assert not any(partition.is_offline for partition in again.partitions)
            assert len(gateway.reactor.result(gateway.broker.topics.add_partitions("t", 4)).partitions) == 4


def test_a_crash_while_partitions_are_made_leaves_a_topic_that_can_grow() -> None:
    disk = FaultDisk()
    crashed: list[FaultDisk] = []
    with in_memory_gateway("/data", disk) as gateway:
        gateway.create()

        def crash(call: Call) -> None:
            if call.number % 5 == 0:
                crashed.append(disk.crash(Fate.TEAR, Random(call.number)))

        disk.observer = crash
        gateway.reactor.result(gateway.broker.topics.add_partitions("t", 3))
        disk.observer = None
    assert len(crashed) > 10
    for found in crashed:
        with in_memory_gateway("/data", found) as gateway:
            topic = gateway.broker.topics.by_name("t")
            assert topic is not None
            assert len(topic.partitions) in (1, 3)
            assert not any(partition.is_offline for partition in topic.partitions)
            gateway.reactor.result(gateway.broker.topics.add_partitions("t", 4))
            rows = produced(gateway.connect().ask(produce(*[batch(b"a")] * 4), 9))
            assert [(row.error_code, row.base_offset) for row in rows] == [(0, 0)] * 4


def test_a_topic_that_could_not_be_deleted_works_on() -> None:
    disk = FaultDisk()
    with in_memory_gateway("/data", disk) as gateway:
        topic = gateway.create()
        client = gateway.connect()
        client.ask(produce(batch(b"a")), 9)
        disk.fail("write", errno.EIO, path_contains="topic")
        with pytest.raises(DiskError):
            gateway.reactor.result(gateway.broker.topics.delete("t"))
        assert gateway.broker.topics.by_name("t") is topic
        assert only(produced(client.ask(produce(batch(b"b")), 9))).base_offset == 1
        assert topic.partitions[0].is_in_tail(1)


def test_topics_are_deleted_on_a_disk_without_a_byte_to_spare() -> None:
    disk = FaultDisk()
    with in_memory_gateway("/data", disk) as gateway:
        for name in ("a", "b", "c"):
            gateway.create(name)
            gateway.connect().ask(produce(batch(b"x" * 1000), topic=name), 9)
        disk.capacity_bytes = disk.used_bytes
        with pytest.raises(DiskError):
            gateway.create("d")
        # All are asked for before the files of the first are gone.
        for deletion in [gateway.broker.topics.delete(name) for name in ("a", "b")]:
            gateway.reactor.result(deletion)
        assert [topic.name for topic in gateway.broker.topics] == ["c"]
        gateway.reactor.until(lambda: not gateway.broker.topics.catalogue.deleted)
        disk.capacity_bytes = None
    with in_memory_gateway("/data", disk) as gateway:
        assert [topic.name for topic in gateway.broker.topics] == ["c"]


def test_topics_are_there_after_a_restart(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data") as gateway:
        before = gateway.create("t", partitions=3, retention_ms="9").topic
    with in_memory_gateway(tmp_path / "data") as gateway:
        after = only(gateway.broker.topics)
        assert after.topic == before
        assert (len(after.partitions), after.values.retention_ms) == (3, 9)


def test_one_log_that_cannot_be_closed_keeps_none_of_the_others_open() -> None:
    disk = FaultDisk()
    with in_memory_gateway("/data", disk) as gateway:
        topics = [gateway.create(name, partitions=2) for name in ("a", "b")]
        client = gateway.connect()
        for name in ("a", "b"):
            client.ask(produce(batch(b"x"), batch(b"x"), topic=name), 9)
        disk.fail("write", errno.ENOSPC, path_contains="producers.snap")
        with pytest.raises(DiskError):
            gateway.broker.close()
    assert not any(partition.is_writable for topic in topics for partition in topic.partitions)
    with in_memory_gateway("/data", disk) as gateway:
        assert len(gateway.broker.topics) == 2


def test_positions_that_cannot_be_forgotten_do_not_keep_a_topic(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A new topic of that name begins with an empty log, which sets its groups back."""
    topics, offsets = gateway.broker.topics, gateway.broker.offsets
    gateway.create()
    client = gateway.connect()
    assert only(produced(client.ask(produce(batch(b"a", b"b")), 9))).error_code == 0
    gateway.reactor.result(offsets.commit("g", [Position(("t", 0), 2, None, None)]))

    def refuse(topic: str) -> None:
        raise BarbicelError(f"a group of {topic} is damaged")

    with monkeypatch.context() as patched:
        patched.setattr(offsets, "topic_deleted", refuse)
        gateway.reactor.result(topics.delete("t"))
    assert "a group of t is damaged" in caplog.text
    gateway.create()
    committed = gateway.reactor.result(offsets.fetch("g", None))
    assert committed[("t", 0)].offset == 0
