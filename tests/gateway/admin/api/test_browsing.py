"""Looking at messages: by offset, by time, the newest; whatever they hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.gateway.admin.http import Operator
from tests.gateway.admin.kafka_clients import create_topic, produce
from tests.support.gateway import Gateway, running_gateway

FIRST_MS = 1_700_000_000_000


@pytest.fixture(scope="module", autouse=True)
def traffic(gateway: Gateway) -> None:
    """A hundred messages, a second between each two, in compressed batches of ten."""
    create_topic(gateway, "clock", 2, segment_bytes="1048576")
    for first in range(0, 100, 10):
        producer = Producer(
            {"bootstrap.servers": gateway.bootstrap, "compression.type": "zstd", "linger.ms": 200}
        )
        for number in range(first, first + 10):
            producer.produce("clock", b"%d" % number, partition=0, timestamp=FIRST_MS + number * 1000)
        assert producer.flush(30) == 0


def browse(operator: Operator, query: str = "", topic: str = "clock") -> Any:
    return operator.look(f"/api/topics/{topic}/messages?{query}")


def values(found: Any) -> list[int]:
    return [int(message["value"]["data"]) for message in found["messages"]]


def test_without_a_wish_the_newest_are_shown(operator: Operator) -> None:
    found = browse(operator, "limit=7")
    assert values(found) == list(range(93, 100))
    assert (found["start_offset"], found["end_offset"], found["next_offset"]) == (0, 100, None)


@pytest.mark.parametrize(("offset", "limit"), [(0, 5), (3, 20), (95, 50), (99, 1)])
def test_by_offset_also_in_the_middle_of_a_batch(operator: Operator, offset: int, limit: int) -> None:
    found = browse(operator, f"offset={offset}&limit={limit}")
    assert values(found) == list(range(offset, min(100, offset + limit)))
    assert [message["offset"] for message in found["messages"]] == values(found)


def test_one_page_after_the_other_shows_each_message_once(operator: Operator) -> None:
    seen: list[int] = []
    offset: int | None = 0
    while offset is not None:
        found = browse(operator, f"offset={offset}&limit=13")
        seen += values(found)
        offset = found["next_offset"]
    assert seen == list(range(100))


@pytest.mark.parametrize(
    ("time", "first"),
    [
        ("0", 0),
        (str(FIRST_MS), 0),
        (str(FIRST_MS + 1), 1),
        (str(FIRST_MS + 42_000), 42),
        ("2023-11-14T22:13:20", 0),
        ("2023-11-14T22:14", 40),
        ("2023-11-14T23:14:00%2B01:00", 40),
    ],
)
def test_by_time(operator: Operator, time: str, first: int) -> None:
    assert values(browse(operator, f"time={time}&limit=3")) == [first, first + 1, first + 2]


def test_a_time_behind_the_last_message_has_none(operator: Operator) -> None:
    assert browse(operator, f"time={FIRST_MS + 10**9}")["messages"] == []


def test_an_offset_out_of_range_is_the_nearest_one(operator: Operator) -> None:
    assert browse(operator, "offset=1000")["messages"] == []
    assert browse(operator, "partition=1&offset=5")["messages"] == []


def test_empty_fields_of_a_form_are_none(operator: Operator) -> None:
    assert values(browse(operator, "partition=0&offset=&time=&limit=2")) == [98, 99]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("partition=2", 404),
        ("partition=x", 400),
        ("offset=-1", 400),
        ("offset=1e3", 400),
        ("limit=0", 400),
        ("limit=501", 400),
        ("time=yesterday", 400),
        ("time=9999999999999999999", 400),
    ],
)
def test_what_makes_no_sense_is_refused(operator: Operator, query: str, status: int) -> None:
    assert operator.get(f"/api/topics/clock/messages?{query}").status == status


def test_keys_values_and_headers_may_be_anything(gateway: Gateway, operator: Operator) -> None:
    headers: Any = [("trace", b"\xff\x00"), ("trace", None), ("é", b"text")]
    produce(gateway, "odd", b'{"a": 1}', key=b"\x00\xfe", headers=headers)
    producer = Producer({"bootstrap.servers": gateway.bootstrap})
    producer.produce("odd", None, key="gone")
    assert producer.flush(30) == 0
    first, second = browse(operator, topic="odd")["messages"]
    assert first["key"] == {"size_bytes": 2, "is_cut": False, "encoding": "hex", "data": "00fe"}
    assert first["value"]["data"] == '{"a": 1}'
    assert [header["key"] for header in first["headers"]] == ["trace", "trace", "é"]
    assert first["headers"][0]["value"]["data"] == "ff00"
    assert first["headers"][1]["value"] is None
    assert second["value"] is None
    assert second["key"]["data"] == "gone"


def test_large_messages_are_cut_and_a_page_of_them_is_short(gateway: Gateway, operator: Operator) -> None:
    produce(gateway, "large", *[b"x" * 600_000] * 4)
    found = browse(operator, "offset=0", topic="large")
    assert len(found["messages"]) == 2
    assert found["next_offset"] == 2
    (value, _) = (message["value"] for message in found["messages"])
    assert (value["size_bytes"], value["is_cut"], len(value["data"])) == (600_000, True, 65_536)


def test_more_headers_than_anybody_reads_are_not_shown(gateway: Gateway, operator: Operator) -> None:
    """Compressed, eight million fit into 16 KB, and took two gigabytes to show."""
    for count in (1, 1001, 2):
        many: Any = [("h", None)] * count
        produce(gateway, "headers", b"%d" % count, headers=many)
    first, second, third = browse(operator, "offset=0", topic="headers")["messages"]
    assert [len(first["headers"]), len(third["headers"])] == [1, 2]
    assert second == {"offset": 1, "error": "a record has 1001 headers, more than 1000 are not read here"}


def test_headers_count_for_how_long_a_page_is(gateway: Gateway, operator: Operator) -> None:
    many: Any = [("", None)] * 1000
    produce(gateway, "heads", *[b"v"] * 20, headers=many)
    found = browse(operator, "offset=0", topic="heads")
    assert len(found["messages"]) < 20
    assert found["next_offset"] == len(found["messages"])


def test_what_is_compressed_is_looked_through_to_a_limit_and_every_look_comes_further(
    gateway: Gateway, operator: Operator
) -> None:
    """Batches whose last record alone is new enough, a few KB each and 12 MiB inside."""
    create_topic(gateway, "deep", 1, max_message_bytes="67108864")
    for _ in range(8):
        producer = Producer(
            {
                "bootstrap.servers": gateway.bootstrap,
                "compression.type": "zstd",
                "linger.ms": 500,
                "batch.size": 30_000_000,
                "message.max.bytes": 30_000_000,
            }
        )
        producer.produce("deep", bytes(12 << 20), partition=0, timestamp=FIRST_MS)
        producer.produce("deep", b"new", partition=0, timestamp=FIRST_MS + 1)
        assert producer.flush(60) == 0
    found = browse(operator, f"time={FIRST_MS + 1}&limit=500", topic="deep")
    assert 1 <= len(found["messages"]) < 8
    assert found["next_offset"] > found["messages"][-1]["offset"]


def test_damage_is_a_row_and_what_is_behind_it_can_be_read(tmp_path: Path) -> None:
    with running_gateway(tmp_path) as gateway:
        for number in range(3):
            produce(gateway, "hurt", b"message %d" % number * 50)
        gateway.stop()
        (log,) = gateway.data.glob("topics/hurt-*/0/**/*.log")
        data = bytearray(log.read_bytes())
        data[data.index(b"message 1") + 100] ^= 0xFF
        log.write_bytes(data)
        gateway.start()
        found = browse(Operator(gateway), "offset=0", topic="hurt")
        assert [message["offset"] for message in found["messages"]] == [0, 1, 2]
        assert "error" in found["messages"][1]
        assert found["messages"][2]["value"]["data"].startswith("message 2")
