"""One queue, both protocols: what Kafka's clients send is given to `get`, and a `set` is a record."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from threading import Event

import pytest

from tests.clients.client import Client, NewRecord, ProducerOptions, send_all, until
from tests.clients.confluent_client import ConfluentClient
from tests.clients.features import CODECS
from tests.clients.kafka_python_client import KafkaPythonClient
from tests.clients.records import mixed_records, read, take, unique
from tests.kestrel_clients.raw_client import Memcache, Taken
from tests.kestrel_clients.worker_pool import Fate, Tally, UnluckyWorker, run_pool
from tests.support.gateway import Gateway

GATEWAY_SETTINGS = {"group_min_session_timeout_ms": "100"}
KAFKA: Mapping[str, Client] = {"kafka-python": KafkaPythonClient(), "confluent-kafka": ConfluentClient()}
HOUR_MS = 3_600_000


@pytest.fixture(params=KAFKA)
def kafka(request: pytest.FixtureRequest) -> Client:
    return KAFKA[request.param]


@pytest.fixture
def queue() -> str:
    return unique("q")


@pytest.fixture(autouse=True, scope="module")
def quiet_kafka_python() -> Iterator[None]:
    log = logging.getLogger("kafka")
    level = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(level)


def send(gateway: Gateway, kafka: Client, queue: str, records: list[NewRecord], codec: str = "none") -> None:
    with kafka.producer(gateway.bootstrap, ProducerOptions(codec=codec)) as producer:
        send_all(producer, queue, 0, records)


def frontier(gateway: Gateway, kafka: Client, group: str, queue: str) -> int | None:
    """Where a group is, as Kafka's administrators see it."""
    with kafka.admin(gateway.bootstrap) as admin:
        return admin.offsets_of(group, queue).get(0)


# --- from Kafka to Kestrel ------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
def test_what_a_producer_sends_is_given_to_get(
    gateway: Gateway, kafka: Client, queue: str, raw: Memcache, codec: str
) -> None:
    """With and without key, headers and value; a record without a value is no item, and is done with."""
    records = mixed_records(kafka)
    send(gateway, kafka, queue, records, codec)
    values = [record.value for record in records if record.value is not None]
    assert len(values) < len(records)
    assert [raw.get(f"{queue}/close/open") for _ in values] == values
    assert raw.get(f"{queue}/close/open") is None
    until("all is done with", lambda: frontier(gateway, kafka, "kestrel", queue) == len(records))
    assert raw.stat(queue, "items") == 0


def test_records_of_nothing_are_skipped_and_done_with(
    gateway: Gateway, kafka: Client, queue: str, raw: Memcache
) -> None:
    nothing = NewRecord(None, key=b"tombstone")
    send(gateway, kafka, queue, [nothing, nothing, NewRecord(b"something"), nothing, nothing])
    assert raw.get(f"{queue}/open") == b"something"
    assert frontier(gateway, kafka, "kestrel", queue) == 2
    assert raw.get(f"{queue}/close") is None
    until("the end", lambda: frontier(gateway, kafka, "kestrel", queue) == 5)
    assert raw.get(queue) is None


def test_headers_say_what_memcache_has_no_word_for(
    gateway: Gateway, kafka: Client, queue: str, raw: Memcache
) -> None:
    now_ms = int(time.time() * 1000)
    headers = [
        (("kestrel-flags", b"16"), ("trace", b"kept for Kafka")),
        (("kestrel-expiry-ms", b"%d" % (now_ms - 1)),),
        (("kestrel-expiry-ms", b"%d" % (now_ms + HOUR_MS)),),
        (("kestrel-for", b"kestrel+audit"),),
        (("kestrel-flags", b"no number"),),
    ]
    for name in (queue, f"{queue}+audit"):
        raw.get(name)  # which makes it
    send(gateway, kafka, queue, [NewRecord(b"%d" % n, headers=given) for n, given in enumerate(headers)])
    taken = [raw.take(queue) for _ in range(3)]
    assert taken == [Taken(queue.encode(), flags, data) for flags, data in ((16, b"0"), (0, b"2"), (0, b"4"))]
    assert raw.get(queue) is None
    assert [raw.get(f"{queue}+audit") for _ in range(5)] == [b"0", b"2", b"3", b"4", None]


def test_those_who_wait_are_given_what_comes_from_kafka(
    gateway: Gateway, kafka: Client, queue: str, raw: Memcache
) -> None:
    raw.get(queue)  # or the topic is Kafka's, with its number of partitions
    raw.send(b"get %b/t=30000\r\n" % queue.encode())
    send(gateway, kafka, queue, [NewRecord(b"at last")])
    assert raw.read_item() == Taken(queue.encode(), 0, b"at last")


def test_a_producer_feeds_a_pool_of_workers(gateway: Gateway, kafka: Client, queue: str) -> None:
    items, no_more = [b"item %d" % number for number in range(1_000)], Event()
    workers = [UnluckyWorker(queue, no_more, gateway.kestrel_port, Fate(), seed) for seed in range(4)]

    def put_all() -> None:
        send(gateway, kafka, queue, [NewRecord(item) for item in items], "gzip")

    run_pool(workers, put_all, no_more)
    tally = Tally(workers)
    assert tally.delivered == tally.confirmed == dict.fromkeys(items, 1)


# --- from Kestrel to Kafka ------------------------------------------------------------------------------


def test_a_set_is_a_record(gateway: Gateway, kafka: Client, queue: str, raw: Memcache) -> None:
    began_ms = int(time.time() * 1000)
    expiry_s = began_ms // 1000 + 3600
    assert raw.put(queue, b"plain")
    assert raw.put(queue, b"\x00\xff", flags=16)
    assert raw.put(queue, b"until then", expiry_s=expiry_s)
    assert raw.put(queue, b"for an hour", flags=7, expiry_s=3600)
    ended_ms = int(time.time() * 1000)
    records = read(kafka, gateway.bootstrap, queue, 0, 4)
    assert [record.value for record in records] == [b"plain", b"\x00\xff", b"until then", b"for an hour"]
    assert [record.key for record in records] == [None] * 4
    assert all(began_ms <= record.timestamp_ms <= ended_ms for record in records)
    assert [record.headers for record in records[:3]] == [
        (),
        (("kestrel-flags", b"16"),),
        (("kestrel-expiry-ms", b"%d" % (expiry_s * 1000)),),
    ]
    last = dict(records[3].headers)
    assert last["kestrel-flags"] == b"7"
    assert began_ms + HOUR_MS <= int(last["kestrel-expiry-ms"] or 0) <= ended_ms + HOUR_MS


def test_a_set_for_one_child_says_so(gateway: Gateway, kafka: Client, queue: str, raw: Memcache) -> None:
    raw.get(f"{queue}+audit")
    raw.put(f"{queue}+audit", b"for audit alone")
    (record,) = read(kafka, gateway.bootstrap, queue, 0, 1)
    assert record.headers == (("kestrel-for", b"kestrel+audit"),)


def test_names_that_kafka_cannot_spell(gateway: Gateway, kafka: Client, raw: Memcache) -> None:
    name = unique("orders")
    raw.put(f"{name}:eu#1", b"one")
    (record,) = read(kafka, gateway.bootstrap, f"{name}.3Aeu.231", 0, 1)
    assert record.value == b"one"


def test_a_topic_with_a_dot_is_a_queue_too(gateway: Gateway, kafka: Client, raw: Memcache) -> None:
    topic = unique("orders.v1")
    send(gateway, kafka, topic, [NewRecord(b"one")])
    assert raw.get(topic.replace(".", "%2E")) == b"one"


def test_what_is_taken_from_the_queue_is_still_read_by_kafka(
    gateway: Gateway, kafka: Client, queue: str, raw: Memcache
) -> None:
    """It is a log: taking is the group's, and the segment is not full."""
    for number in range(10):
        raw.put(queue, b"%d" % number)
        assert raw.get(queue) == b"%d" % number
    assert [record.value for record in read(kafka, gateway.bootstrap, queue, 0, 10)] == [
        b"%d" % number for number in range(10)
    ]


# --- side by side ---------------------------------------------------------------------------------------


def test_the_queues_frontier_and_a_groups_commits_side_by_side(
    gateway: Gateway, kafka: Client, queue: str, raw: Memcache
) -> None:
    group = unique("billing")
    raw.get(f"{queue}+audit")
    for number in range(10):
        raw.put(queue, b"%d" % number)
    for _ in range(3):
        raw.get(queue)
    assert [raw.get(f"{queue}+audit/close/open") for _ in range(6)][-1] == b"5"
    with ExitStack() as stack:
        consumer = stack.enter_context(kafka.consumer(gateway.bootstrap, group))
        consumer.subscribe(queue)
        assert [record.value for record in take(consumer, 10)] == [b"%d" % number for number in range(10)]
        consumer.commit(queue, {0: 8})
        admin = stack.enter_context(kafka.admin(gateway.bootstrap))
        # The sixth is open, and below it everything is closed.
        places = {name: admin.offsets_of(name, queue) for name in ("kestrel", "kestrel+audit", group)}
        assert places == {"kestrel": {0: 3}, "kestrel+audit": {0: 5}, group: {0: 8}}
        assert {"kestrel", "kestrel+audit", group} <= admin.groups()
    assert raw.get(queue) == b"3"


def test_kafka_cannot_move_a_queues_frontier(
    gateway: Gateway, kafka: Client, queue: str, raw: Memcache
) -> None:
    for number in range(3):
        raw.put(queue, b"%d" % number)
    raw.get(queue)
    with kafka.admin(gateway.bootstrap) as admin:
        # One raises, the other has the error in its answer.
        with suppress(AssertionError):
            admin.set_offsets("kestrel", queue, {0: 0})
        assert admin.offsets_of("kestrel", queue) == {0: 1}
    assert raw.get(queue) == b"1"
