"""Fetch (API key 1), versions 4 to 18, written by hand because every record passes here.

Owns the bytes around the records. A response is a list of pieces, the records among them as they were
given, never copied. Version 5 brought log start offsets, 7 sessions, 9 leader epochs, 11 racks, 12 the
flexible encoding, 13 topic ids for names, 15 moved the replica's id into a tagged field.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from itertools import starmap
from typing import NamedTuple, TypeAlias, TypeVar

from barbicel.codecs.kafka.leaders import (
    CurrentLeader,
    NodeEndpoint,
    encode_current_leader,
    encode_node_endpoints,
)
from barbicel.codecs.kafka.wire import (
    CLASSIC,
    FLEXIBLE,
    INT32,
    UUID_BYTES,
    ClassicReader,
    Encoding,
    FlexibleReader,
    encode_tagged_fields,
    encode_topic_id,
)

__all__ = [
    "AbortedTransaction",
    "EpochEndOffset",
    "FetchPartition",
    "FetchPartitionResult",
    "FetchRequest",
    "FetchTopic",
    "FetchTopicResult",
    "ForgottenTopic",
    "SnapshotId",
    "decode_fetch_request",
    "encode_fetch_response",
]

SESSIONS_SINCE = 7
RACK_SINCE = 11
FLEXIBLE_SINCE = 12
TOPIC_ID_SINCE = 13
REPLICA_STATE_SINCE = 15
LEADER_ENDPOINTS_SINCE = 16

# Topics and partitions of one request. Each costs microseconds, in which nobody else is served.
MAX_ROWS = 30_000

NO_REPLICA = -1
NO_SESSION_ID = 0
NO_SESSION_EPOCH = -1
UNKNOWN = -1
REPLICA_STATE_TAG = 1

# --- the request ----------------------------------------------------------------------------------------


class FetchPartition(NamedTuple):
    """What is wanted of one partition; -1 in a field that the version does not have."""

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    partition_max_bytes: int


class FetchTopic(NamedTuple):
    """Has a name before version 13 and an id (16 bytes) from then on."""

    name: str | None
    topic_id: bytes | None
    partitions: list[FetchPartition]


class ForgottenTopic(NamedTuple):
    """Partitions that a session shall no longer have."""

    name: str | None
    topic_id: bytes | None
    partitions: list[int]


class FetchRequest(NamedTuple):
    """`replica_id` is -1 for a consumer. Without sessions in the version, the session is that of none."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]
    rack_id: str


P = TypeVar("P")
T = TypeVar("T")
Shape: TypeAlias = tuple[struct.Struct, Callable[..., FetchPartition]]


def _partition_v4(partition: int, fetch_offset: int, max_bytes: int) -> FetchPartition:
    return FetchPartition(partition, UNKNOWN, fetch_offset, UNKNOWN, UNKNOWN, max_bytes)


def _partition_v5(partition: int, fetch_offset: int, log_start_offset: int, max_bytes: int) -> FetchPartition:
    return FetchPartition(partition, UNKNOWN, fetch_offset, UNKNOWN, log_start_offset, max_bytes)


def _partition_v9(
    partition: int, leader_epoch: int, fetch_offset: int, log_start_offset: int, max_bytes: int
) -> FetchPartition:
    return FetchPartition(partition, leader_epoch, fetch_offset, UNKNOWN, log_start_offset, max_bytes)


# A partition's fields, all of fixed size, and what is made of them.
PARTITION_V4: Shape = struct.Struct(">iqi"), _partition_v4
PARTITION_V5: Shape = struct.Struct(">iqqi"), _partition_v5
PARTITION_V9: Shape = struct.Struct(">iiqqi"), _partition_v9
# The x is the count of tagged fields, which only replicas use.
PARTITION_V12: Shape = struct.Struct(">iiqiqix"), FetchPartition

PARTITIONS: Mapping[int, Shape] = {
    4: PARTITION_V4,
    **dict.fromkeys(range(5, 9), PARTITION_V5),
    **dict.fromkeys(range(9, 12), PARTITION_V9),
    **dict.fromkeys(range(12, 19), PARTITION_V12),
}

# replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level
HEAD_V4 = struct.Struct(">iiiib")
# and session_id, session_epoch
HEAD_V7 = struct.Struct(">iiiibii")
# without replica_id
HEAD_V15 = struct.Struct(">iiibii")

REPLICA_STATE = struct.Struct(
    ">"
    "i"  # replica_id
    "q"  # replica_epoch
)

# The length of the name or the id itself, the count of partitions, the count of tagged fields.
SMALLEST_CLASSIC_TOPIC_BYTES = 2 + 4
SMALLEST_FLEXIBLE_TOPIC_BYTES = 1 + 1 + 1
SMALLEST_TOPIC_BY_ID_BYTES = UUID_BYTES + 1 + 1


def decode_fetch_request(version: int, body: memoryview) -> FetchRequest:
    """The request. Bytes behind it are none of its business. Raises MalformedRequest."""
    reader = (FlexibleReader if version >= FLEXIBLE_SINCE else ClassicReader)(body)
    reader.rows_left = MAX_ROWS
    head = _decode_head(version, reader)
    topics = _decode_topics(version, reader, FetchTopic, _decode_partitions)
    forgotten: list[ForgottenTopic] = []
    if version >= SESSIONS_SINCE:
        forgotten = _decode_topics(version, reader, ForgottenTopic, _decode_forgotten_partitions)
    rack_id = reader.string("the rack id") if version >= RACK_SINCE else ""
    if version >= REPLICA_STATE_SINCE:
        head = (_decode_replica_id(reader), *head)
    else:
        reader.skip_tagged_fields()
    return FetchRequest._make((*head, topics, forgotten, rack_id))


def _decode_head(version: int, reader: ClassicReader) -> tuple[int, ...]:
    if version < SESSIONS_SINCE:
        return (*reader.unpack(HEAD_V4, "the head"), NO_SESSION_ID, NO_SESSION_EPOCH)
    return reader.unpack(HEAD_V7 if version < REPLICA_STATE_SINCE else HEAD_V15, "the head")


def _decode_topics(
    version: int,
    reader: ClassicReader,
    make: Callable[[str | None, bytes | None, list[P]], T],
    decode_partitions: Callable[[int, ClassicReader], list[P]],
) -> list[T]:
    topics = []
    for _ in range(reader.count(_smallest_topic_bytes(version), "topics")):
        name = topic_id = None
        if version >= TOPIC_ID_SINCE:
            topic_id = reader.uuid("a topic's id")
        else:
            name = reader.string("a topic's name")
        topics.append(make(name, topic_id, decode_partitions(version, reader)))
        reader.skip_tagged_fields()
    return topics


def _smallest_topic_bytes(version: int) -> int:
    if version >= TOPIC_ID_SINCE:
        return SMALLEST_TOPIC_BY_ID_BYTES
    return SMALLEST_FLEXIBLE_TOPIC_BYTES if version >= FLEXIBLE_SINCE else SMALLEST_CLASSIC_TOPIC_BYTES


def _decode_partitions(version: int, reader: ClassicReader) -> list[FetchPartition]:
    """All at once where they have no tagged fields, and so all the same size: a client without a session
    names all of its partitions in every request."""
    shape, make = PARTITIONS[version]
    count = reader.count(shape.size, "partitions")
    start, end = reader.position, reader.position + count * shape.size
    if version >= FLEXIBLE_SINCE and any(reader.view[start + shape.size - 1 : end : shape.size]):
        return [_decode_tagged_partition(reader) for _ in range(count)]
    reader.position = end
    return list(starmap(make, shape.iter_unpack(reader.view[start:end])))


def _decode_tagged_partition(reader: ClassicReader) -> FetchPartition:
    shape, make = PARTITION_V12
    partition = make(*reader.unpack(shape, "a partition"))
    reader.position -= 1
    reader.skip_tagged_fields()
    return partition


def _decode_forgotten_partitions(_version: int, reader: ClassicReader) -> list[int]:
    count = reader.count(INT32.size, "forgotten partitions")
    start = reader.take(count * INT32.size, "forgotten partitions")
    return [partition for (partition,) in INT32.iter_unpack(reader.view[start : reader.position])]


def _decode_replica_id(reader: ClassicReader) -> int:
    """From the tagged fields at the end; what a consumer sends has none."""
    replica_id = NO_REPLICA
    for tag, end in reader.tagged_fields():
        if tag == REPLICA_STATE_TAG:
            state = FlexibleReader(reader.view, reader.position, end)
            replica_id = state.unpack(REPLICA_STATE, "the replica's state")[0]
    return replica_id


# --- the response ---------------------------------------------------------------------------------------

LOG_START_OFFSET_SINCE = 5
DIVERGING_EPOCH_TAG = 0
CURRENT_LEADER_TAG = 1
SNAPSHOT_ID_TAG = 2

ANSWER_V4 = struct.Struct(">i")  # throttle_time_ms
ANSWER_V7 = struct.Struct(">ihi")  # and error_code, session_id
RESULT_V4 = struct.Struct(">ihqq")  # partition_index, error_code, high_watermark, last_stable_offset
RESULT_V5 = struct.Struct(">ihqqq")  # and log_start_offset
ABORTED_TRANSACTION = struct.Struct(">qq")  # producer_id, first_offset
EPOCH_END_OFFSET = struct.Struct(">iqx")  # epoch, end_offset, no tagged fields
SNAPSHOT_ID = struct.Struct(">qix")  # end_offset, epoch, no tagged fields

Piece: TypeAlias = bytes | memoryview


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int


class EpochEndOffset(NamedTuple):
    epoch: int
    end_offset: int


class SnapshotId(NamedTuple):
    end_offset: int
    epoch: int


class FetchPartitionResult(NamedTuple):
    """What a partition gives: its records in `pieces`, which together may be empty but are never null.

    A view among them counts in bytes. Versions that have no place for a field leave it out.
    """

    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    aborted_transactions: Sequence[AbortedTransaction] | None = None
    preferred_read_replica: int = NO_REPLICA
    pieces: Sequence[Piece] = ()
    diverging_epoch: EpochEndOffset | None = None
    current_leader: CurrentLeader | None = None
    snapshot_id: SnapshotId | None = None


class FetchTopicResult(NamedTuple):
    """Goes out by its name before version 13 and by its id from then on."""

    name: str | None
    topic_id: bytes | None
    partitions: Sequence[FetchPartitionResult]


def encode_fetch_response(
    version: int,
    topics: Sequence[FetchTopicResult],
    throttle_time_ms: int = 0,
    error_code: int = 0,
    session_id: int = NO_SESSION_ID,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> list[Piece]:
    """The body of the response in pieces, without its header; `sum(map(len, pieces))` is its size.

    The records are the pieces that were given; everything between two of them is one piece.
    """
    encoding = FLEXIBLE if version >= FLEXIBLE_SINCE else CLASSIC
    done: list[Piece] = []
    small = [
        _encode_answer_head(version, throttle_time_ms, error_code, session_id),
        encoding.length(len(topics)),
    ]
    for name, topic_id, partitions in topics:
        small.append(encode_topic_id(topic_id) if version >= TOPIC_ID_SINCE else encoding.name(name))
        small.append(encoding.length(len(partitions)))
        for result in partitions:
            small.append(_encode_result_head(version, encoding, result))
            if result.pieces:
                done.append(b"".join(small))
                done += result.pieces
                small = []
            small.append(_encode_result_tags(result) if version >= FLEXIBLE_SINCE else b"")
        small.append(encoding.no_tagged_fields)
    if version >= LEADER_ENDPOINTS_SINCE:
        small.append(encode_node_endpoints(node_endpoints))
    else:
        small.append(encoding.no_tagged_fields)
    done.append(b"".join(small))
    return done


def _encode_answer_head(version: int, throttle_time_ms: int, error_code: int, session_id: int) -> bytes:
    if version < SESSIONS_SINCE:
        return ANSWER_V4.pack(throttle_time_ms)
    return ANSWER_V7.pack(throttle_time_ms, error_code, session_id)


def _encode_result_head(version: int, encoding: Encoding, result: FetchPartitionResult) -> bytes:
    """Everything up to the records, their length included."""
    pieces = [
        RESULT_V5.pack(*result[:5]) if version >= LOG_START_OFFSET_SINCE else RESULT_V4.pack(*result[:4])
    ]
    aborted = result.aborted_transactions
    pieces.append(encoding.length(None if aborted is None else len(aborted)))
    for transaction in aborted or ():
        pieces += (ABORTED_TRANSACTION.pack(*transaction), encoding.no_tagged_fields)
    if version >= RACK_SINCE:
        pieces.append(INT32.pack(result.preferred_read_replica))
    pieces.append(encoding.length(sum(map(len, result.pieces))))
    return b"".join(pieces)


def _encode_result_tags(result: FetchPartitionResult) -> bytes:
    fields = []
    if result.diverging_epoch is not None:
        fields.append((DIVERGING_EPOCH_TAG, EPOCH_END_OFFSET.pack(*result.diverging_epoch)))
    if result.current_leader is not None:
        fields.append((CURRENT_LEADER_TAG, encode_current_leader(result.current_leader)))
    if result.snapshot_id is not None:
        fields.append((SNAPSHOT_ID_TAG, SNAPSHOT_ID.pack(*result.snapshot_id)))
    return encode_tagged_fields(fields)
