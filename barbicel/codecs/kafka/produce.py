"""Produce (API key 0), versions 0 to 13, written by hand because every record passes here.

Owns the bytes around the records; the records themselves are views of the frame that are neither copied
nor looked into. Version 3 brought transactional ids, 9 the flexible encoding, 13 topic ids for names.
Kafka 4 offers 0 to 2 for the sake of librdkafka and refuses them; here their shape is read, so that each
partition can be given its error.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from barbicel.codecs.kafka.leaders import (
    CurrentLeader,
    NodeEndpoint,
    encode_current_leader,
    encode_node_endpoints,
)
from barbicel.codecs.kafka.wire import (
    CLASSIC,
    FLEXIBLE,
    INT16,
    INT32,
    UUID_BYTES,
    ClassicReader,
    Encoding,
    FlexibleReader,
    MalformedRequest,
    check_count,
    decode_uvarint,
    encode_tagged_fields,
    encode_topic_id,
    new_tuple,
    skip_tagged_fields,
)

__all__ = [
    "ProducePartition",
    "ProducePartitionResult",
    "ProduceRequest",
    "ProduceTopic",
    "ProduceTopicResult",
    "RecordError",
    "decode_produce_request",
    "encode_produce_response",
]

TRANSACTIONAL_ID_SINCE = 3
FLEXIBLE_SINCE = 9
TOPIC_ID_SINCE = 13

CLASSIC_HEAD = struct.Struct(
    ">"
    "h"  # acks
    "i"  # timeout_ms
    "i"  # count of topics
)
FLEXIBLE_HEAD = struct.Struct(
    ">"
    "h"  # acks
    "i"  # timeout_ms
    "B"  # count of topics, if it has one byte
)
CLASSIC_PARTITION = struct.Struct(
    ">"
    "i"  # index
    "i"  # how many bytes the records have, -1 is null
)
# At least four bytes follow the index: the length of the records, and the counts of the tagged fields of
# partition, topic and request. So three may be read at once, whatever the length has.
FLEXIBLE_PARTITION = struct.Struct(
    ">"
    "i"  # index
    "B"  # how many bytes the records have, if one byte says so
    "B"  # the length's second byte, if it has one
    "B"  # the length's third byte, if it has one
)
SMALLEST_CLASSIC_TOPIC_BYTES = INT16.size + INT32.size
SMALLEST_CLASSIC_PARTITION_BYTES = CLASSIC_PARTITION.size
# The length of the name or the id itself, the count of partitions, the count of tagged fields.
SMALLEST_FLEXIBLE_TOPIC_BYTES = 1 + 1 + 1
SMALLEST_TOPIC_BY_ID_BYTES = UUID_BYTES + 1 + 1
# The index, the length of the records, the count of tagged fields.
SMALLEST_FLEXIBLE_PARTITION_BYTES = 4 + 1 + 1

# Topics, and partitions of all of them, in one request. A row takes 6 bytes of it at least and 300 as values:
# without this, a request as long as its records may make it would be gigabytes.
MAX_ROWS = 20_000

# A plain pair, because there is one for every few kilobytes: the index and a view of the records.
ProducePartition: TypeAlias = tuple[int, memoryview | None]


class ProduceTopic(NamedTuple):
    """Has a name before version 13 and an id (16 bytes) from then on."""

    name: str | None
    topic_id: bytes | None
    partitions: list[ProducePartition]


class ProduceRequest(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[ProduceTopic]


def decode_produce_request(version: int, body: memoryview) -> ProduceRequest:
    """The request, its records as views of `body`. Bytes behind it are none of its business.

    Raises MalformedRequest; nothing that was declared is allocated before it is known to be there.
    """
    try:
        if version >= FLEXIBLE_SINCE:
            return _decode_flexible(body, version >= TOPIC_ID_SINCE)
        return _decode_classic(body, version >= TRANSACTIONAL_ID_SINCE)
    except (IndexError, struct.error):
        raise MalformedRequest("the request ends within a field", position=len(body)) from None


def _decode_classic(body: memoryview, has_transactional_id: bool) -> ProduceRequest:
    transactional_id, position = None, 0
    if has_transactional_id:
        # Nearly always null, without a byte of its own.
        position = 2
        if INT16.unpack_from(body, 0)[0] != -1:
            transactional_id, position = _decode_transactional_id(ClassicReader(body))
    acks, timeout_ms, count = CLASSIC_HEAD.unpack_from(body, position)
    position += CLASSIC_HEAD.size
    left = len(body) - position
    if not 0 <= count <= left // SMALLEST_CLASSIC_TOPIC_BYTES:
        check_count(count, SMALLEST_CLASSIC_TOPIC_BYTES, left, "topics", position)
    rows = _counted(count, position)
    topics = []
    for _ in range(count):
        (length,) = INT16.unpack_from(body, position)
        name_at = position + 2
        position = name_at + length
        if length < 0:
            raise MalformedRequest("a topic's name is null", position=name_at)
        partitions, end = _decode_classic_partitions(body, position)
        rows = _counted(rows + len(partitions), position)
        name = str(body[name_at:position], "utf-8", "replace")
        topics.append(new_tuple(ProduceTopic, (name, None, partitions)))
        position = end
    return new_tuple(ProduceRequest, (transactional_id, acks, timeout_ms, topics))


def _decode_classic_partitions(body: memoryview, position: int) -> tuple[list[ProducePartition], int]:
    # Past the end of the body, this is a struct.error: the name in front was cut.
    (count,) = INT32.unpack_from(body, position)
    position += 4
    end = len(body)
    if not 0 <= count <= (end - position) // SMALLEST_CLASSIC_PARTITION_BYTES:
        check_count(count, SMALLEST_CLASSIC_PARTITION_BYTES, end - position, "partitions", position)
    if count > MAX_ROWS:
        _counted(count, position)
    partitions: list[ProducePartition] = []
    for _ in range(count):
        index, length = CLASSIC_PARTITION.unpack_from(body, position)
        records_at = position = position + 8
        if length == -1:
            partitions.append((index, None))
            continue
        position += length
        if not records_at <= position <= end:
            raise MalformedRequest(
                f"records have {length} bytes, {end - records_at} are left", position=records_at
            )
        partitions.append((index, body[records_at:position]))
    return partitions, position


def _decode_flexible(body: memoryview, by_id: bool) -> ProduceRequest:
    # Nearly always null, one byte.
    transactional_id, position = None, 1
    if body[0]:
        transactional_id, position = _decode_transactional_id(FlexibleReader(body))
    acks, timeout_ms, count = FLEXIBLE_HEAD.unpack_from(body, position)
    position += FLEXIBLE_HEAD.size
    if count > 0x7F:
        count, position = decode_uvarint(body, position - 1)
    left = len(body) - position
    smallest_bytes = SMALLEST_TOPIC_BY_ID_BYTES if by_id else SMALLEST_FLEXIBLE_TOPIC_BYTES
    if not 0 < count <= 1 + left // smallest_bytes:
        check_count(count - 1, smallest_bytes, left, "topics", position)
    rows = _counted(count - 1, position)
    topics = []
    for _ in range(count - 1):
        name = topic_id = None
        if by_id:
            topic_at = position
            position += UUID_BYTES
            topic_id = bytes(body[topic_at:position])
        else:
            length, topic_at = decode_uvarint(body, position)
            if length == 0:
                raise MalformedRequest("a topic's name is null", position=position)
            position = topic_at + length - 1
            name = str(body[topic_at:position], "utf-8", "replace")
        partitions, position = _decode_flexible_partitions(body, position)
        rows = _counted(rows + len(partitions), position)
        position = skip_tagged_fields(body, position) if body[position] else position + 1
        topics.append(new_tuple(ProduceTopic, (name, topic_id, partitions)))
    if body[position]:
        skip_tagged_fields(body, position)
    return new_tuple(ProduceRequest, (transactional_id, acks, timeout_ms, topics))


def _decode_flexible_partitions(body: memoryview, position: int) -> tuple[list[ProducePartition], int]:
    # Past the end of the body, these are IndexErrors: the topic in front, or the records, were cut.
    count = body[position]
    position += 1
    if count > 0x7F:
        count, position = decode_uvarint(body, position - 1)
    left = len(body) - position
    if not 0 < count <= 1 + left // SMALLEST_FLEXIBLE_PARTITION_BYTES:
        check_count(count - 1, SMALLEST_FLEXIBLE_PARTITION_BYTES, left, "partitions", position)
    if count > MAX_ROWS:
        _counted(count - 1, position)
    partitions: list[ProducePartition] = []
    for _ in range(count - 1):
        index, length, second, third = FLEXIBLE_PARTITION.unpack_from(body, position)
        position += 5
        if length > 0x7F:
            if second <= 0x7F:
                length += (second << 7) - 0x80
                position += 1
            elif third <= 0x7F:
                length += (second << 7) + (third << 14) - 0x4080
                position += 2
            else:
                length, position = decode_uvarint(body, position - 1)
        if length:
            records_at = position
            position += length - 1
            partitions.append((index, body[records_at:position]))
        else:
            partitions.append((index, None))
        position = skip_tagged_fields(body, position) if body[position] else position + 1
    return partitions, position


def _counted(rows: int, position: int) -> int:
    if rows > MAX_ROWS:
        raise MalformedRequest(f"more than {MAX_ROWS} topics and partitions", position=position)
    return rows


def _decode_transactional_id(reader: ClassicReader) -> tuple[str | None, int]:
    return reader.nullable_string("the transactional id"), reader.position


# --- the response ---------------------------------------------------------------------------------------

THROTTLE_TIME_SINCE = 1
RECORD_ERRORS_SINCE = 8
LEADERS_SINCE = 10
CURRENT_LEADER_TAG = 0

# The fields of fixed size at the start of a partition's result: how many, and their shape.
RESULT_HEAD_V0 = 3, struct.Struct(">ihq")  # index, error_code, base_offset
RESULT_HEAD_V2 = 4, struct.Struct(">ihqq")  # and log_append_time_ms
RESULT_HEAD_V5 = 5, struct.Struct(">ihqqq")  # and log_start_offset
RESULT_HEADS = (RESULT_HEAD_V0,) * 2 + (RESULT_HEAD_V2,) * 3 + (RESULT_HEAD_V5,) * 9


class RecordError(NamedTuple):
    """A record for which its whole batch was refused; `batch_index` counts from the batch's first."""

    batch_index: int
    message: str | None = None


class ProducePartitionResult(NamedTuple):
    """What became of the records of one partition. Versions that have no place for a field leave it out."""

    partition: int
    error_code: int
    base_offset: int
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    record_errors: Sequence[RecordError] = ()
    current_leader: CurrentLeader | None = None


class ProduceTopicResult(NamedTuple):
    """Goes out by its name before version 13 and by its id from then on."""

    name: str | None
    topic_id: bytes | None
    partitions: Sequence[ProducePartitionResult]


def encode_produce_response(
    version: int,
    topics: Sequence[ProduceTopicResult],
    throttle_time_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """The body of the response, without its header."""
    if len(topics) == 1 and len(topics[0].partitions) == 1 and not (throttle_time_ms or node_endpoints):
        name, topic_id, (result,) = topics[0]
        if result.error_code == 0 and result[5:] == NOTHING_MORE:
            before, (field_count, head), behind = _around_one_stored(version, name, topic_id)
            return b"".join((before, head.pack(*result[:field_count]), behind))
    return _encode_response(version, topics, throttle_time_ms, node_endpoints)


@lru_cache(maxsize=256)
def _around_one_stored(
    version: int, name: str | None, topic_id: bytes | None
) -> tuple[bytes, tuple[int, struct.Struct], bytes]:
    """Nearly every answer says that one partition has stored what came, and again and again it is the same
    one: what stands before and behind the head of its result."""
    encoding = FLEXIBLE if version >= FLEXIBLE_SINCE else CLASSIC
    one = encoding.length_of_one
    before = one + _encode_topic(version, encoding, name, topic_id) + one
    whole = _encode_response(version, [ProduceTopicResult(name, topic_id, [_STORED])], 0, ())
    head = RESULT_HEADS[version]
    return before, head, whole[len(before) + head[1].size :]


def _encode_response(
    version: int,
    topics: Sequence[ProduceTopicResult],
    throttle_time_ms: int,
    node_endpoints: Sequence[NodeEndpoint],
) -> bytes:
    encoding = FLEXIBLE if version >= FLEXIBLE_SINCE else CLASSIC
    one, length = encoding.length_of_one, encoding.length
    pieces = [one if len(topics) == 1 else length(len(topics))]
    for name, topic_id, partitions in topics:
        pieces.append(_encode_topic(version, encoding, name, topic_id))
        pieces.append(one if len(partitions) == 1 else length(len(partitions)))
        for result in partitions:
            pieces.append(_encode_result(version, encoding, result))
        pieces.append(encoding.no_tagged_fields)
    if version >= THROTTLE_TIME_SINCE:
        pieces.append(INT32.pack(throttle_time_ms))
    if version >= LEADERS_SINCE:
        pieces.append(encode_node_endpoints(node_endpoints))
    else:
        pieces.append(encoding.no_tagged_fields)
    return b"".join(pieces)


def _encode_topic(version: int, encoding: Encoding, name: str | None, topic_id: bytes | None) -> bytes:
    return encode_topic_id(topic_id) if version >= TOPIC_ID_SINCE else encoding.name(name)


def _encode_result(version: int, encoding: Encoding, result: ProducePartitionResult) -> bytes:
    field_count, head = RESULT_HEADS[version]
    start = head.pack(*result[:field_count])
    if result[5:] == NOTHING_MORE:
        return start + ENDS_OF_NOTHING_MORE[version]
    return b"".join((start, *_encode_end(version, encoding, result)))


def _encode_end(version: int, encoding: Encoding, result: ProducePartitionResult) -> Iterator[bytes]:
    """What has no fixed size."""
    if version >= RECORD_ERRORS_SINCE:
        yield encoding.length(len(result.record_errors))
        for batch_index, message in result.record_errors:
            yield INT32.pack(batch_index)
            yield encoding.string(message)
            yield encoding.no_tagged_fields
        yield encoding.string(result.error_message)
    if version >= LEADERS_SINCE and result.current_leader is not None:
        yield encode_tagged_fields([(CURRENT_LEADER_TAG, encode_current_leader(result.current_leader))])
    else:
        yield encoding.no_tagged_fields


# Nearly every answer: what was produced is stored, and there is nothing to say about it.
_STORED = ProducePartitionResult(0, 0, 0)
NOTHING_MORE = _STORED[5:]
ENDS_OF_NOTHING_MORE = [
    b"".join(_encode_end(version, FLEXIBLE if version >= FLEXIBLE_SINCE else CLASSIC, _STORED))
    for version in range(len(RESULT_HEADS))
]
