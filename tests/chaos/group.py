"""The consumer group under test: members of two clients that commit as they go, and an onlooker.

A member notes a name of its own with every assignment, because it begins anew then, where the group was. The
onlooker asks for the group's positions all the time, and notes between which moments it was told them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Set
from time import monotonic
from typing import Any

import kafka
from confluent_kafka import Consumer, KafkaException, TopicPartition
from kafka.errors import KafkaConnectionError
from kafka.errors import KafkaError as KafkaPythonError

from tests.chaos.client_thread import ClientThread, Target
from tests.chaos.history import Commit, History, Polls, Position
from tests.chaos.readers import CONFLUENT, KAFKA_PYTHON, Record, note, records_of

__all__ = ["group_threads", "has_committed", "was_looked_at"]

GROUP = "chaos-group"
POLL_S = 0.1
COMMIT_EVERY_S = 0.25
LOOK_EVERY_S = 0.1
CLIENT_TIMEOUT_S = 10.0
SESSION_MS, HEARTBEAT_MS = 6_000, 500


class Assignment:
    """What one member does between two rebalances."""

    def __init__(self, history: History, name: str, before: Assignment | None, stay: Set[int]) -> None:
        """The client goes on by itself in the partitions that stay, whatever the gateway says."""
        self._history = history
        self._name = name
        self._asked = history.tick()
        self._polls: Polls = history.members[name]
        self._kept = _only(stay, before._next_offsets if before is not None else {})
        self._next_offsets: dict[int, int] = dict(self._kept)
        self._uncommitted: dict[int, int] = _only(stay, before._uncommitted if before is not None else {})
        self._commit_due = monotonic() + COMMIT_EVERY_S

    def took(self, partition: int, offset: int, data: bytes | None) -> None:
        if not self._polls[partition] and offset != self._kept.get(partition):
            self._history.positions[partition].append(Position(self._asked, self._history.tick(), offset))
        note(self._polls, [(partition, offset, data)])
        self._uncommitted[partition] = self._next_offsets[partition] = offset + 1

    def commit_if_due(self, commit: Callable[[dict[int, int]], set[int]]) -> None:
        """`commit` says which partitions' positions were stored."""
        if not self._uncommitted or monotonic() < self._commit_due:
            return
        asked, offsets = self._history.tick(), dict(self._uncommitted)
        # Noted before it is asked for: the onlooker may be told of it before this thread is.
        for partition, offset in offsets.items():
            self._history.commits[partition].append(Commit(asked, None, offset, self._name))
        for partition in commit(offsets):
            stored = Commit(asked, self._history.tick(), offsets[partition], self._name)
            self._history.commits[partition].append(stored)
            self._uncommitted.pop(partition)
        self._commit_due = monotonic() + COMMIT_EVERY_S


def _only(partitions: Set[int], offsets: Mapping[int, int]) -> dict[int, int]:
    return {partition: offset for partition, offset in offsets.items() if partition in partitions}


# --- members --------------------------------------------------------------------------------------------


class Member(ClientThread):
    """Polls, and commits what it has polled. Which client does it is a matter of the classes below."""

    def __init__(self, name: str, target: Target, history: History) -> None:
        super().__init__(name, target, history)
        self._assignment_count = 0
        # What was assigned last. What is not held is not committed: it may be another member's by now.
        self._last: Assignment | None = None
        self._is_held = False

    @property
    def has_worked(self) -> bool:
        return any(polls and name.startswith(self.name) for name, polls in list(self.history.members.items()))

    def assigned(self, stay: Set[int]) -> None:
        """`stay`: partitions in which this client goes on where it was."""
        self._assignment_count += 1
        name = f"{self.name}, assignment {self._assignment_count}"
        self._last = Assignment(self.history, name, self._last, stay)
        self._is_held = True

    def revoked(self) -> None:
        self._is_held = False

    def lost(self) -> None:
        """Another member may have had them: nothing of them is worth remembering."""
        self._last, self._is_held = None, False

    def work(self) -> None:
        self.join_group()
        while not self.stopping.is_set():
            for record in self.poll():
                assert self._last is not None, f"{record[:2]} was polled without an assignment"
                self._last.took(*record)
            if self._last is not None and self._is_held:
                self._last.commit_if_due(self.commit)
        self.leave_group()

    @abstractmethod
    def join_group(self) -> None: ...

    @abstractmethod
    def leave_group(self) -> None: ...

    @abstractmethod
    def poll(self) -> Iterable[Record]:
        """Of one assignment, the newest."""

    @abstractmethod
    def commit(self, offsets: dict[int, int]) -> set[int]:
        """The partitions whose offsets the gateway says it has stored."""


class ConfluentMember(Member):
    def join_group(self) -> None:
        self._consumer = Consumer(
            {
                **CONFLUENT,
                "bootstrap.servers": self.target.bootstrap,
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": HEARTBEAT_MS,
                "socket.timeout.ms": int(CLIENT_TIMEOUT_S * 1000),
            }
        )
        self._consumer.subscribe(
            [self.target.topic],
            on_assign=lambda *_: self.assigned(stay=frozenset()),
            on_revoke=lambda *_: self.revoked(),
            on_lost=lambda *_: self.lost(),
        )

    def leave_group(self) -> None:
        self._consumer.close()

    def poll(self) -> Iterable[Record]:
        # One at a time: a list could begin with what was fetched for the assignment before.
        message = self._consumer.poll(POLL_S)
        return records_of([] if message is None else [message])

    def commit(self, offsets: dict[int, int]) -> set[int]:
        topic = self.target.topic
        wanted = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        try:
            answers = self._consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException:
            return set()
        return {answer.partition for answer in answers or () if answer.error is None}


class _Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, member: KafkaPythonMember) -> None:
        self._member = member

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._member.revoked()

    def on_partitions_lost(self, lost: Any) -> None:
        self._member.lost()

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._member.assigned(stay=self._member.assignment())


class KafkaPythonMember(Member):
    """A partition that it has before and after a rebalance goes on where it was."""

    def assignment(self) -> Set[int]:
        return {place.partition for place in self._consumer.assignment()}

    def join_group(self) -> None:
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=self.target.bootstrap,
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            **{**KAFKA_PYTHON, "auto_offset_reset": "earliest"},
        )
        self._consumer.subscribe([self.target.topic], listener=_Listener(self))

    def leave_group(self) -> None:
        self._consumer.close()

    def poll(self) -> Iterable[Record]:
        try:
            polled = self._consumer.poll(timeout_ms=int(POLL_S * 1000))
        except KafkaConnectionError:
            return []  # from its search for the coordinator: it leaves it to us to try again
        return [
            (place.partition, record.offset, record.value)
            for place, records in polled.items()
            for record in records
        ]

    def commit(self, offsets: dict[int, int]) -> set[int]:
        wanted = {
            kafka.TopicPartition(self.target.topic, partition): kafka.OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        try:
            self._consumer.commit(wanted, timeout_ms=CLIENT_TIMEOUT_S * 1000)
        except KafkaPythonError:
            return set()
        return set(offsets)


# --- the onlooker ---------------------------------------------------------------------------------------


class OnlookerThread(ClientThread):
    """Not a member; it asks where the group is."""

    has_worked = False

    def work(self) -> None:
        target = self.target
        consumer = Consumer({**CONFLUENT, "bootstrap.servers": target.bootstrap, "group.id": GROUP})
        wanted = [TopicPartition(target.topic, partition) for partition in range(target.partitions)]
        while not self.stopping.wait(LOOK_EVERY_S):
            asked = self.history.tick()
            try:
                found = consumer.committed(wanted, timeout=CLIENT_TIMEOUT_S)
            except KafkaException:
                continue  # the gateway is not there
            self._note(asked, [position for position in found if position.error is None])
        consumer.close()

    def _note(self, asked: int, found: list[TopicPartition]) -> None:
        answered = self.history.tick()
        for position in found:
            # Nothing committed is a negative number here.
            told = Position(asked, answered, max(0, position.offset))
            self.history.positions[position.partition].append(told)
            self.has_worked = True


def group_threads(target: Target, history: History) -> list[ClientThread]:
    return [
        ConfluentMember("member confluent", target, history),
        KafkaPythonMember("member kafka-python", target, history),
        OnlookerThread("onlooker", target, history),
    ]


def has_committed(history: History, ends: dict[int, int]) -> bool:
    """Whether the group was told that it is at the end everywhere."""
    return all(
        not end
        or any(commit.offset == end and commit.answered for commit in history.commits[partition][-20:])
        for partition, end in ends.items()
    )


def was_looked_at(history: History, since: int, ends: dict[int, int]) -> bool:
    """Whether the gateway has told every position after a moment."""
    return all(any(position.asked > since for position in history.positions[place][-20:]) for place in ends)
