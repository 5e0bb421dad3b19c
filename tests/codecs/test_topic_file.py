"""topic.json and cluster.json: their bytes, and every way in which they can be wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from textwrap import indent
from uuid import UUID

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from barbicel.codecs.topic_file import (
    MAX_FILE_BYTES,
    ClusterFile,
    Topic,
    TopicState,
    decode_cluster,
    decode_topic,
    encode_cluster,
    encode_topic,
    parse_id,
    render_id,
)
from barbicel.errors import CorruptFile, UnknownVersion

TOPIC = Topic(
    name="orders.eu",
    id=UUID(int=0x0123456789ABCDEF0123456789ABCDEF),
    partitions=3,
    created_ms=1_700_000_000_000,
    settings={"retention.ms": "86400000", "max.message.bytes": "2000000"},
)
CLUSTER = ClusterFile(UUID(int=0xFEDCBA9876543210FEDCBA9876543210), 1_700_000_000_000, 2000)

DOCUMENT = Path(__file__).parents[2] / "docs/formats/data_directory.md"
TOPIC_BYTES = b"""\
{
  "format": 1,
  "name": "orders.eu",
  "id": "ASNFZ4mrze8BI0VniavN7w",
  "partitions": 3,
  "created_ms": 1700000000000,
  "settings": {"max.message.bytes": "2000000", "retention.ms": "86400000"},
  "state": "live",
  "crc32c": "ebe494ac"
}
"""
CLUSTER_BYTES = b"""\
{
  "format": 1,
  "cluster_id": "_ty6mHZUMhD-3LqYdlQyEA",
  "created_ms": 1700000000000,
  "next_producer_id": 2000,
  "crc32c": "e7ec59af"
}
"""

Decoder = Callable[[bytes], object]
FILES = [(TOPIC_BYTES, decode_topic), (CLUSTER_BYTES, decode_cluster)]


def sealed(text: str) -> bytes:
    """A file with a good CRC, made without the codec."""
    content = json.loads(text)
    content.pop("crc32c", None)
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    content["crc32c"] = f"{crc32c(canonical):08x}"
    lines = [f'  "{name}": {json.dumps(value)}' for name, value in content.items()]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def test_the_bytes_are_those_of_the_document() -> None:
    assert encode_topic(TOPIC) == TOPIC_BYTES == sealed(TOPIC_BYTES.decode())
    assert encode_cluster(CLUSTER) == CLUSTER_BYTES == sealed(CLUSTER_BYTES.decode())
    assert decode_topic(TOPIC_BYTES) == TOPIC
    assert decode_cluster(CLUSTER_BYTES) == CLUSTER


@pytest.mark.parametrize("data", [TOPIC_BYTES, CLUSTER_BYTES])
def test_the_document_shows_these_bytes(data: bytes) -> None:
    assert indent(data.decode(), "    ") in DOCUMENT.read_text(encoding="utf-8")


@given(
    name=st.text(max_size=300),
    identity=st.uuids(),
    partitions=st.integers(1, 10_000),
    settings=st.dictionaries(st.text(), st.text()),
    state=st.sampled_from(TopicState),
)
def test_every_topic_survives(
    name: str, identity: UUID, partitions: int, settings: dict[str, str], state: TopicState
) -> None:
    topic = Topic(name, identity, partitions, 5, settings, state)
    assert decode_topic(encode_topic(topic)) == topic


def test_a_topic_is_a_value() -> None:
    settings = {"retention.ms": "1"}
    topic = Topic("a", UUID(int=1), 1, 0, settings)
    settings["retention.ms"] = "2"
    assert topic.settings == {"retention.ms": "1"}
    assert hash(topic) == hash(Topic("a", UUID(int=1), 1, 0, {}))
    with pytest.raises(TypeError):
        topic.settings["retention.ms"] = "2"  # type: ignore[index]  # that is what is tested


@pytest.mark.parametrize(("data", "decode"), FILES)
def test_every_flipped_bit_is_noticed(data: bytes, decode: Decoder) -> None:
    for position in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[position] ^= 1 << bit
            with pytest.raises(CorruptFile):
                decode(bytes(changed))


@pytest.mark.parametrize(("data", "decode"), FILES)
def test_every_other_length_is_noticed(data: bytes, decode: Decoder) -> None:
    for size in range(len(data)):
        with pytest.raises(CorruptFile):
            decode(data[:size])
    for more in (b"\n", b" ", b"\0", b"x", data):
        with pytest.raises(CorruptFile):
            decode(data + more)


@pytest.mark.parametrize(("data", "decode"), FILES)
def test_a_newer_format_is_not_damage(data: bytes, decode: Decoder) -> None:
    newer = sealed(data.decode().replace('"format": 1', '"format": 2, "colour": "red"'))
    with pytest.raises(UnknownVersion, match="format 2"):
        decode(newer)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"partitions": 3', '"partitions": "3"'),
        ('"partitions": 3', '"partitions": true'),
        ('"partitions": 3', '"partitions": 3.0'),
        ('"partitions": 3,', ""),
        ('"state": "live"', '"state": "half"'),
        ('"state": "live"', '"state": ["live"]'),
        ('"86400000"', "86400000"),
        ('"id": "ASNFZ4mrze8BI0VniavN7w"', '"id": 5'),
        ('"id": "ASNFZ4mrze8BI0VniavN7w"', '"id": "ASNFZ4mrze8BI0VniavN7x"'),
        ('"state": "live"', '"state": "live", "colour": "red"'),
        ('"name": "orders.eu"', '"name": null'),
    ],
)
def test_content_that_makes_no_sense_behind_a_good_crc(old: str, new: str) -> None:
    assert old in TOPIC_BYTES.decode()
    with pytest.raises(CorruptFile):
        decode_topic(sealed(TOPIC_BYTES.decode().replace(old, new)))


@pytest.mark.parametrize(
    "data",
    [b"", b"null", b"[]", b"{}", b"\xff", b"[" * 100_000, b"9" * 10_000, b" " * (MAX_FILE_BYTES + 1)],
    ids=["empty", "null", "list", "object", "no text", "deep", "digits", "large"],
)
def test_what_is_no_such_file(data: bytes) -> None:
    for decode in (decode_topic, decode_cluster):
        with pytest.raises(CorruptFile):
            decode(data)


@given(st.uuids())
def test_ids_have_kafkas_text(identity: UUID) -> None:
    assert len(render_id(identity)) == 22
    assert parse_id(render_id(identity)) == identity


@pytest.mark.parametrize(
    "text", ["", "A" * 21, "A" * 23, "A" * 21 + "B", "!" + "A" * 21, "=" * 22, "é" * 22, "A" * 21 + "="]
)
def test_what_is_no_id(text: str) -> None:
    with pytest.raises(ValueError, match="is no id"):
        parse_id(text)
