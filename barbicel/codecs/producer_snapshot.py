"""producers.snap as bytes: what a partition knows of its idempotent producers. Big-endian, CRC-32C.

Owns the byte layout and nothing else; docs/formats/producers.md draws it. The decoder raises CorruptFile with
the position inside the bytes it was given; the caller adds the path. The file repeats what the log says, so
nothing but time is lost with it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from crc32c import crc32c

from barbicel.errors import CorruptFile, UnknownVersion

__all__ = [
    "MAX_BATCHES",
    "MAX_SEQUENCE",
    "Producer",
    "ProducerSnapshot",
    "StoredBatch",
    "decode_producers",
    "encode_producers",
]

# How many batches of a producer are remembered. A client may have five in flight, so it repeats no older one.
MAX_BATCHES = 5
# Sequences go on at 0 after this one. All its bits are ones, so it serves as a mask too.
MAX_SEQUENCE = 2**31 - 1

MAGIC = b"KPROD\0\0\0"
VERSION = 1
HEADER = struct.Struct(
    ">"
    "8s"  # magic
    "H"  # version
    "H"  # flags
    "I"  # producer_count
    "q"  # end_offset
)
PRODUCER = struct.Struct(
    ">"
    "q"  # producer_id
    "h"  # epoch
    "H"  # batch_count
    "q"  # last_timestamp
    "q"  # last_used_ms
)
BATCH = struct.Struct(
    ">"
    "i"  # base_sequence
    "i"  # last_sequence
    "q"  # base_offset
    "q"  # max_timestamp
)
CRC = struct.Struct(">I")


class StoredBatch(NamedTuple):
    """A batch that is in the log, as much of it as an answer to its repetition needs."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    max_timestamp: int

    @property
    def end_offset(self) -> int:
        """The first offset after the batch."""
        return self.base_offset + (self.last_sequence - self.base_sequence & MAX_SEQUENCE) + 1


class Producer(NamedTuple):
    """A producer's epoch and its last batches in it, the newest last; each goes on from the one before."""

    producer_id: int
    epoch: int
    # The batches' own clock: what DescribeProducers shows, -1 none.
    last_timestamp: int
    # This machine's clock: what a producer expires by.
    last_used_ms: int
    batches: tuple[StoredBatch, ...] = ()

    @property
    def last_sequence(self) -> int:
        """-1 while the epoch has no batch."""
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def next_sequence(self) -> int:
        return self.last_sequence + 1 & MAX_SEQUENCE


@dataclass(frozen=True, slots=True)
class ProducerSnapshot:
    """All that the log below `end_offset` says of its producers, the one used longest ago first."""

    end_offset: int
    producers: tuple[Producer, ...] = ()


def encode_producers(snapshot: ProducerSnapshot) -> bytes:
    body = b"".join(_pieces(snapshot))
    return body + CRC.pack(crc32c(body))


def _pieces(snapshot: ProducerSnapshot) -> Iterator[bytes]:
    yield HEADER.pack(MAGIC, VERSION, 0, len(snapshot.producers), snapshot.end_offset)
    for producer in snapshot.producers:
        yield PRODUCER.pack(
            producer.producer_id,
            producer.epoch,
            len(producer.batches),
            producer.last_timestamp,
            producer.last_used_ms,
        )
        for batch in producer.batches:
            yield BATCH.pack(*batch)


def decode_producers(data: bytes) -> ProducerSnapshot:
    """Raises CorruptFile unless every byte is accounted for and could have been written."""
    producer_count, end_offset = _decode_header(data)
    body = data[: -CRC.size]
    if producer_count * PRODUCER.size > len(body) - HEADER.size:
        raise CorruptFile(f"{producer_count} producers in {len(data)} bytes", position=12)
    producers: dict[int, Producer] = {}
    position = HEADER.size
    for _ in range(producer_count):
        producer, end = _decode_producer(body, position)
        _check_producer(producer, end_offset, position)
        if producer.producer_id in producers:
            raise CorruptFile(f"producer {producer.producer_id} is there twice", position=position)
        producers[producer.producer_id] = producer
        position = end
    if position != len(body):
        raise CorruptFile(f"{len(body) - position} bytes too many", position=position)
    return ProducerSnapshot(end_offset, tuple(producers.values()))


def _decode_header(data: bytes) -> tuple[int, int]:
    """The count, unchecked, and the end offset."""
    if len(data) < HEADER.size + CRC.size:
        raise CorruptFile(f"{len(data)} bytes are too few for producers", position=len(data))
    magic, version, flags, producer_count, end_offset = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise CorruptFile(f"magic {magic!r} is not {MAGIC!r}", position=0)
    crc_at = len(data) - CRC.size
    if CRC.unpack_from(data, crc_at)[0] != crc32c(memoryview(data)[:crc_at]):
        raise CorruptFile("the crc32c does not match", position=crc_at)
    # Behind a good CRC an unknown version is no damage: a newer program wrote this.
    if version != VERSION or flags:
        raise UnknownVersion(f"version {version} with flags {flags:#06x} is not known", position=8)
    if end_offset < 0:
        raise CorruptFile(f"end_offset {end_offset}", position=16)
    return producer_count, end_offset


def _decode_producer(body: bytes, position: int) -> tuple[Producer, int]:
    """The producer at `position`, and the position after it."""
    start = position + PRODUCER.size
    if start > len(body):
        raise CorruptFile("the file ends in a producer", position=position)
    producer_id, epoch, batch_count, last_timestamp, last_used_ms = PRODUCER.unpack_from(body, position)
    end = start + batch_count * BATCH.size
    if batch_count > MAX_BATCHES or end > len(body):
        raise CorruptFile(f"{batch_count} batches, {len(body) - start} bytes are left", position=position)
    batches = tuple(map(StoredBatch._make, BATCH.iter_unpack(body[start:end])))
    return Producer(producer_id, epoch, last_timestamp, last_used_ms, batches), end


def _check_producer(producer: Producer, end_offset: int, position: int) -> None:
    """Numbers that would make wrong answers are refused, even behind a good CRC."""
    name = f"producer {producer.producer_id}"
    if producer.producer_id < 0 or producer.epoch < 0:
        raise CorruptFile(f"{name} with epoch {producer.epoch}", position=position)
    for batch in producer.batches:
        if min(batch.base_sequence, batch.last_sequence, batch.base_offset) < 0:
            raise CorruptFile(f"{name}: a batch has a negative number", position=position)
        if batch.end_offset > end_offset:
            raise CorruptFile(f"{name}: a batch lies behind {end_offset}", position=position)
    for older, newer in pairwise(producer.batches):
        if newer.base_sequence != older.last_sequence + 1 & MAX_SEQUENCE:
            raise CorruptFile(f"{name}: sequences have a gap", position=position)
        if newer.base_offset < older.end_offset:
            raise CorruptFile(f"{name}: batches overlap", position=position)
