"""Produce (key 0), versions 0 to 13.

- Advertised from 0 although 0 to 2 are refused, as Kafka 4 does: librdkafka before 2.16 takes a first
  version of 3 for a broker that knows no compression. They are answered with UNSUPPORTED_FOR_MESSAGE_FORMAT.
- acks=0 gets no answer, whatever happens.
- zstd needs version 7 (KIP-110).
- Version 13 names topics by their id.
- Transactional batches are refused: there are no transactions yet.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from twisted.internet.defer import Deferred

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
from barbicel.disk import Bytes
from barbicel.gateway.broker.partition import Partition, Produced
from barbicel.gateway.broker.topics import OpenTopic
from barbicel.gateway.kafka.api import Api, Call, Reply

__all__ = ["API"]

_log = logging.getLogger(__name__)

FIRST_SERVED = 3
ZSTD_SINCE = 7
KNOWN_ACKS = (-1, 0, 1)


class _Collector:
    """Waits for every partition of a request and then answers for all of them."""

    __slots__ = ("_answer", "_left", "_results", "is_done")

    def __init__(self, request: ProduceRequest) -> None:
        self._answer: Deferred[Sequence[ProduceTopicResult]] | None = None
        self._results = [
            ProduceTopicResult(topic.name, topic.topic_id, [_UNANSWERED] * len(topic.partitions))
            for topic in request.topics
        ]
        self._left = sum(len(topic.partitions) for topic in request.topics)
        self.is_done = not self._left

    def settle(
        self, topic: int, place: int, number: int, partition: Partition | None, produced: Produced
    ) -> None:
        results = self._results[topic].partitions
        assert isinstance(results, list)
        results[place] = ProducePartitionResult(
            number,
            produced.error_code,
            produced.base_offset,
            produced.log_append_time_ms,
            -1 if partition is None or produced.error_code else partition.start_offset,
            produced.message,
        )
        self._left -= 1
        if not self._left:
            self.is_done = True
            if self._answer is not None:
                self._answer.callback(self._results)

    def reply(self) -> Reply:
        if self.is_done:
            return self._results
        self._answer = Deferred()
        return self._answer


_UNANSWERED = ProducePartitionResult(-1, ErrorCode.UNKNOWN_SERVER_ERROR, -1)


def respond(call: Call, request: ProduceRequest) -> Reply:
    collector = _Collector(request)
    refusal = _refusal(call, request)
    for number, topic in enumerate(request.topics):
        known = call.broker.topics.find(topic.name, topic.topic_id)
        for place, (index, records) in enumerate(topic.partitions):
            partition = _partition(known, index)
            settle = partial(collector.settle, number, place, index, partition)
            if refusal is not None:
                settle(refusal)
            elif partition is None:
                settle(_unknown(topic))
            else:
                _produce(call, partition, records, settle)
    if request.acks == 0:
        return None
    return collector.reply()


def _refusal(call: Call, request: ProduceRequest) -> Produced | None:
    """Why the whole request is refused, if it is."""
    if call.version < FIRST_SERVED:
        return Produced(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, message="records of version 2 are needed")
    if request.acks not in KNOWN_ACKS:
        return Produced(ErrorCode.INVALID_REQUIRED_ACKS, message=f"acks is {request.acks}, not -1, 0 or 1")
    if request.transactional_id is not None:
        return Produced(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, message="there are no transactions")
    return None


def _partition(topic: OpenTopic | None, index: int) -> Partition | None:
    if topic is None or not 0 <= index < len(topic.partitions):
        return None
    return topic.partitions[index]


def _unknown(topic: ProduceTopic) -> Produced:
    if topic.name is None:
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
            raise BadBatch(ErrorCode.INVALID_TXN_STATE, "there are no transactions")
    except BadBatch as error:
        _log.warning(
            "refusing a batch of %s:%d for %s-%d: %s",
            *call.peer,
            partition.topic.name,
            partition.number,
            error.message,
        )
        settle(Produced(error.error_code, message=error.message))
        return
    partition.produce(batch, call.broker.append, settle)


def encode(results: Sequence[ProduceTopicResult], version: int) -> Sequence[Bytes]:
    return (encode_produce_response(version, results),)


API = Api(0, "Produce", 0, 13, respond, decode_produce_request, encode)
