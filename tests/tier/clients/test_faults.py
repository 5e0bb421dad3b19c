"""A tiered gateway in front of an S3 server that fails as networks and servers do, and kills in between.

Every record is compared; in the end everything that is in the store is known to a manifest.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from barbicel.codecs.manifest_snapshot import Progress
from barbicel.disk import RealDisk
from barbicel.tier.keys import Keys
from barbicel.tier.manifest_log.reconciliation import index_key
from barbicel.tier.manifest_log.stream import ManifestStream
from barbicel.tier.manifest_log.verify import Severity, verify
from barbicel.tier.object_store import ObjectStore
from tests.gateway.admin.http import Operator
from tests.support.fault_proxy import Fault, FaultProxy, Request, _Answer
from tests.support.object_store_server import ObjectStoreServer
from tests.tier.clients.conftest import s3_bucket
from tests.tier.clients.tiered_gateway import Bucket, TieredGateway, tiered_gateway, until, values
from tests.tier.segments import flipped

COUNT = 400
# Nothing is read from memory.
COLD = {"tail_bytes": "0", "tail_partition_bytes": "0"}
SIGNED = ("authorization", "x-amz-content-sha256", "x-amz-date", "content-md5")


class AnonymousProxy(FaultProxy):
    """Requests arrive without their signatures, so that they can be changed on their way."""

    def __init__(self, upstream_port: int) -> None:
        super().__init__(upstream_port)
        # So many bodies of segments have a bit that is another one.
        self.flips = 0

    def forward(self, request: Request, headers: list[tuple[str, str]], body: bytes) -> _Answer:
        if request.method == "PUT" and ".kfs" in request.path and self.flips:
            self.flips -= 1
            body = flipped(body, len(body) // 2)
        kept = [(name, value) for name, value in headers if name.lower() not in SIGNED]
        return super().forward(request, kept, body)


@pytest.fixture
def proxy(s3_server: ObjectStoreServer) -> Iterator[FaultProxy]:
    with FaultProxy(s3_server.port) as proxy:
        yield proxy


@pytest.fixture
def bucket(s3_server: ObjectStoreServer, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """The gateway goes through the proxy, the test does not."""
    return s3_bucket(s3_server, monkeypatch, proxy.endpoint)


def release(proxy: FaultProxy) -> None:
    """No more faults, and what hangs ends without an answer."""
    proxy.heal()
    proxy.closing.set()
    proxy.closing.clear()


def _have_come(proxy: FaultProxy, asked: Request) -> bool:
    return any(one.method == asked.method and asked.path in one.path for one in proxy.requests.copy())


def looked_at(gateway: TieredGateway, bucket: Bucket) -> list[str]:
    """What is wrong with the manifests and the store of a gateway that has stopped."""
    store = bucket.open()
    try:
        return list(_troubles(gateway.data, store))
    finally:
        store.close()


def _troubles(data: Path, store: ObjectStore) -> Iterator[str]:
    there = {info.key for info in store.list("")}
    (cluster,) = [key for key in there if key.endswith("/cluster.json")]
    keys = Keys(cluster.split("/")[0])
    known = {cluster}
    for path in (data / "tier").iterdir():
        known.add(keys.topic(path.name.rpartition("-")[0]).description)
        for one in verify(str(path), stream_id=path.name, disk=RealDisk(), store=store, keys=keys):
            if one.severity is Severity.DAMAGE:
                yield f"{one.place}: {one.message}"
        with ManifestStream.open(str(path), stream_id=path.name, disk=RealDisk(), read_only=True) as stream:
            done = [entry.key for entry in stream.catalogue.segments if entry.upload is Progress.DONE]
        known |= {*done, *map(index_key, done)}
    segments = {key for key in there if f"{keys.namespace}/manifest/" not in key}
    yield from (f"{key} is in the store, and nobody knows it" for key in segments - known)
    yield from (f"{key} is not in the store" for key in known - segments)


# --- requests that fail -------------------------------------------------------------------------------------

# Each round has a topic of its own. A rule strikes requests of its method whose path has its text, so often.
ROUNDS: dict[str, list[tuple[Fault, str, str, int]]] = {
    "segments": [
        (Fault.DROP_ANSWER, "PUT", ".kfs", 1),
        (Fault.DONE_BUT_UNAVAILABLE, "PUT", ".kfs", 4),
        (Fault.UNAVAILABLE, "PUT", ".kfs", 4),
        (Fault.RESET, "PUT", ".kfs", 1),
    ],
    "the-rest": [
        (Fault.DROP_ANSWER, "PUT", ".index", 1),
        (Fault.DONE_BUT_UNAVAILABLE, "PUT", ".index", 4),
        (Fault.DROP_ANSWER, "PUT", "topic.json", 1),
        (Fault.DROP_ANSWER, "PUT", ".mlog", 1),
        (Fault.DONE_BUT_UNAVAILABLE, "PUT", ".mlog", 4),
    ],
    "reads": [
        (Fault.TRUNCATE, "GET", ".kfs", 1),
        (Fault.FLIP, "GET", ".kfs", 1),
        (Fault.FLIP, "GET", ".index", 1),
        (Fault.RESET, "GET", ".kfs", 1),
        (Fault.UNAVAILABLE, "GET", ".kfs", 3),
    ],
    "deletions": [
        (Fault.DROP_ANSWER, "DELETE", "", 1),
        (Fault.DONE_BUT_UNAVAILABLE, "DELETE", "", 4),
        (Fault.UNAVAILABLE, "DELETE", "", 2),
    ],
}


def test_whatever_becomes_of_a_request_nothing_is_lost_or_wrong_or_left(
    tmp_path: Path, proxy: FaultProxy, bucket: Bucket
) -> None:
    sent = values(COUNT)
    with tiered_gateway(tmp_path, bucket, **COLD, tier_manifest_rotation_ms="100") as gateway:
        for topic, faults in ROUNDS.items():
            gateway.create(topic)
            proxy.requests.clear()
            for fault, method, path, times in faults:
                proxy.fail(fault, method=method, path=path, times=times)
            gateway.produce(topic, sent)
            gateway.wait_until_tiered(topic, COUNT)
            assert gateway.consume(topic, COUNT) == sent, topic
            _delete_records(gateway, topic, COUNT // 2)
            assert gateway.consume(topic, COUNT // 2) == sent[COUNT // 2 :], topic
            for _, method, path, _ in faults:
                until(partial(_have_come, proxy, Request(method, path)))
            proxy.heal()
        gateway.delete("segments")
        until(lambda: not bucket.list("/segments-"))
        assert gateway.stop() == 0
    assert looked_at(gateway, bucket) == []


def _delete_records(gateway: TieredGateway, topic: str, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
    for deleted in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        assert deleted.result().low_watermark == offset


# --- kills --------------------------------------------------------------------------------------------------


def test_killed_in_the_middle_of_each_step_it_goes_on(
    tmp_path: Path, proxy: FaultProxy, bucket: Bucket
) -> None:
    sent = values(COUNT)
    with tiered_gateway(tmp_path, bucket, **COLD, tier_manifest_rotation_ms="100") as gateway:
        for number, path in enumerate(("topic.json", ".kfs", ".index", ".mlog")):
            topic = f"t{number}"
            with _killed_at(gateway, proxy, "PUT", path):
                gateway.create(topic)
                gateway.produce(topic, sent)
            gateway.wait_until_tiered(topic, COUNT)
            assert gateway.consume(topic, COUNT) == sent, path
        with _killed_at(gateway, proxy, "DELETE", ""):
            _delete_records(gateway, "t0", COUNT // 2)
            gateway.delete("t3")
        assert gateway.consume("t0", COUNT // 2) == sent[COUNT // 2 :]
        until(lambda: not bucket.list("/t3-"))
        assert gateway.stop() == 0
    assert looked_at(gateway, bucket) == []


@contextmanager
def _killed_at(gateway: TieredGateway, proxy: FaultProxy, method: str, path: str) -> Iterator[None]:
    """Killed when such a request has reached the server, and the answer has not come back; then started."""
    proxy.fail(Fault.HANG, method=method, path=path, times=-1)
    proxy.requests.clear()
    yield
    until(partial(_have_come, proxy, Request(method, path)))
    gateway.kill()
    release(proxy)
    gateway.start()


# --- a store that is away -----------------------------------------------------------------------------------


def test_while_the_store_is_away_a_reader_waits_where_it_is_and_the_disk_takes_what_comes(
    tmp_path: Path, proxy: FaultProxy, bucket: Bucket
) -> None:
    sent = values(COUNT)
    with tiered_gateway(tmp_path, bucket, **COLD, tier_readahead_segments="0") as gateway:
        gateway.create("orders")
        gateway.produce("orders", sent)
        gateway.wait_until_tiered("orders", COUNT)
        consumer = _consumer(gateway, 0, **{"fetch.message.max.bytes": 1000, "queued.min.messages": 1})
        try:
            found = _poll(consumer, 10)
            proxy.fail(Fault.UNAVAILABLE, times=-1)
            gateway.produce("orders", sent)
            # What is on the disk can be read, by whoever wants it.
            assert gateway.consume("orders", COUNT, offset=COUNT) == sent
            assert gateway.local_bytes("orders") > COUNT * 200
            proxy.heal()
            found += _poll(consumer, 2 * COUNT - len(found))
        finally:
            consumer.close()
        assert found == sent + sent
        gateway.wait_until_tiered("orders", 2 * COUNT)
        assert gateway.local_bytes("orders") < 64 << 10


def _consumer(gateway: TieredGateway, offset: int, **settings: object) -> Consumer:
    consumer = Consumer({"bootstrap.servers": gateway.bootstrap, "group.id": "reader", **settings})
    consumer.assign([TopicPartition("orders", 0, offset)])
    return consumer


def _poll(consumer: Consumer, count: int) -> list[bytes | None]:
    """So many values, whatever passing errors come between."""
    found: list[bytes | None] = []
    deadline = time.monotonic() + 60
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count}"
        message = consumer.poll(0.1)
        if message is not None:
            assert message.error() is None, message.error()
            found.append(message.value())
    return found


def test_a_store_that_is_away_at_the_start_and_then_hangs_stops_nothing(
    tmp_path: Path, proxy: FaultProxy, bucket: Bucket
) -> None:
    sent = values(COUNT)
    proxy.fail(Fault.HANG, times=-1)
    with tiered_gateway(tmp_path, bucket, **COLD, tier_flush_on_shutdown="false") as gateway:
        gateway.create("orders")
        gateway.create("local", remote_storage_enable="false")
        until(lambda: len(proxy.requests) > 0)
        began = time.monotonic()
        for topic in ("local", "orders"):
            gateway.produce(topic, sent)
            assert gateway.consume(topic, COUNT) == sent
        assert time.monotonic() - began < 20  # a call hangs for 30 seconds before it is given up
        assert Operator(gateway).look("/api/tier")["is_ready"] is False
        release(proxy)
        gateway.wait_until_tiered("orders", COUNT)
        assert gateway.consume("orders", COUNT) == sent


def test_a_body_that_stops_half_way_keeps_its_reader_waiting_and_nobody_else(
    tmp_path: Path, proxy: FaultProxy, bucket: Bucket
) -> None:
    sent = values(COUNT)
    with tiered_gateway(tmp_path, bucket, **COLD) as gateway:
        gateway.create("orders")
        gateway.create("local", remote_storage_enable="false")
        gateway.produce("orders", sent)
        gateway.wait_until_tiered("orders", COUNT)
        proxy.fail(Fault.STALL, method="GET", path=".kfs", times=-1)
        consumer = _consumer(gateway, 0)
        try:
            until(partial(_have_come, proxy, Request("GET", ".kfs")))
            gateway.produce("local", sent)
            assert gateway.consume("local", COUNT) == sent
            assert consumer.poll(0) is None
            release(proxy)
            assert _poll(consumer, COUNT) == sent
        finally:
            consumer.close()


# --- a store that is not fit --------------------------------------------------------------------------------


@pytest.fixture
def open_proxy(s3_server: ObjectStoreServer) -> Iterator[AnonymousProxy]:
    with AnonymousProxy(s3_server.port) as proxy:
        yield proxy


@pytest.fixture
def open_bucket(
    s3_server: ObjectStoreServer, open_proxy: AnonymousProxy, monkeypatch: pytest.MonkeyPatch
) -> Bucket:
    """One that takes anything from anybody."""
    signed = s3_bucket(s3_server, monkeypatch, open_proxy.endpoint)
    settings = {name: value for name, value in signed.settings.items() if name != "tier_store"}
    return Bucket(f"s3://open-bucket/{uuid4().hex}", settings, signed.options)


def test_a_store_that_ignores_conditions_is_refused_and_the_data_stays(
    tmp_path: Path, open_proxy: AnonymousProxy, open_bucket: Bucket
) -> None:
    sent = values(COUNT)
    open_proxy.fail(Fault.IGNORE_CONDITIONS, times=-1)
    with tiered_gateway(tmp_path, open_bucket, **COLD) as gateway:
        operator = Operator(gateway)
        gateway.create("orders")
        gateway.produce("orders", sent)
        until(lambda: operator.look("/api/tier")["refusal"] is not None)
        told = operator.look("/api/tier")
        assert (told["is_ready"], "ignores If-None-Match" in told["refusal"]) == (False, True)
        assert "nothing is tiered" in gateway.log.read_text()
        assert "ignores If-None-Match" in operator.post("/api/tier/flush").text
        assert gateway.consume("orders", COUNT) == sent
    assert gateway.local_bytes("orders") > COUNT * 200
    assert open_bucket.list(".kfs") == []


def test_a_segment_that_was_changed_on_its_way_is_uploaded_again(
    tmp_path: Path, open_proxy: AnonymousProxy, open_bucket: Bucket
) -> None:
    sent = values(COUNT)
    open_proxy.flips = 2
    with tiered_gateway(tmp_path, open_bucket, **COLD) as gateway:
        gateway.create("orders")
        gateway.produce("orders", sent)
        gateway.wait_until_tiered("orders", COUNT)
        assert open_proxy.flips == 0
        assert gateway.consume("orders", COUNT) == sent
        assert gateway.stop() == 0
    assert looked_at(gateway, open_bucket) == []


# --- damage -------------------------------------------------------------------------------------------------


def test_a_damaged_object_is_told_for_its_offsets_and_the_rest_can_be_read(
    tmp_path: Path, bucket: Bucket
) -> None:
    sent = values(COUNT)
    with tiered_gateway(tmp_path, bucket, **COLD) as gateway:
        gateway.create("orders")
        gateway.produce("orders", sent)
        gateway.wait_until_tiered("orders", COUNT)
        first, second = bucket.list(".kfs")[:2]
        behind = int(second[-24:-4])
        store = bucket.open()
        info = store.head(first)
        store.replace(first, [flipped(store.get(first), 100)], info.etag)
        consumer = _consumer(gateway, 0)
        try:
            until(lambda: _error_of(consumer) == KafkaError._BAD_MSG or _told(gateway))
            assert gateway.consume("orders", COUNT - behind, offset=behind) == sent[behind:]
        finally:
            consumer.close()
            store.close()
        (row,) = Operator(gateway).look("/api/tier")["partitions"]
        assert row["needing_repair"] == 1


def _error_of(consumer: Consumer) -> int | None:
    message = consumer.poll(0.1)
    error = None if message is None else message.error()
    return None if error is None else error.code()


def _told(gateway: TieredGateway) -> bool:
    return "cannot be read" in gateway.log.read_text()
