"""Produce (API key 0) as a client has it, in version 8: one batch to one partition, and the answer.

Version 8 is the first whose answer has a message, and the last of the classic encoding. produce.py has the
server's side.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from barbicel.codecs.kafka.wire import INT16, INT32, ClassicReader, encode_string
from barbicel.disk import Bytes

__all__ = ["ProduceAnswer", "decode_produce_answer", "encode_produce"]

API_KEY = 0
VERSION = 8
ALL_REPLICAS = -1

HEAD = struct.Struct(
    ">"
    "h"  # request_api_key
    "h"  # request_api_version
    "i"  # correlation_id
)
ACKS = struct.Struct(
    ">"
    "h"  # acks
    "i"  # timeout_ms
    "i"  # count of topics
)
PARTITION = struct.Struct(
    ">"
    "i"  # count of partitions
    "i"  # index
    "i"  # how many bytes the records have
)
RESULT = struct.Struct(
    ">"
    "i"  # index
    "h"  # error_code
    "q"  # base_offset
    "q"  # log_append_time_ms
    "q"  # log_start_offset
)
# The index, and the length of a text.
SMALLEST_RECORD_ERROR_BYTES = INT32.size + INT16.size


class ProduceAnswer(NamedTuple):
    correlation_id: int
    error_code: int
    base_offset: int
    message: str | None


def encode_produce(
    correlation_id: int, client_id: str, topic: str, partition: int, batch: Bytes, timeout_ms: int
) -> list[Bytes]:
    """The frame in pieces, its size in front; the batch is not copied."""
    pieces: list[Bytes] = [
        HEAD.pack(API_KEY, VERSION, correlation_id),
        encode_string(client_id),
        encode_string(None),  # transactional_id
        ACKS.pack(ALL_REPLICAS, timeout_ms, 1),
        encode_string(topic),
        PARTITION.pack(1, partition, len(batch)),
        batch,
    ]
    return [INT32.pack(sum(map(len, pieces))), *pieces]


def decode_produce_answer(frame: bytes) -> ProduceAnswer:
    """The answer for the one partition that was asked for. Raises MalformedRequest for anything else."""
    reader = ClassicReader(memoryview(frame))
    (correlation_id,) = reader.unpack(INT32, "the correlation id")
    reader.unpack(INT32, "the count of topics")
    reader.string("the topic")
    reader.unpack(INT32, "the count of partitions")
    _, error_code, base_offset, _, _ = reader.unpack(RESULT, "the result")
    for _ in range(reader.count(SMALLEST_RECORD_ERROR_BYTES, "record errors")):
        reader.unpack(INT32, "the index of a record")
        reader.nullable_string("the error of a record")
    return ProduceAnswer(correlation_id, error_code, base_offset, reader.nullable_string("the error"))
