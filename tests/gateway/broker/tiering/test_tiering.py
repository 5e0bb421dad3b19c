"""The tier in a broker: stores that are slow, away or not fit, and topics that go while they are uploaded."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.topic_file import ClusterFile, encode_cluster
from barbicel.config.settings import Config
from barbicel.disk import RealDisk
from barbicel.errors import BarbicelError, LogClosed
from barbicel.gateway.broker.broker import LONG_WORK_THREADS
from barbicel.gateway.broker.data_layout import DataLayout
from barbicel.gateway.broker.tiering import tiering as tiering_module
from barbicel.gateway.broker.tiering.tiering import open_configured_store
from barbicel.tier.pace import Foreground
from tests.gateway.broker.tiering.gated_store import DEADLINE_S, GatedStore, tiered_broker, values
from tests.gateway.kafka.in_memory import Gateway, in_memory_gateway
from tests.gateway.kafka.requests import fetch, list_offsets, only, values_of
from tests.keratin.builders import wait_until

SENT = values(100)


def names_in(store: GatedStore) -> list[str]:
    return [info.key.rpartition("/")[2] for info in store.inner.list("")]


# --- a store that is not mounted ----------------------------------------------------------------------------


def test_what_goes_into_an_empty_directory_instead_of_the_store_does_not_leave_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tiered_broker(tmp_path, monkeypatch) as broker:
        broker.create()
        broker.produce(SENT)
        assert broker.flush().problems == []
        broker.until(lambda: broker.local_start() == len(SENT))
        claimed = broker.tiering.keys.cluster
        claim_bytes = broker.store.inner.get(claimed)
        broker.store.inner.delete(claimed)
        broker.produce(SENT)
        (problem,) = broker.flush().problems
        assert "is it mounted?" in problem
        assert broker.local_start() == len(SENT)
        broker.store.inner.put_new(claimed, [claim_bytes])
        assert broker.flush().problems == []
        broker.until(lambda: broker.local_start() == 2 * len(SENT))


def test_a_server_that_has_segments_in_a_store_does_not_claim_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tiered_broker(tmp_path, monkeypatch) as broker:
        broker.create()
        broker.produce(SENT)
        assert broker.flush().problems == []
        claimed = broker.tiering.keys.cluster
        claim_bytes = broker.store.inner.get(claimed)
        broker.store.inner.delete(claimed)
        # As after a start.
        broker.tiering.is_ready = False
        assert "is it mounted?" in broker.flush().problems[0]
        assert "cluster.json" not in names_in(broker.store)
        assert not broker.tiering.is_ready
        broker.store.inner.put_new(claimed, [claim_bytes])
        assert broker.flush().problems == []
        assert broker.tiering.is_ready


# --- a store that is slow -----------------------------------------------------------------------------------


def test_while_every_call_to_the_store_hangs_everything_else_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tiered_broker(tmp_path, monkeypatch) as broker:
        broker.create()
        broker.gateway.create("local")
        broker.produce(SENT)
        assert broker.flush().problems == []
        broker.until(lambda: broker.local_start() == len(SENT))
        broker.store.holds = lambda operation, key: True
        reader = broker.gateway.connect(port=50_000)
        reader.send(fetch(0), 11)
        broker.gateway.reactor.until(lambda: broker.store.held)
        # What is on the disk only, and what is yet to be uploaded: written, and read cold.
        for topic in ("local", "t"):
            broker.produce(SENT, topic)
        assert broker.read(len(SENT), "local") == SENT
        assert values_of(broker.fetched(len(SENT)))[:1] == SENT[:1]
        assert not reader.has_answer
        broker.store.open_gate()
        row = only(only(reader.answer().responses).partitions)
        assert (row.error_code, values_of(row)[:1]) == (0, SENT[:1])


def test_who_seeks_by_time_in_a_store_that_hangs_keeps_no_producer_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches that a topic wants compressed are opened in the threads for long work."""
    with tiered_broker(tmp_path, monkeypatch) as broker:
        broker.create()
        broker.produce(SENT)
        broker.flush()
        broker.until(lambda: broker.local_start() == len(SENT))
        broker.store.holds = lambda operation, key: key.endswith(".kfs")
        seekers = [broker.gateway.connect(port=50_000 + number) for number in range(LONG_WORK_THREADS)]
        for seeker in seekers:
            seeker.send(list_offsets(0), 5)
        broker.gateway.reactor.until(lambda: len(broker.store.held) == len(seekers))
        assert broker.gateway.reactor.result(broker.gateway.broker.work_long(lambda: "done")) == "done"
        broker.store.open_gate()
        for seeker in seekers:
            row = only(only(seeker.answer().topics).partitions)
            assert (row.error_code, row.offset) == (0, 0)


def test_any_number_who_want_a_cold_segment_load_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tiered_broker(tmp_path, monkeypatch) as broker:
        broker.create()
        broker.produce(SENT)
        broker.flush()
        broker.until(lambda: broker.local_start() == len(SENT))
        first = broker.store.keys(".kfs")[0]
        broker.store.calls.clear()
        broker.store.holds = lambda operation, key: (operation, key) == ("get", first)
        readers = [broker.gateway.connect(port=50_000 + number) for number in range(4)]
        for reader in readers:
            reader.send(fetch(0, partition_max_bytes=1), 11)
        maps = broker.tiering.reader.maps.cache
        broker.gateway.reactor.until(lambda: broker.store.held)
        wait_until(lambda: maps.joins == len(readers) - 1, "all of them wait for one load")
        broker.store.open_gate()
        rows = [only(only(reader.answer().responses).partitions) for reader in readers]
        assert [values_of(row) for row in rows] == [SENT[:1]] * len(readers)
        assert broker.store.calls.count(f"get {first}") == 1


def test_a_stop_does_not_wait_for_reads_that_have_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    may_end = threading.Event()

    def hang() -> None:
        begun.append("first")
        assert may_end.wait(DEADLINE_S)

    with tiered_broker(tmp_path, monkeypatch, remote_log_reader_threads=1) as broker:
        opened = broker.gateway.broker
        first = opened.read_remote(hang)
        second = opened.read_remote(lambda: begun.append("second"))
        wait_until(lambda: begun == ["first"], "the first one hangs")
        closing = threading.Thread(target=opened.close)
        closing.start()
        wait_until(lambda: opened._is_closing, "it is about to close")
        may_end.set()
        closing.join(DEADLINE_S)
        broker.gateway.reactor.result(first)
        with pytest.raises(LogClosed):
            broker.gateway.reactor.result(second)
    assert begun == ["first"]


def test_a_stop_does_not_wait_until_all_of_a_deleted_topic_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = GatedStore(tmp_path / "objects")
    with tiered_broker(tmp_path, monkeypatch, store) as broker:
        broker.create()
        broker.produce(SENT)
        assert broker.flush().problems == []
        store.calls.clear()
        store.holds = lambda operation, key: operation == "delete"
        broker.gateway.reactor.result(broker.gateway.broker.topics.delete("t"))
        broker.gateway.reactor.until(lambda: store.held)
        # Nothing but the stop itself lets the deletion go on.
        open_gate, stop = store.open_gate, broker.tiering._removals.stop

        def stop_and_open() -> None:
            stop()
            open_gate()

        monkeypatch.setattr(broker.tiering._removals, "stop", stop_and_open)
        monkeypatch.setattr(store, "open_gate", lambda: None)
    assert sum(call.startswith("delete") for call in store.calls) == 1
    assert store.keys(".kfs")
    with tiered_broker(tmp_path, monkeypatch, store) as broker:
        broker.until(lambda: [name for name in names_in(store) if name != "cluster.json"] == [])


# --- a server that is busy ----------------------------------------------------------------------------------


class BusyReactor(Foreground):
    """It always has work: who gives way to it does so until something else is over."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = threading.Event()

    def give_way(self, seconds: float, is_over: Callable[[], bool], pause: Callable[[float], None]) -> None:
        self.waiting.set()
        wait_until(is_over, "nobody has to wait any more")


@pytest.fixture
def busy_reactor(monkeypatch: pytest.MonkeyPatch) -> BusyReactor:
    reactor = BusyReactor()
    monkeypatch.setattr(tiering_module, "reactor_of_this_process", lambda: reactor)
    return reactor


def test_who_asks_for_a_flush_does_not_wait_for_uploads_that_give_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy_reactor: BusyReactor
) -> None:
    with tiered_broker(tmp_path, monkeypatch, remote_log_manager_copier_thread_pool_size=1) as broker:
        broker.create()
        broker.produce(SENT)
        # In the only thread there is.
        broker.until(busy_reactor.waiting.is_set)
        assert broker.flush().problems == []
        broker.until(lambda: broker.local_start() == len(SENT))
        assert broker.read(len(SENT)) == SENT
        # Afterwards they give way as before.
        busy_reactor.waiting.clear()
        broker.produce(SENT)
        broker.until(busy_reactor.waiting.is_set)


@pytest.mark.parametrize("is_flushed", [True, False])
def test_a_stop_does_not_wait_for_uploads_that_give_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy_reactor: BusyReactor, is_flushed: bool
) -> None:
    with tiered_broker(tmp_path, monkeypatch, tier_flush_on_shutdown=is_flushed) as broker:
        broker.create()
        broker.produce(SENT)
        broker.until(busy_reactor.waiting.is_set)
    assert bool(broker.store.keys(".kfs")) == is_flushed


def test_a_topic_that_is_deleted_does_not_wait_for_its_uploads_that_give_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy_reactor: BusyReactor
) -> None:
    with tiered_broker(tmp_path, monkeypatch, remote_log_manager_copier_thread_pool_size=1) as broker:
        broker.create()
        broker.produce(SENT)
        broker.until(busy_reactor.waiting.is_set)
        broker.gateway.reactor.result(broker.gateway.broker.topics.delete("t"))
        broker.until(lambda: not [*(tmp_path / "data" / "topics").glob("*")])
        assert names_in(broker.store) == ["cluster.json"]


# --- a store that is away -----------------------------------------------------------------------------------


def test_a_store_that_is_away_is_a_storage_error_and_the_reader_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tiered_broker(tmp_path, monkeypatch) as broker:
        broker.create()
        broker.produce(SENT)
        broker.flush()
        broker.until(lambda: broker.local_start() == len(SENT))
        broker.store.refuses = lambda operation, key: True
        for _ in range(2):
            assert broker.fetched(70).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        broker.store.refuses = lambda operation, key: False
        assert values_of(broker.fetched(70))[0] == SENT[70]


def test_a_fetch_of_many_partitions_waits_for_a_store_that_is_away_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tiered_broker(tmp_path, monkeypatch) as broker:
        broker.create(partitions=3)
        for number in range(3):
            broker.produce(SENT, partition=number)
        broker.flush()
        broker.until(lambda: all(broker.local_start(partition=number) == len(SENT) for number in range(3)))
        broker.produce(SENT[:1], partition=2)
        broker.store.refuses = lambda operation, key: True
        broker.store.calls.clear()
        # Of the last one something is on the disk.
        answer = broker.client.ask(fetch(0, 0, len(SENT)), 11)
        rows = only(answer.responses).partitions
        away = ErrorCode.KAFKA_STORAGE_ERROR
        assert [row.error_code for row in rows] == [away, away, 0]
        assert values_of(rows[2]) == SENT[:1]
        assert len([call for call in broker.store.calls if call.startswith("get ")]) == 1


def test_a_store_that_is_away_at_the_start_is_used_when_it_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = GatedStore(tmp_path / "objects")
    store.refuses = lambda operation, key: True
    with tiered_broker(tmp_path, monkeypatch, store) as broker:
        broker.create()
        broker.produce(SENT)
        broker.until(lambda: broker.tiering.refusal)
        assert "refused by the test" in str(broker.tiering.refusal)
        assert broker.read(len(SENT)) == SENT
        assert broker.flush().problems
        assert store.keys() == []
        store.refuses = lambda operation, key: False
        broker.until(lambda: broker.tiering.is_ready)
        assert (broker.tiering.refusal, broker.flush().problems) == (None, [])
        broker.until(lambda: broker.local_start() == len(SENT))
        assert broker.read(len(SENT)) == SENT
    assert sum("nothing is tiered" in record.message for record in caplog.records) == 1


# --- a store that is not fit --------------------------------------------------------------------------------


def test_the_namespace_of_another_cluster_is_refused_and_the_data_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = GatedStore(tmp_path / "objects")
    store.inner.put_new("shared/cluster.json", [encode_cluster(ClusterFile(uuid4(), 1, 0))])
    with tiered_broker(tmp_path, monkeypatch, store, tier_namespace="shared") as broker:
        broker.create()
        broker.produce(SENT)
        broker.until(lambda: broker.tiering.refusal)
        assert "belongs to cluster" in str(broker.tiering.refusal)
        assert broker.flush().problems
        assert (broker.local_start(), store.keys()) == (0, ["shared/cluster.json"])
        assert broker.read(len(SENT)) == SENT
    assert any(
        record.levelno == logging.ERROR and "belongs to" in record.message for record in caplog.records
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"tier_store": "ftp://host/path"},
        {"tier_store": "file://host/path"},
        {"tier_store": "s3://"},
        {"tier_store": "s3://bucket/../other"},
        {"tier_namespace": "../up"},
        {"tier_namespace": "a//b"},
        {"tier_namespace": ""},
    ],
    ids=str,
)
def test_settings_that_name_no_store_are_refused_at_once(tmp_path: Path, settings: dict[str, Any]) -> None:
    with (
        pytest.raises(BarbicelError),
        in_memory_gateway(tmp_path / "data", remote_log_storage_system_enable=True, **settings),
    ):
        pass


def test_a_path_is_taken_from_where_the_server_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    layout = DataLayout(str(tmp_path / "data"))
    store = open_configured_store(Config(tier_store="objects"), RealDisk(), layout)
    assert store.url == f"file://{tmp_path}/objects"
    monkeypatch.chdir("/")
    assert store.url == f"file://{tmp_path}/objects"


def test_a_directory_that_cannot_be_written_refuses_and_the_data_stays(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"remote_log_storage_system_enable": True, "tier_store": "/proc/objects"}
    with in_memory_gateway(tmp_path / "data", **settings) as gateway:
        tiering = gateway.broker.tiering
        assert tiering is not None
        gateway.reactor.until(lambda: tiering.refusal)
        assert "/proc/objects" in str(tiering.refusal)


# --- topics that go -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("held", ["topic.json", ".kfs", ".index", ".mlog"])
def test_a_topic_that_is_deleted_in_the_middle_of_an_upload_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: str
) -> None:
    settings: dict[str, Any] = {
        "tier_manifest_rotation_ms": 1,
        "remote_log_manager_copier_thread_pool_size": 4,
    }
    with tiered_broker(tmp_path, monkeypatch, **settings) as broker:
        broker.until(lambda: broker.tiering.is_ready)
        broker.store.holds = lambda operation, key: operation == "put_new" and key.endswith(held)
        broker.create()
        broker.produce(SENT)
        flushed = broker.tiering.flush()
        broker.until(lambda: broker.store.held)
        broker.gateway.reactor.result(broker.gateway.broker.topics.delete("t"))
        # The removal waits for the upload. One that did not would be through before it.
        data, tiering = tmp_path / "data", broker.tiering
        wait_until(lambda: tiering._closing.locked() or not [*data.glob("tier/*")], "the removal has begun")
        broker.store.open_gate()
        broker.gateway.reactor.result(flushed)
        broker.until(lambda: not [*data.glob("tier/*"), *data.glob("topics/*")])
        assert names_in(broker.store) == ["cluster.json"]


def test_a_deleted_topic_of_which_the_store_does_not_let_go_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tiered_broker(tmp_path, monkeypatch) as broker:
        broker.create()
        broker.produce(SENT)
        broker.flush()
        broker.store.refuses = lambda operation, key: operation == "delete"
        broker.gateway.reactor.result(broker.gateway.broker.topics.delete("t"))
        tries = broker.store.calls
        broker.until(lambda: len([call for call in tries if call.startswith("delete")]) > 2)
        broker.store.refuses = lambda operation, key: False
        broker.until(lambda: not [*(tmp_path / "data" / "topics").glob("*")])
        assert names_in(broker.store) == ["cluster.json"]


def test_records_are_deleted_while_somebody_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tiered_broker(tmp_path, monkeypatch) as broker:
        broker.create()
        broker.produce(SENT)
        broker.flush()
        broker.until(lambda: broker.local_start() == len(SENT))
        broker.store.holds = lambda operation, key: operation == "get"
        reader = broker.gateway.connect(port=50_000)
        reader.send(fetch(10), 11)
        broker.gateway.reactor.until(lambda: broker.store.held)
        partition = broker.gateway.broker.topics.partition("t", 0)
        assert partition is not None
        assert partition.stored.drop_before(90) == 90
        for key in broker.store.keys(".kfs")[:1]:
            broker.store.inner.delete(key)
        broker.store.open_gate()
        row = only(only(reader.answer().responses).partitions)
        assert row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert values_of(broker.fetched(90)) == SENT[90:]


# --- topics that change -------------------------------------------------------------------------------------


def test_tiering_of_a_topic_can_be_switched_off_and_on_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tiered_broker(tmp_path, monkeypatch) as broker:
        broker.create()
        broker.produce(SENT)
        broker.flush()
        broker.until(lambda: broker.local_start() == len(SENT))
        objects = broker.store.keys(".kfs")
        _switch(broker.gateway, "false")
        more = values(100, seed=1)
        broker.produce(more)
        assert broker.flush().problems == []
        assert (broker.store.keys(".kfs"), broker.local_start()) == (objects, 100)
        assert broker.read(200) == SENT + more
        _switch(broker.gateway, "true")
        assert broker.flush().problems == []
        broker.until(lambda: broker.local_start() == 200)
        assert broker.read(200) == SENT + more


def _switch(gateway: Gateway, text: str) -> None:
    change = {"remote.storage.enable": text, "local.retention.bytes": "0"}
    gateway.reactor.result(gateway.broker.topics.change_settings("t", lambda _: change))


def test_many_partitions_of_a_topic_with_the_longest_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "n" * 249
    with tiered_broker(tmp_path, monkeypatch) as broker:
        broker.create(name, partitions=50)
        for number in range(50):
            broker.produce([b"%d" % number], name, number)
        assert broker.flush() == (50, [])
        broker.until(lambda: all(broker.local_start(name, number) == 1 for number in range(50)))
        assert len(broker.store.keys(".kfs")) == 50
        for number in range(50):
            row = broker.fetched(0, name, partitions=[number])
            assert values_of(row) == [b"%d" % number]
