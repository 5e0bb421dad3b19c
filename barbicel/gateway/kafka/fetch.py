"""Fetch (key 1), versions 4 to 18.

- No sessions: the session id is always 0, which every client takes for "ask for everything each time". One
  that goes on with a session (its epoch is above 0) is told FETCH_SESSION_ID_NOT_FOUND.
- A client that has not taken many megabytes yet is answered with 1 MiB at the most: it may read nothing. That
  limits its answers and not its waits.
- At least one whole batch is returned whatever the limits say; an offset inside of a batch leads to the
  whole batch (librdkafka, Java and kafka-python skip what is before the offset).
- A topic of which nothing is wanted is not in the answer.
- Nothing is zero bytes, never null: librdkafka calls that an invalid size.
- A fetch that waits is woken by the append, not by a timer; the timer ends it after max_wait_ms. It counts
  what is there, whether or not it fits into the answer, and reads when there is enough: min_bytes, but no
  more than max_bytes. One that finds anything on the disk does not wait for min_bytes: whoever is behind is
  not to fall back further.
- A partition that was refused when it was asked for (unknown, or not to be read) ends no wait for the others,
  as in Kafka. Any other error does, and so does one that comes during the wait.
- Offsets that a repair has given up are passed over: the answer begins with the next batch behind them.
  Damage that nobody has repaired is CORRUPT_MESSAGE from the first damaged offset on.
- Version 13 names topics by their id. Replicas (replica_id from 0 on) are refused: there is one broker.
- Needs READ on the topic, when it is asked and again when a wait is over.
- read_committed and read_uncommitted are the same here: there are no transactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.fetch import (
    FetchPartitionResult,
    FetchRequest,
    FetchTopicResult,
    decode_fetch_request,
    encode_fetch_response,
)
from barbicel.disk import Bytes
from barbicel.errors import BarbicelError, StoreError
from barbicel.gateway.broker.partition import Partition
from barbicel.gateway.kafka.answer_budget import trusted_bytes
from barbicel.gateway.kafka.api import Api, Call, Reply
from barbicel.gateway.kafka.fetch_wanted import UNKNOWN, Wanted, find_wanted
from barbicel.gateway.kafka.permission import may_read
from barbicel.gateway.kafka.refusals import error_code_of
from barbicel.gateway.twisted_types import Timer

__all__ = ["API", "fetched_bytes"]

T = TypeVar("T")

CONSUMER = -1
# What one fetch reads from the disk: whoever is behind asks again at once, and sooner has the first of it.
MAX_COLD_BYTES = 32 << 20
# A fetch of more partitions than these reads enough at a time as it is.
AHEAD_PARTITIONS_MAX = 4


class FetchAnswer(NamedTuple):
    topics: Sequence[FetchTopicResult] = ()
    error_code: int = ErrorCode.NONE


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


class _Followed(NamedTuple):
    """What a partition's fetch from the disk was answered with."""

    partition: Partition
    offset: int
    pieces: list[memoryview]
    max_bytes: int


@dataclass(slots=True)
class _Found:
    """What was in memory, what has to come from the disk, and what has to wait for that."""

    results: list[FetchPartitionResult]
    left_bytes: int
    size: int = 0
    cold: list[_ColdRead] = field(default_factory=list)
    later: list[int] = field(default_factory=list)
    # What has come from the disk, and what is being read from it already.
    followed: list[_Followed] = field(default_factory=list)
    coming: list[_ColdRead] = field(default_factory=list)

    def put(self, place: int, pieces: list[memoryview]) -> int:
        """How many bytes that is."""
        size = sum(map(len, pieces))
        self.results[place] = self.results[place]._replace(pieces=pieces)
        self.size += size
        self.left_bytes -= size
        return size


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
        self._topics = call.broker.topics
        self._may_read = may_read(call)
        self._wanted = find_wanted(self._topics, request, self._may_read)
        max_bytes = min(request.max_bytes, call.broker.config.fetch_max_bytes)
        self._max_bytes = min(max_bytes, trusted_bytes(call.sent_bytes))
        # Kafka does not wait either for more than was asked for.
        self._min_bytes = min(request.min_bytes, max_bytes)
        # In memory, as of the last count of each partition.
        self._available_bytes = 0
        self._answer: Deferred[FetchAnswer] = Deferred()
        self._timer: Timer | None = None
        self._is_reading = False
        # Java ends a session that way when a consumer closes, with the wait of all its fetches.
        wants_nothing = not any(wanted.was_found for wanted in self._wanted)
        self._must_answer = request.max_wait_ms <= 0 or wants_nothing

    def begin(self) -> Reply:
        if not self._must_look():
            self._wait()
            return self._answer
        found = self._look()
        if self._is_complete(found):
            return self._complete(found)
        self._read_logs(found)
        return self._answer

    def _must_look(self) -> bool:
        return self._must_answer or any(map(self._is_due, self._wanted))

    def _is_due(self, wanted: Wanted) -> bool:
        """Whether what is at this partition, with what was at the others, ends the wait."""
        if not wanted.was_found:
            return False
        if wanted.error_code(self._topics) or wanted.is_cold:
            return True
        self._available_bytes += wanted.count()
        return self._available_bytes >= self._min_bytes

    # --- reading ------------------------------------------------------------------------------------

    def _look(self) -> _Found:
        level = self._request.isolation_level
        results = [wanted.result(self._topics, level) for wanted in self._wanted]
        found = _Found(results, min(self._max_bytes, self._call.answers.room_bytes))
        self._fill(found, range(len(self._wanted)))
        return found

    def _is_complete(self, found: _Found) -> bool:
        """What is on its way is for the next answer, if this one has something."""
        return not found.cold and (not found.coming or bool(found.size) or self._has_error(found))

    def _has_error(self, found: _Found) -> bool:
        """One that is not waited with."""
        return any(
            result.error_code and wanted.was_found
            for wanted, result in zip(self._wanted, found.results, strict=True)
        )

    def _fill(self, found: _Found, places: Sequence[int]) -> None:
        """From memory, in order, as far as the limit goes. Behind something cold all has to wait for it, or
        those who are behind would fall back further."""
        for place in places:
            wanted, partition = self._wanted[place], self._wanted[place].partition
            if partition is None or found.results[place].error_code or wanted.offset >= partition.end_offset:
                continue
            limit = min(found.left_bytes, wanted.asked.partition_max_bytes)
            if wanted.is_cold:
                self._fill_cold(found, place, partition, limit)
            elif found.cold:
                found.later.append(place)
            elif limit > 0 or not found.size:
                pieces = partition.read_tail_pieces(wanted.offset, limit, at_least_one=not found.size)
                partition.fetched_bytes += found.put(place, pieces)

    def _fill_cold(self, found: _Found, place: int, partition: Partition, limit: int) -> None:
        """With what was read ahead, if it was, and nothing before it has to be read."""
        if limit <= 0 and found.size:
            return
        wanted, ahead = self._wanted[place], self._call.broker.ahead
        max_bytes = wanted.asked.partition_max_bytes
        read = _ColdRead(place, partition, wanted.offset, partition.end_offset, max_bytes)
        if found.cold:
            found.cold.append(read)
        elif pieces := ahead.take(partition, wanted.offset, limit, at_least_one=not found.size):
            self._put_cold(found, read, pieces)
        elif ahead.is_coming(partition, wanted.offset):
            found.coming.append(read)
        else:
            found.cold.append(read)

    def _put_cold(self, found: _Found, read: _ColdRead, pieces: list[memoryview]) -> None:
        read.partition.fetched_bytes += found.put(read.place, pieces)
        found.followed.append(_Followed(read.partition, read.offset, pieces, read.max_bytes))

    def _complete(self, found: _Found) -> FetchAnswer:
        if len(found.followed) <= AHEAD_PARTITIONS_MAX:
            for one in found.followed:
                self._call.broker.ahead.follow(*one)
        by_topic: list[list[FetchPartitionResult]] = [[] for _ in self._request.topics]
        for wanted, result in zip(self._wanted, found.results, strict=True):
            by_topic[wanted.topic].append(result)
        return FetchAnswer(
            [
                FetchTopicResult(topic.name, topic.topic_id, partitions)
                for topic, partitions in zip(self._request.topics, by_topic, strict=True)
                if partitions
            ]
        )

    # --- from the disk ------------------------------------------------------------------------------

    def _read_logs(self, found: _Found) -> None:
        self._is_reading = True
        if not found.cold:
            first = found.coming[0]
            coming = self._call.broker.ahead.coming(first.partition, first.offset)
            coming.addCallback(self._ahead_came).addErrback(self._fail)
            return
        self._call.answers.when_readable(partial(self._begin_reading, found))

    def _ahead_came(self, _: None) -> None:
        """Or it cannot be had; then it is read here."""
        self._is_reading = False
        self._read_and_finish()

    def _begin_reading(self, found: _Found) -> None:
        reads, is_first, answers = found.cold, not found.size, self._call.answers
        # It may have waited, so there may be less room than there was, or more.
        found.left_bytes = min(self._max_bytes - found.size, answers.room_bytes)
        left_bytes = min(found.left_bytes, MAX_COLD_BYTES)
        claimed_bytes = _claim(reads, left_bytes, is_first)
        answers.hold(claimed_bytes)
        broker = self._call.broker
        # Whoever waits for the network must not keep those waiting who only need the disk.
        is_remote = any(read.partition.stored.is_remote(read.offset) for read in reads)
        read = broker.read_remote if is_remote else broker.read_cold
        reading = read(lambda: _read_all(reads, left_bytes, is_first))
        reading.addBoth(self._end_reading, claimed_bytes)
        reading.addCallback(self._take_logs, found).addErrback(self._fail)
        reading.addBoth(lambda _: answers.end_read())

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
                self._wanted[read.place].offset = read.end_offset
            else:
                self._put_cold(found, read, pieces)
        # A list of its own: what left its tail meanwhile is cold now, and those behind it have to wait again.
        later, found.later = found.later, []
        self._fill(found, later)
        if found.size or self._has_error(found):
            self._finish(self._complete(found))
        else:
            self._look_again()

    # --- waiting ------------------------------------------------------------------------------------

    def _wait(self) -> None:
        if self._timer is not None:  # it waits already
            return
        for wanted in self._wanted:
            wanted.wait(self._woken)
        self._call.on_lost = self._stop_waiting
        seconds = self._request.max_wait_ms / 1000
        self._timer = self._call.broker.reactor.callLater(seconds, self._end_wait)

    def _woken(self, wanted: Wanted) -> None:
        """At one partition alone, so that a wait for many costs each append of one little."""
        if self._is_reading or self._answer.called:
            return
        try:
            if self._is_due(wanted):
                self._read_and_finish()
        except Exception as error:
            self._fail(error)

    def _end_wait(self) -> None:
        self._must_answer = True
        try:
            self._look_again()
        except Exception as error:
            self._fail(error)

    def _look_again(self) -> None:
        if self._is_reading or self._answer.called:
            return
        if self._must_look():
            self._read_and_finish()
        else:
            self._wait()

    def _read_and_finish(self) -> None:
        self._deny_what_was_revoked()
        found = self._look()
        if self._is_complete(found):
            self._finish(self._complete(found))
        else:
            self._read_logs(found)

    def _deny_what_was_revoked(self) -> None:
        """It may have waited for as long as its client likes, and ACLs hold from when they are answered."""
        if self._may_read is not None:
            for wanted in self._wanted:
                if wanted.partition is not None and not self._may_read(wanted.partition.topic.name):
                    wanted.deny()

    def _stop_waiting(self) -> None:
        for wanted in self._wanted:
            wanted.stop_waiting()
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    def _finish(self, answer: FetchAnswer) -> None:
        self._stop_waiting()
        self._answer.callback(answer)

    def _fail(self, reason: Failure | Exception) -> None:
        self._stop_waiting()
        if not self._answer.called:
            self._answer.errback(reason)


def _claim(reads: list[_ColdRead], left_bytes: int, is_first: bool) -> int:
    """The room that these will take, on which others must not count."""
    wanted_bytes = min(left_bytes, sum(max(0, read.max_bytes) for read in reads))
    batch_bytes = max(read.partition.values.max_message_bytes for read in reads) if is_first else 0
    return min(MAX_COLD_BYTES, max(0, wanted_bytes, batch_bytes))


def _read_all(reads: list[_ColdRead], left_bytes: int, is_first: bool) -> list[_ColdResult]:
    """In a thread, for all partitions of a fetch one after the other."""
    found: list[_ColdResult] = []
    away: StoreError | None = None
    for _, partition, offset, end_offset, max_bytes in reads:
        if away is not None and partition.stored.is_remote(offset):
            # Each would wait as long for a store that hangs, and the next fetch of this client behind it.
            found.append(_ColdResult([], away))
            continue
        limit = min(left_bytes, max_bytes)
        if limit <= 0 and not is_first:
            found.append(_ColdResult([]))
            continue
        try:
            pieces = partition.stored.read(offset, end_offset, limit, at_least_one=is_first)
        except BarbicelError as error:
            found.append(_ColdResult([], error))
            away = error if isinstance(error, StoreError) and error.is_passing else away
            continue
        found.append(_ColdResult(pieces, is_nothing=is_first and not pieces))
        left_bytes -= sum(map(len, pieces))
        is_first = is_first and not pieces
    return found


def fetched_bytes(answer: FetchAnswer) -> int:
    """Of records."""
    return sum(len(piece) for topic in answer.topics for row in topic.partitions for piece in row.pieces)


def encode(answer: FetchAnswer, version: int) -> Sequence[Bytes]:
    return encode_fetch_response(version, answer.topics, error_code=answer.error_code)


def encode_throttled(answer: FetchAnswer, version: int, throttle_ms: int) -> Sequence[Bytes]:
    return encode_fetch_response(version, answer.topics, throttle_ms, answer.error_code)


API = Api(
    1,
    "Fetch",
    4,
    18,
    respond,
    decode_fetch_request,
    encode,
    is_alone=True,
    encode_throttled=encode_throttled,
)
