"""Produce: every version, acks, and all that can be wrong with a batch."""

from __future__ import annotations

import time
from uuid import UUID

from barbicel.codecs.kafka.compression import Codec
from barbicel.codecs.kafka.messages import ApiVersionsRequest, ProduceRequest
from barbicel.codecs.kafka.new_batch import ControlType, NewRecord, build_batch, build_control_batch
from barbicel.codecs.kafka.record_batch import TimestampType
from tests.codecs.kafka.golden_batches import batch_of, with_crc
from tests.differential.asking import TIME_MS, batch, fetch, list_offsets, new_topic, produce, versions
from tests.differential.script import Ask, Send, Steps, conversations_of

__all__ = ["CONVERSATIONS"]

FIRST_SERVED, BY_ID_SINCE, LAST = 3, 13, 13
MAGIC_AT, ATTRIBUTES_AT, COUNT_AT = 16, 21, 57
CONTROL_BIT = 1 << 5
DAY_MS = 86_400_000


def produce_in_every_version() -> Steps:
    identity = yield from new_topic("produce", 2)
    for version in versions(ProduceRequest):
        if version >= FIRST_SERVED:
            by = identity if version >= BY_ID_SINCE else "produce"
            for acks in (-1, 1):
                yield Ask(
                    f"acks {acks}, version {version}", produce(by, batch(2), batch(1), acks=acks), version
                )
            yield Ask(f"unknown partition, version {version}", produce(by, *[batch()] * 3), version)
            yield Ask(f"unknown topic, version {version}", produce(_unknown(version), batch()), version)
    yield Ask("everything", fetch("produce", {0: 0, 1: 0}), 12)


def _unknown(version: int) -> str | UUID:
    return UUID(int=99) if version >= BY_ID_SINCE else "produce-none"


def produce_in_versions_that_are_gone() -> Steps:
    yield from new_topic("produce-old")
    for version in (0, 1, 2):
        yield Ask(f"version {version}", produce("produce-old", batch()), version)
        yield Ask(f"unknown topic, version {version}", produce("produce-old-none", batch()), version)
        yield Send(f"acks 0, version {version}", produce("produce-old", batch(), acks=0), version)
        yield Ask(f"after acks 0, version {version}", ApiVersionsRequest(), 0)


def produce_without_an_answer() -> Steps:
    yield from new_topic("produce-acks-0")
    for version in range(FIRST_SERVED, BY_ID_SINCE):
        yield Send(f"version {version}", produce("produce-acks-0", batch(), acks=0), version)
        # It is there for whoever asks on the same connection.
        yield Ask(f"the next answer, version {version}", fetch("produce-acks-0", {0: 0}), 12)
    bad = bytearray(batch())
    bad[-1] ^= 1
    yield Send("bad", produce("produce-acks-0", bytes(bad), acks=0), 9)
    yield Ask("after a bad one", fetch("produce-acks-0", {0: 0}), 12)
    yield Send("unknown topic", produce("produce-acks-0-none", batch(), acks=0), 9)
    yield Ask("after an unknown topic", fetch("produce-acks-0", {0: 0}), 12)


def produce_with_strange_acks() -> Steps:
    yield from new_topic("produce-acks")
    for acks in (2, -2, 100):
        yield Ask(f"acks {acks}", produce("produce-acks", batch(), acks=acks), 9)
    yield Ask("nothing is stored", fetch("produce-acks", {0: 0}), 12)


def produce_what_is_wrong() -> Steps:
    yield from new_topic("produce-wrong")
    for label, content in _wrong().items():
        for version in (3, 8, 9):
            yield Ask(f"{label}, version {version}", produce("produce-wrong", content), version)
    yield Ask("nothing is stored", fetch("produce-wrong", {0: 0}), 12)


def _wrong() -> dict[str, bytes]:
    good = batch(2)
    return {
        "bad crc": _changed(good, len(good) - 1, good[-1] ^ 1),
        "magic 0": _changed(good, MAGIC_AT, 0),
        "magic 1": _changed(good, MAGIC_AT, 1),
        "magic 3": _changed(good, MAGIC_AT, 3),
        "two batches": good + good,
        "a batch and a half": good + good[: len(good) // 2],
        "a batch and a byte": good + b"\0",
        "cut": good[:-1],
        "cut in the header": good[:30],
        "one byte": b"\0",
        "no bytes": b"",
        "unknown codec 5": with_crc(_changed(good, ATTRIBUTES_AT + 1, 5)),
        "unknown codec 7": with_crc(_changed(good, ATTRIBUTES_AT + 1, 7)),
        "no records": batch_of(b"", count=0),
        "more records than said": with_crc(_changed(good, COUNT_AT + 3, 1)),
        "fewer records than said": with_crc(_changed(good, COUNT_AT + 3, 3)),
        "base offset 1": batch(2, base_offset=1),
        "control batch": build_control_batch(
            ControlType.COMMIT, timestamp_ms=1000, producer_id=1, producer_epoch=0, coordinator_epoch=0
        ),
        "control bit alone": with_crc(_changed(good, ATTRIBUTES_AT + 1, CONTROL_BIT)),
        "transactional": batch(1, producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True),
        "sequence without a producer": batch(1, base_sequence=3),
        "producer without a sequence": batch(1, producer_id=1, producer_epoch=0),
        "too large": batch(1, size=1_100_000),
        "negative length": b"\0" * 8 + b"\xff" * 60,
    }


def produce_garbage() -> Steps:
    yield from new_topic("produce-garbage")
    yield Ask("plain", produce("produce-garbage", batch_of(b"\xff" * 40, count=1)), 9)
    packed = batch_of(b"\xff" * 40, count=1, attributes=Codec.GZIP)
    yield Ask("in gzip", produce("produce-garbage", packed), 9)


def produce_null() -> Steps:
    yield from new_topic("produce-null")
    yield Ask("null for records", produce("produce-null", None), 9, patience_s=0.5)


def _changed(data: bytes, position: int, byte: int) -> bytes:
    return data[:position] + bytes([byte]) + data[position + 1 :]


def produce_compressed() -> Steps:
    yield from new_topic("produce-codecs")
    for codec in Codec:
        for version in (3, 6, 7, 9):
            yield Ask(
                f"{codec.name}, version {version}", produce("produce-codecs", batch(5, codec=codec)), version
            )
    yield Ask("everything", fetch("produce-codecs", {0: 0}), 12)


def produce_to_be_compressed() -> Steps:
    """The bytes are each codec's own; what stands in front of them must not be."""
    for name in ("gzip", "snappy", "lz4", "zstd", "uncompressed", "producer"):
        topic = f"compressed-{name}"
        yield from new_topic(topic, compression_type=name)
        for codec in Codec:
            yield Ask(f"{codec.name} for {name}", produce(topic, batch(3, codec=codec)), 9)
        yield Ask(f"{name}: by time", list_offsets(topic, TIME_MS + 10), 7)
        yield Ask(f"{name}: headers", fetch(topic, {0: 0}), 12)


def produce_at_strange_times() -> Steps:
    now_ms = int(time.time() * 1000)
    for label, timestamp_ms in (
        ("no time", -1),
        ("negative", -2),
        ("1970", 0),
        ("tomorrow", now_ms + DAY_MS),
    ):
        yield from _at_both_clocks(label, build_batch([NewRecord(timestamp_ms, None, b"v")]))
    sent = build_batch([NewRecord(1000, None, b"v")], timestamp_type=TimestampType.LOG_APPEND_TIME)
    yield from _at_both_clocks("log append time from a client", sent)


def _at_both_clocks(label: str, content: bytes) -> Steps:
    """Topics of their own: what one server refuses does not move the offsets of the rest."""
    name = f"times-{label.replace(' ', '-')}"
    yield from new_topic(name)
    yield Ask(label, produce(name, content), 9)
    yield from new_topic(f"{name}-log", message_timestamp_type="LogAppendTime")
    yield Ask(f"{label}, by the log's clock", produce(f"{name}-log", content), 9)


def produce_too_much() -> Steps:
    yield from new_topic("produce-limit", max_message_bytes="200")
    yield Ask("as large as allowed", produce("produce-limit", batch(1, size=200 - 75)), 9)
    for size in (125, 126, 127, 128, 129, 130, 131, 140, 500):
        yield Ask(f"values of {size} bytes", produce("produce-limit", batch(1, size=size)), 9)


def produce_within_a_transaction() -> Steps:
    for version in (3, 9, 11, 12):
        yield from new_topic(f"produce-transaction-{version}")
        content = batch(1, producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
        request = produce(f"produce-transaction-{version}", content, transactional_id="tx")
        yield Ask(f"version {version}", request, version)
        plain = produce(f"produce-transaction-{version}", batch(), transactional_id="tx")
        yield Ask(f"without a transactional batch, version {version}", plain, version)


CONVERSATIONS = conversations_of(
    produce_in_every_version,
    produce_in_versions_that_are_gone,
    produce_without_an_answer,
    produce_with_strange_acks,
    produce_what_is_wrong,
    produce_garbage,
    produce_null,
    produce_compressed,
    produce_to_be_compressed,
    produce_at_strange_times,
    produce_too_much,
    produce_within_a_transaction,
)
