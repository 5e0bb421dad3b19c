"""Topics with sealed segments, filled once, and copies of them for gateways to upload.

Sealed segments never change: a copy shares them with the original, so that every round uploads the very same
bytes and costs the disk nothing before.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from barbicel.codecs.kafka import new_batch
from barbicel.codecs.kafka.compression import Codec
from barbicel.disk import RealDisk
from barbicel.keratin.log import Log
from barbicel.keratin.records import Ack, NewRecord
from barbicel.keratin.settings import LogSettings
from bench.tier.scale import Scale
from tests.support.gateway import Gateway, running_gateway

__all__ = [
    "LARGE",
    "PARTITIONS",
    "PLAIN",
    "QUIET",
    "SMALL",
    "TOPICS",
    "Topic",
    "copy_filled",
    "count_messages",
    "fill",
]

# As many as a gateway uploads at the same time by default.
PARTITIONS = 2
# A client that is done with tells what it has not looked at, unless it is told to tell of errors alone.
QUIET = {"log_level": 3}
SEED = 1
# Batches that differ from one another; then the same ones come again.
DISTINCT = 256
APPENDED_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Topic:
    """A kind of segments: what each of its batches has."""

    name: str
    messages: int
    message_bytes: int
    codec: Codec


# Half of a message's bytes compress to nothing.
LARGE = Topic("large", messages=32, message_bytes=1000, codec=Codec.LZ4)
PLAIN = Topic("plain", messages=16, message_bytes=1000, codec=Codec.NONE)
# Compressed, and with its header, a batch has 200 bytes.
SMALL = Topic("small", messages=1, message_bytes=208, codec=Codec.LZ4)
TOPICS = (LARGE, PLAIN, SMALL)


def fill(directory: Path, scale: Scale) -> Path:
    """The data directory of a gateway, which has stopped, with all topics; none of them is tiered yet."""
    directory.mkdir(parents=True)
    with running_gateway(directory) as gateway:
        for topic in TOPICS:
            _create(gateway, topic, _segment_bytes(topic, scale))
    for topic in TOPICS:
        for partition in range(PARTITIONS):
            (path,) = gateway.data.glob(f"topics/{topic.name}-*/{partition}")
            _append(path, topic, scale)
    return gateway.data


def _segment_bytes(topic: Topic, scale: Scale) -> int:
    sizes = {
        LARGE: scale.segment_bytes,
        PLAIN: scale.plain_segment_bytes,
        SMALL: scale.small_segment_bytes,
    }
    return sizes[topic]


def _create(gateway: Gateway, topic: Topic, segment_bytes: int) -> None:
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap, **QUIET})
    wanted = NewTopic(topic.name, PARTITIONS, config={"segment.bytes": str(segment_bytes)})
    for created in admin.create_topics([wanted]).values():
        created.result()


def _append(path: Path, topic: Topic, scale: Scale) -> None:
    """Until the segments that are wanted are sealed; hardly anything is in the last one."""
    wanted = scale.segments if topic is LARGE else 1
    settings = LogSettings(segment_max_bytes=_segment_bytes(topic, scale))
    records = _records(topic)
    with Log.open(str(path), disk=RealDisk(), settings=settings) as log:
        while len(log.segments) < wanted:
            log.append(list(islice(records, APPENDED_AT_ONCE)), Ack.AFTER_WRITE)


def _records(topic: Topic) -> Iterator[NewRecord]:
    """Records of the log, each of which is a batch that is told its offset when it has one."""
    source, now_ms = random.Random(SEED), int(time.time() * 1000)
    distinct = [_batch(topic, source, now_ms) for _ in range(DISTINCT)]
    for content in cycle(distinct):
        batch = bytearray(content)

        def stamp(offset: int, batch: bytearray = batch) -> None:
            batch[:8] = offset.to_bytes(8, "big")

        yield NewRecord(batch, timestamp_ms=now_ms, span=topic.messages, stamp=stamp)


def _batch(topic: Topic, source: random.Random, now_ms: int) -> bytes:
    half = topic.message_bytes // 2
    messages = [
        new_batch.NewRecord(now_ms, None, source.randbytes(half) + bytes(topic.message_bytes - half))
        for _ in range(topic.messages)
    ]
    return new_batch.build_batch(messages, codec=topic.codec, leader_epoch=0)


def copy_filled(filled: Path, to: Path) -> None:
    newest = {max(found.glob("*.log")) for found in filled.glob("topics/*/*/segments")}

    def copy(source: str, target: str) -> None:
        path = Path(source)
        is_sealed = path.suffix == ".log" and path.parent.name == "segments" and path not in newest
        if is_sealed:
            os.link(source, target)
        else:
            shutil.copy2(source, target)

    shutil.copytree(filled, to, copy_function=copy)


def count_messages(filled: Path, topic: Topic) -> int:
    """Of all partitions. Nobody may have them open."""
    total = 0
    for path in filled.glob(f"topics/{topic.name}-*/[0-9]*"):
        with Log.open(str(path), disk=RealDisk(), read_only=True) as log:
            total += log.end_offset
    return total
