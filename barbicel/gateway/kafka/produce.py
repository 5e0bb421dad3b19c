"""Produce (key 0), versions 0 to 13.

- Advertised from 0 although 0 to 2 are refused, as Kafka 4 does: librdkafka before 2.16 takes a first
  version of 3 for a broker that knows no compression. Whoever uses them loses its connection.
- acks=0 gets no answer. If something is refused, the connection is closed, as Kafka does: that makes the
  client look for what has changed. The request counts as under way until it is stored, like any other.
- zstd needs version 7 (KIP-110).
- Version 13 names topics by their id.
- Needs WRITE on the topic.
- Transactional batches are refused: there are no transactions yet.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from barbicel.codecs.kafka.acls import Operation, Resource
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.produce import (
    ProducePartitionResult,
    ProduceRequest,
    ProduceTopic,
    ProduceTopicResult,
    decode_produce_request,
    encode_produce_response,
)
from barbicel.codecs.kafka.produced_batch import check_batch
from barbicel.codecs.kafka.record_batch import BadBatch
from barbicel.codecs.kafka.wire import new_tuple
from barbicel.disk import Bytes
from barbicel.errors import BarbicelError
from barbicel.gateway.broker.partition import Partition, Produced
from barbicel.gateway.broker.topics import OpenTopic
from barbicel.gateway.kafka.api import Api, Call, Later, Reply
from barbicel.gateway.kafka.permission import may

__all__ = ["API"]

FIRST_SERVED = 3
ZSTD_SINCE = 7
KNOWN_ACKS = (-1, 0, 1)
# Of a topic's name in the log; a client may send 32 KB.
MAX_NAME_CHARS = 100


class _Unanswerable(BarbicelError):
    """Something was refused that has no answer, or that the client wants none to."""


class _Collector(Later):
    """Waits for every partition of a request and then answers for all of them."""

    __slots__ = ("_acks", "_call", "_is_only_storage", "_left", "_refused", "_results")

    def __init__(self, call: Call, acks: int) -> None:
        super().__init__()
        self._acks = acks
        self._call = call
        self._refused: list[str] = []
        self._is_only_storage = True
        self._results: list[ProduceTopicResult] = []
        self._left = 0

    def expect(self, topic: ProduceTopic) -> list[ProducePartitionResult]:
        """Where the results of a topic's partitions go, a place for each; they are told of by `settle`."""
        results = [_UNANSWERED] * len(topic.partitions)
        self._results.append(new_tuple(ProduceTopicResult, (topic.name, topic.topic_id, results)))
        self._left += len(results)
        return results

    def settle(
        self,
        topic: ProduceTopic,
        results: list[ProducePartitionResult],
        place: int,
        partition: Partition | None,
        produced: Produced,
    ) -> None:
        number = topic.partitions[place][0]
        error_code, base_offset, append_time_ms, message = produced
        start_offset = -1 if partition is None or error_code else partition.start_offset
        fields = number, error_code, base_offset, append_time_ms, start_offset, message, (), None
        results[place] = new_tuple(ProducePartitionResult, fields)
        if error_code:
            self._is_only_storage &= error_code == ErrorCode.KAFKA_STORAGE_ERROR
            name = ErrorCode(error_code).name
            topic_name = (topic.name or "topic")[:MAX_NAME_CHARS]
            self._refused.append(f"{topic_name}-{number}: {message or name}")
        self._left -= 1
        # It leads back here: whoever is told lets go of it, and needs no garbage collector.
        if not self._left and (then := self.then) is not None:
            self.then = None
            then()

    def reply(self) -> Reply:
        return self if self._left else self.outcome()

    def outcome(self) -> Sequence[ProduceTopicResult] | None:
        if self._refused:
            refused = f"{self._refused[0]} ({len(self._refused)} refused in all)"
            if self._acks == 0:
                raise _Unanswerable(refused)
            # Of a log that takes no writes the partition has told, and every client tries again and again.
            level = logging.DEBUG if self._is_only_storage else logging.WARNING
            self._call.broker.notes.tell(self._call.peer, f"Produce refused: {refused}", level)
        return self._results if self._acks else None


_UNANSWERED = ProducePartitionResult(-1, ErrorCode.UNKNOWN_SERVER_ERROR, -1)


def respond(call: Call, request: ProduceRequest) -> Reply:
    if call.version < FIRST_SERVED:
        raise _Unanswerable(
            f"version {call.version} is not served, only {FIRST_SERVED} to {API.last_version}"
        )
    collector = _Collector(call, request.acks)
    refusal = _refusal(request)
    for topic in request.topics:
        results = collector.expect(topic)
        known = call.broker.topics.find(topic.name, topic.topic_id)
        is_denied = call.session is not None and _is_denied(call, topic, known)
        for place, (index, records) in enumerate(topic.partitions):
            partition = _partition(known, index)
            settle = partial(collector.settle, topic, results, place, partition)
            if refusal is not None:
                settle(refusal)
            elif is_denied:
                settle(Produced(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            elif partition is None:
                settle(_unknown(topic, known))
            else:
                _produce(call, partition, records, settle)
    return collector.reply()


def _refusal(request: ProduceRequest) -> Produced | None:
    """Why the whole request is refused, if it is."""
    if request.acks not in KNOWN_ACKS:
        return Produced(ErrorCode.INVALID_REQUIRED_ACKS, message=f"acks is {request.acks}, not -1, 0 or 1")
    if request.transactional_id is not None:
        return Produced(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, message="there are no transactions")
    return None


def _is_denied(call: Call, topic: ProduceTopic, known: OpenTopic | None) -> bool:
    """Whether there is such a topic is told to those alone who may write to it."""
    name = topic.name if known is None else known.name
    return name is not None and not may(call, Operation.WRITE, Resource.TOPIC, name)


def _partition(topic: OpenTopic | None, index: int) -> Partition | None:
    if topic is None or not 0 <= index < len(topic.partitions):
        return None
    return topic.partitions[index]


def _unknown(topic: ProduceTopic, known: OpenTopic | None) -> Produced:
    if topic.name is None and known is None:
        return Produced(ErrorCode.UNKNOWN_TOPIC_ID)
    return Produced(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _produce(call: Call, partition: Partition, records: memoryview | None, settle: partial[None]) -> None:
    try:
        batch = check_batch(
            records if records is not None else memoryview(b""),
            partition.values.max_message_bytes,
            allow_zstd=call.version >= ZSTD_SINCE,
        )
        if batch.header.is_transactional:
            raise BadBatch(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "there are no transactions")
    except BadBatch as error:
        partition.damage_found.produced += error.error_code == ErrorCode.CORRUPT_MESSAGE
        settle(Produced(error.error_code, message=error.message))
        return
    partition.produce(batch, call.broker.append, settle)


def encode(results: Sequence[ProduceTopicResult], version: int) -> Sequence[Bytes]:
    return (encode_produce_response(version, results),)


def encode_throttled(
    results: Sequence[ProduceTopicResult], version: int, throttle_ms: int
) -> Sequence[Bytes]:
    return (encode_produce_response(version, results, throttle_ms),)


API = Api(0, "Produce", 0, 13, respond, decode_produce_request, encode, encode_throttled=encode_throttled)
