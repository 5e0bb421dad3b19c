"""Fetch (key 1), versions 4 to 18.

- No sessions: the session id is always 0, which every client takes for "ask for everything each time". A
  session id that a client brings from elsewhere is FETCH_SESSION_ID_NOT_FOUND.
- At least one whole batch is returned whatever the limits say; an offset inside of a batch leads to the
  whole batch (librdkafka, Java and kafka-python skip what is before the offset).
- Nothing is zero bytes, never null: librdkafka calls that an invalid size.
- A fetch that waits is woken by the append, not by a timer; the timer ends it after max_wait_ms.
- Version 13 names topics by their id. Replicas (replica_id from 0 on) are refused: there is one broker.
- read_committed and read_uncommitted are the same here: there are no transactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.fetch import (
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchTopicResult,
    decode_fetch_request,
    encode_fetch_response,
)
from barbicel.disk import Bytes
from barbicel.errors import BarbicelError
from barbicel.gateway.broker.partition import LEADER_EPOCH, Partition
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.refusals import error_code_of
from barbicel.gateway.twisted_types import Timer

__all__ = ["API"]

NO_SESSION = 0
CONSUMER = -1
UNKNOWN = -1


class FetchAnswer(NamedTuple):
    topics: Sequence[FetchTopicResult] = ()
    error_code: int = ErrorCode.NONE


class _Wanted(NamedTuple):
    """What a fetch wants of one partition; with an error there is no partition."""

    topic: int
    asked: FetchPartition
    partition: Partition | None
    error_code: int = ErrorCode.NONE


class _ColdRead(NamedTuple):
    place: int
    partition: Partition
    offset: int
    end_offset: int
    max_bytes: int
    at_least_one: bool


def respond(call: Call, request: FetchRequest) -> Reply:
    if request.replica_id != CONSUMER:
        return FetchAnswer(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if request.session_id != NO_SESSION:
        return FetchAnswer(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    return _Fetch(call, request).begin()


class _Fetch:
    """One fetch: it reads, and if there is too little it waits and reads again."""

    def __init__(self, call: Call, request: FetchRequest) -> None:
        self._call = call
        self._request = request
        self._wanted = [
            _find(call, number, topic.name, topic.topic_id, asked)
            for number, topic in enumerate(request.topics)
            for asked in topic.partitions
        ]
        self._answer: Deferred[FetchAnswer] | None = None
        self._timer: Timer | None = None
        self._is_reading = False

    def begin(self) -> Reply:
        found = self._read_tails(must_answer=self._request.max_wait_ms <= 0)
        if isinstance(found, FetchAnswer):
            return found
        self._answer = Deferred()
        if found:
            self._read_logs(found)
        else:
            self._wait()
        return self._answer

    # --- reading ------------------------------------------------------------------------------------

    def _read_tails(self, *, must_answer: bool) -> FetchAnswer | list[_ColdRead]:
        """The answer, or what has to come from the disk for it; nothing of that: there is too little yet."""
        results: list[FetchPartitionResult] = []
        cold: list[_ColdRead] = []
        left = min(self._request.max_bytes, self._call.broker.config.fetch_max_bytes)
        total_bytes = 0
        for place, wanted in enumerate(self._wanted):
            result, pieces = self._result(wanted), None
            partition, offset = wanted.partition, wanted.asked.fetch_offset
            if partition is not None and not result.error_code and offset < partition.end_offset:
                limit = min(left, wanted.asked.partition_max_bytes)
                is_first = not total_bytes and not cold
                if limit > 0 or is_first:
                    pieces = partition.read_tail(offset, limit, at_least_one=is_first)
                    if pieces is None:
                        cold.append(
                            _ColdRead(place, partition, offset, partition.end_offset, limit, is_first)
                        )
            if pieces:
                size = sum(map(len, pieces))
                total_bytes += size
                left -= size
                result = result._replace(pieces=pieces)
            must_answer = must_answer or result.error_code != ErrorCode.NONE
            results.append(result)
        if cold:
            self._results = results
            return cold
        if must_answer or total_bytes >= self._request.min_bytes:
            return self._complete(results)
        return []

    def _result(self, wanted: _Wanted) -> FetchPartitionResult:
        asked, partition = wanted.asked, wanted.partition
        if partition is None:
            return FetchPartitionResult(asked.partition, wanted.error_code, UNKNOWN)
        start, end = partition.start_offset, partition.end_offset
        error = ErrorCode.NONE
        if asked.current_leader_epoch > LEADER_EPOCH:
            error = ErrorCode.UNKNOWN_LEADER_EPOCH
        elif not start <= asked.fetch_offset <= end:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        elif self._call.broker.topics.partition(partition.topic.name, partition.number) is not partition:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # deleted while this waited
        if error:
            return FetchPartitionResult(asked.partition, error, UNKNOWN)
        return FetchPartitionResult(asked.partition, error, end, end, start)

    def _complete(self, results: list[FetchPartitionResult]) -> FetchAnswer:
        by_topic: list[list[FetchPartitionResult]] = [[] for _ in self._request.topics]
        for wanted, result in zip(self._wanted, results, strict=True):
            by_topic[wanted.topic].append(result)
        return FetchAnswer(
            [
                FetchTopicResult(topic.name, topic.topic_id, partitions)
                for topic, partitions in zip(self._request.topics, by_topic, strict=True)
            ]
        )

    # --- from the disk ------------------------------------------------------------------------------

    def _read_logs(self, reads: list[_ColdRead]) -> None:
        self._is_reading = True
        results = self._results
        self._call.broker.read_cold(lambda: _read_all(reads)).addCallbacks(
            lambda found: self._take_logs(results, reads, found), self._fail
        )

    def _take_logs(
        self,
        results: list[FetchPartitionResult],
        reads: list[_ColdRead],
        found: list[list[memoryview] | BarbicelError],
    ) -> None:
        for read, pieces in zip(reads, found, strict=True):
            result = results[read.place]
            if isinstance(pieces, BarbicelError):
                results[read.place] = FetchPartitionResult(result.partition, error_code_of(pieces), UNKNOWN)
            else:
                results[read.place] = result._replace(pieces=pieces)
        self._is_reading = False
        # Whoever is behind is not made to wait for min_bytes: there is more to come.
        self._finish(self._complete(results))

    def _fail(self, failure: Failure) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.errback(failure)

    # --- waiting ------------------------------------------------------------------------------------

    def _wait(self) -> None:
        for wanted in self._wanted:
            if wanted.partition is not None:
                wanted.partition.waiters.add(self)
        self._call.on_lost = self._stop_waiting
        seconds = self._request.max_wait_ms / 1000
        self._timer = self._call.broker.reactor.callLater(seconds, self._end_wait)

    def wake(self) -> None:
        """Something was appended, or a topic was deleted."""
        self._look_again(must_answer=False)

    def _end_wait(self) -> None:
        self._timer = None
        self._look_again(must_answer=True)

    def _look_again(self, *, must_answer: bool) -> None:
        if self._is_reading or self._answer is None:
            return
        found = self._read_tails(must_answer=must_answer)
        if isinstance(found, FetchAnswer):
            self._finish(found)
        elif found:
            self._read_logs(found)

    def _stop_waiting(self) -> None:
        for wanted in self._wanted:
            if wanted.partition is not None:
                wanted.partition.waiters.discard(self)
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    def _finish(self, found: FetchAnswer) -> None:
        self._stop_waiting()
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.callback(found)


def _find(
    call: Call, number: int, name: str | None, topic_id: bytes | None, asked: FetchPartition
) -> _Wanted:
    topic = call.broker.topics.find(name, topic_id)
    if topic is None:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic_id is None else ErrorCode.UNKNOWN_TOPIC_ID
        return _Wanted(number, asked, None, unknown)
    if not 0 <= asked.partition < len(topic.partitions):
        return _Wanted(number, asked, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return _Wanted(number, asked, topic.partitions[asked.partition])


def _read_all(reads: list[_ColdRead]) -> list[list[memoryview] | BarbicelError]:
    """In a thread, for all partitions of a fetch together."""
    found: list[list[memoryview] | BarbicelError] = []
    left = max(read.max_bytes for read in reads)
    for read in reads:
        try:
            pieces = read.partition.read_log(
                read.offset, read.end_offset, min(left, read.max_bytes), at_least_one=read.at_least_one
            )
        except BarbicelError as error:
            found.append(error)
            continue
        left -= sum(map(len, pieces))
        found.append(pieces)
    return found


def encode(answer: FetchAnswer, version: int) -> Sequence[Bytes]:
    return encode_fetch_response(version, answer.topics, error_code=answer.error_code)


API = Api(1, "Fetch", 4, 18, respond, decode_fetch_request, encode)
