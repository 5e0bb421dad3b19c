"""Fetch (key 1), versions 4 to 18.

- No sessions: the session id is always 0, which every client takes for "ask for everything each time". One
  that goes on with a session (its epoch is above 0) is told FETCH_SESSION_ID_NOT_FOUND.
- At least one whole batch is returned whatever the limits say; an offset inside of a batch leads to the
  whole batch (librdkafka, Java and kafka-python skip what is before the offset).
- Nothing is zero bytes, never null: librdkafka calls that an invalid size.
- A fetch that waits is woken by the append, not by a timer; the timer ends it after max_wait_ms. One that
  finds anything on the disk does not wait for min_bytes: whoever is behind is not to fall back further.
- Offsets that a repair has given up are passed over: the answer begins with the next batch behind them.
  Damage that nobody has repaired is CORRUPT_MESSAGE from the first damaged offset on.
- Version 13 names topics by their id. Replicas (replica_id from 0 on) are refused: there is one broker.
- read_committed and read_uncommitted are the same here: there are no transactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

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

T = TypeVar("T")

READ_COMMITTED = 1
CONSUMER = -1
UNKNOWN = -1
# What one fetch reads from the disk: whoever is behind asks again at once, and sooner has the first of it.
MAX_COLD_BYTES = 32 << 20


class FetchAnswer(NamedTuple):
    topics: Sequence[FetchTopicResult] = ()
    error_code: int = ErrorCode.NONE


class _Wanted(NamedTuple):
    """What a fetch wants of one partition; None if there is none, then `unknown` says so."""

    topic: int
    asked: FetchPartition
    partition: Partition | None
    unknown: int


class _ColdRead(NamedTuple):
    place: int
    partition: Partition
    offset: int
    end_offset: int
    max_bytes: int


class _ColdResult(NamedTuple):
    """`is_nothing`: the log has no record from the offset to its end."""

    pieces: list[memoryview]
    error: BarbicelError | None = None
    is_nothing: bool = False


@dataclass(slots=True)
class _Found:
    """What was in memory, what has to come from the disk, and what has to wait for that."""

    results: list[FetchPartitionResult]
    left_bytes: int
    size: int = 0
    cold: list[_ColdRead] = field(default_factory=list)
    later: list[int] = field(default_factory=list)

    def put(self, place: int, pieces: list[memoryview]) -> None:
        size = sum(map(len, pieces))
        self.results[place] = self.results[place]._replace(pieces=pieces)
        self.size += size
        self.left_bytes -= size

    @property
    def has_error(self) -> bool:
        return any(result.error_code for result in self.results)


def respond(call: Call, request: FetchRequest) -> Reply:
    if request.replica_id != CONSUMER:
        return FetchAnswer(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if request.session_epoch > 0:
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
        # Where a log has nothing between the wanted offset and this one: a repair gave it up.
        self._nothing_before: dict[int, int] = {}
        self._answer: Deferred[FetchAnswer] = Deferred()
        self._timer: Timer | None = None
        self._is_reading = False
        # Java ends a session that way when a consumer closes, with the wait of all its fetches.
        wants_nothing = not self._wanted
        self._must_answer = request.max_wait_ms <= 0 or wants_nothing

    def begin(self) -> Reply:
        found = self._look()
        if self._is_enough(found):
            return self._complete(found.results)
        if found.cold:
            self._read_logs(found)
        else:
            self._wait()
        return self._answer

    # --- reading ------------------------------------------------------------------------------------

    def _look(self) -> _Found:
        room_bytes = self._call.answers.room_bytes
        limits = self._request.max_bytes, self._call.broker.config.fetch_max_bytes, room_bytes
        found = _Found([self._result(wanted) for wanted in self._wanted], min(limits))
        self._fill(found, range(len(self._wanted)))
        return found

    def _fill(self, found: _Found, places: Sequence[int]) -> None:
        """From memory, in order, as far as the limit goes. Behind something cold all has to wait for it, or
        those who are behind would fall back further."""
        for place in places:
            asked, partition = self._wanted[place].asked, self._wanted[place].partition
            offset = max(asked.fetch_offset, self._nothing_before.get(place, 0))
            if partition is None or found.results[place].error_code or offset >= partition.end_offset:
                continue
            limit = min(found.left_bytes, asked.partition_max_bytes)
            if not partition.is_in_tail(offset):
                read = _ColdRead(place, partition, offset, partition.end_offset, asked.partition_max_bytes)
                found.cold.append(read)
            elif found.cold:
                found.later.append(place)
            elif limit > 0 or not found.size:
                found.put(place, partition.read_tail(offset, limit, at_least_one=not found.size))

    def _is_enough(self, found: _Found) -> bool:
        return not found.cold and (
            self._must_answer or found.size >= self._request.min_bytes or found.has_error
        )

    def _result(self, wanted: _Wanted) -> FetchPartitionResult:
        asked, partition = wanted.asked, wanted.partition
        if partition is None or self._is_deleted(partition):
            return FetchPartitionResult(asked.partition, wanted.unknown, UNKNOWN, aborted_transactions=())
        start, end = partition.start_offset, partition.end_offset
        error = ErrorCode.NONE
        if asked.current_leader_epoch > LEADER_EPOCH:
            error = ErrorCode.UNKNOWN_LEADER_EPOCH
        elif not start <= asked.fetch_offset <= end:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        # Kafka has no list at all for those who did not ask for one.
        aborted = () if self._request.isolation_level == READ_COMMITTED else None
        if error:
            return FetchPartitionResult(asked.partition, error, UNKNOWN, aborted_transactions=aborted)
        return FetchPartitionResult(asked.partition, error, end, end, start, aborted)

    def _is_deleted(self, partition: Partition) -> bool:
        """While this waited."""
        topics = self._call.broker.topics
        return topics.partition(partition.topic.name, partition.number) is not partition

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

    def _read_logs(self, found: _Found) -> None:
        self._is_reading = True
        reads, is_first = found.cold, not found.size
        left_bytes = min(found.left_bytes, MAX_COLD_BYTES)
        # Others must not count on the room that this will take.
        claimed_bytes = max(0, min(left_bytes, sum(max(0, read.max_bytes) for read in reads)))
        self._call.answers.hold(claimed_bytes)
        reading = self._call.broker.read_cold(lambda: _read_all(reads, left_bytes, is_first))
        reading.addBoth(self._end_reading, claimed_bytes)
        reading.addCallback(self._take_logs, found).addErrback(self._fail)

    def _end_reading(self, outcome: T, claimed_bytes: int) -> T:
        self._is_reading = False
        self._call.answers.release(claimed_bytes)
        return outcome

    def _take_logs(self, taken: list[_ColdResult], found: _Found) -> None:
        reads, found.cold = found.cold, []
        for read, (pieces, error, is_nothing) in zip(reads, taken, strict=True):
            if error is not None:
                read.partition.report_damage(error)
                partition = found.results[read.place].partition
                found.results[read.place] = FetchPartitionResult(partition, error_code_of(error), UNKNOWN)
            elif is_nothing:
                self._nothing_before[read.place] = read.end_offset
            else:
                found.put(read.place, pieces)
        # A list of its own: what left its tail meanwhile is cold now, and those behind it have to wait again.
        later, found.later = found.later, []
        self._fill(found, later)
        if found.size or found.has_error:
            self._finish(self._complete(found.results))
        else:
            self._look_again()

    # --- waiting ------------------------------------------------------------------------------------

    def _wait(self) -> None:
        if self._timer is not None:  # it waits already
            return
        for wanted in self._wanted:
            if wanted.partition is not None:
                wanted.partition.waiters.add(self)
        self._call.on_lost = self._stop_waiting
        seconds = self._request.max_wait_ms / 1000
        self._timer = self._call.broker.reactor.callLater(seconds, self._end_wait)

    def wake(self) -> None:
        """Something was appended, or a topic was deleted."""
        try:
            self._look_again()
        except Exception as error:
            self._fail(error)

    def _end_wait(self) -> None:
        self._must_answer = True
        self.wake()

    def _look_again(self) -> None:
        if self._is_reading or self._answer.called:
            return
        found = self._look()
        if found.cold:
            self._read_logs(found)
        elif self._is_enough(found):
            self._finish(self._complete(found.results))
        else:
            self._wait()

    def _stop_waiting(self) -> None:
        for wanted in self._wanted:
            if wanted.partition is not None:
                wanted.partition.waiters.discard(self)
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    def _finish(self, answer: FetchAnswer) -> None:
        self._stop_waiting()
        self._answer.callback(answer)

    def _fail(self, reason: Failure | Exception) -> None:
        self._stop_waiting()
        if not self._answer.called:
            self._answer.errback(reason)


def _find(
    call: Call, number: int, name: str | None, topic_id: bytes | None, asked: FetchPartition
) -> _Wanted:
    topic = call.broker.topics.find(name, topic_id)
    if topic is None or not 0 <= asked.partition < len(topic.partitions):
        partition = None
    else:
        partition = topic.partitions[asked.partition]
    is_by_id = topic_id is not None and (topic is None or partition is not None)
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if is_by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return _Wanted(number, asked, partition, unknown)


def _read_all(reads: list[_ColdRead], left_bytes: int, is_first: bool) -> list[_ColdResult]:
    """In a thread, for all partitions of a fetch one after the other."""
    found: list[_ColdResult] = []
    for _, partition, offset, end_offset, max_bytes in reads:
        limit = min(left_bytes, max_bytes)
        if limit <= 0 and not is_first:
            found.append(_ColdResult([]))
            continue
        try:
            pieces = partition.read_log(offset, end_offset, limit, at_least_one=is_first)
        except BarbicelError as error:
            found.append(_ColdResult([], error))
            continue
        found.append(_ColdResult(pieces, is_nothing=is_first and not pieces))
        left_bytes -= sum(map(len, pieces))
        is_first = is_first and not pieces
    return found


def encode(answer: FetchAnswer, version: int) -> Sequence[Bytes]:
    return encode_fetch_response(version, answer.topics, error_code=answer.error_code)


API = Api(1, "Fetch", 4, 18, respond, decode_fetch_request, encode, is_alone=True)
