"""Queues come to be: their topics and groups, found or made, and the lines that read them.

Whatever opens, makes or ends the lines of one queue is done one thing after the other: a queue that is being
deleted is made anew only when it is gone. Everything that waits for the disk is somebody else's thread.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, inlineCallbacks

from barbicel.errors import BarbicelError
from barbicel.gateway.broker.topic_errors import TopicExists
from barbicel.gateway.broker.topics import OpenTopic
from barbicel.gateway.kestrel.line_reader import LineReader
from barbicel.gateway.kestrel.queue import Queue
from barbicel.kestrel_compat.line import Line
from barbicel.kestrel_compat.names import (
    MAIN_GROUP,
    QueueName,
    child_of,
    guard_group,
    is_reserved_group,
    topic_of,
)
from barbicel.stroma import GroupKey
from barbicel.stroma.ranges import RangeSet

if TYPE_CHECKING:
    from barbicel.gateway.kestrel.queues import Queues

__all__ = ["NotAQueue", "Opening"]

_log = logging.getLogger(__name__)

# A queue has one partition.
PARTITION = 0


class NotAQueue(BarbicelError):
    """A topic that cannot be read as a queue."""


class Opening:
    """Reactor thread only."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self._broker = queues.broker
        self._groups = queues.groups
        # What is to be done next with a master's queue; there is an entry while something is under way.
        self._steps: dict[str, deque[tuple[Callable[[], Deferred[Any]], Deferred[Any]]]] = {}

    # --- one after the other ------------------------------------------------------------------------

    def _in_turn(self, master: str, step: Callable[[], Deferred[Any]]) -> Deferred[Any]:
        answer: Deferred[Any] = Deferred()
        is_first = master not in self._steps
        self._steps.setdefault(master, deque()).append((step, answer))
        if is_first:
            self._run(master)
        return answer

    def _run(self, master: str) -> None:
        """A loop, for a thousand may wait for a queue to be opened, which then takes no time."""
        steps = self._steps[master]
        while steps:
            step, answer = steps.popleft()
            outcome = step()
            if not outcome.called:
                outcome.addBoth(answer.callback).addBoth(lambda _: self._run(master))
                return
            outcome.addBoth(answer.callback)  # a Failure makes it fail
        del self._steps[master]

    def is_busy(self, master: str) -> bool:
        """Whether somebody waits for a line of this queue."""
        return master in self._steps

    # --- opening ------------------------------------------------------------------------------------

    def open(self, name: QueueName, *, create: bool) -> Deferred[LineReader | None]:
        """The line's reader; None if there is none and none is to be made."""
        return self._in_turn(name.master, lambda: self._open(name, create))

    @inlineCallbacks
    def _open(self, name: QueueName, create: bool) -> Generator[Deferred[Any], Any, LineReader | None]:
        while True:  # until nobody deletes its topic meanwhile
            queue = self._queues.by_master(name.master)
            if queue is None:
                opened = yield self._topic(name, create)
                if opened is None:
                    return None
                queue = yield self._load(name.master, opened)
                if queue is None:
                    continue
            if (reader := queue.readers.get(name.group)) is not None:
                return reader
            if not create or self._is_nobodys(name):
                return None
            begun: LineReader | None = yield self._begin(queue, name)
            if begun is not None:
                return begun

    def _is_nobodys(self, name: QueueName) -> bool:
        """A master that keeps nothing has no line of its own."""
        return name.child is None and self._queues.settings_of(name.text).fanout_only

    @inlineCallbacks
    def _topic(self, name: QueueName, create: bool) -> Generator[Deferred[Any], Any, OpenTopic | None]:
        topic, topics = topic_of(name.master), self._broker.topics
        opened = topics.by_name(topic)
        if opened is None and create:
            try:
                opened = yield topics.create(topic, 1, self._new_settings(name.master), may_collide=True)
            except TopicExists:  # somebody else made it at the same time
                opened = topics.by_name(topic)
        if opened is not None and len(opened.partitions) != 1:
            raise NotAQueue(f"topic {topic!r} has {len(opened.partitions)} partitions, and a queue has one")
        return opened

    def _new_settings(self, master: str) -> dict[str, str]:
        segment_bytes = self._queues.settings_of(master).default_journal_size_bytes
        return {
            "kestrel.queue": "true",
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "segment.bytes": str(segment_bytes),
        }

    @inlineCallbacks
    def _load(self, master: str, opened: OpenTopic) -> Generator[Deferred[Any], Any, Queue | None]:
        """The queue with every line that it has; None if its topic is gone."""
        queue = Queue(self._queues, master, opened)
        try:
            for group in self._groups.of((opened.name, PARTITION)):
                if is_reserved_group(group):
                    key = GroupKey(opened.name, PARTITION, group)
                    held = yield self._groups.load(key, queue.clock())
                    # What retention has taken is passed over by whoever reads.
                    self._add(queue, key, Line(group, *held.below(queue.partition.end_offset)))
        except BaseException:
            queue.drop()
            raise
        if self._broker.topics.by_name(opened.name) is not opened:
            queue.drop()
        if queue.is_dropped:
            return None
        self._queues.show(queue)
        return queue

    @inlineCallbacks
    def _begin(self, queue: Queue, name: QueueName) -> Generator[Deferred[Any], Any, LineReader | None]:
        """A new line; None if the queue is gone. The first readers of a topic that Kafka made find all of it.
        A queue that was deleted starts empty, and so does a child: what was there before is not its own."""
        partition = queue.partition
        is_first = not queue.is_queue_topic or not self._groups.of((queue.topic, PARTITION))
        finds_all = name.child is None and is_first
        frontier = partition.start_offset if finds_all else partition.end_offset
        key = GroupKey(queue.topic, PARTITION, name.group)
        yield self._groups.begin(key, frontier)
        if queue.is_dropped:
            return None
        self._queues.counters.queue_creates += 1
        _log.info("queue %s, created; its items are in the topic %s", name.text, queue.topic)
        reader = self._add(queue, key, Line(name.group, frontier, RangeSet(), {}))
        self._queues.show(queue)
        return reader

    def _add(self, queue: Queue, key: GroupKey, line: Line) -> LineReader:
        name = queue.name_of(child_of(key.group))
        reader = LineReader(queue, name, key, line, self._queues.settings_of(name))
        queue.add(reader)
        return reader

    # --- deleting -----------------------------------------------------------------------------------

    def delete(self, name: QueueName) -> Deferred[None]:
        """End the line; the log goes with the last one."""
        return self._in_turn(name.master, lambda: self._delete(name))

    @inlineCallbacks
    def _delete(self, name: QueueName) -> Generator[Deferred[Any], Any, None]:
        yield self._open(name, create=False)
        queue = self._queues.by_master(name.master)
        if queue is None or name.group not in queue.readers:
            return
        self._queues.counters.queue_deletes += 1
        _log.info("queue %s, deleted", name.text)
        if name.group == MAIN_GROUP and not queue.is_queue_topic:
            # The topic is Kafka's. Whoever asks for the queue again must not get everything from its start.
            queue.readers[name.group].flush()
            return
        self._queues.hide(queue.readers[name.group].name)
        queue.remove(name.group)
        yield self._groups.end(GroupKey(queue.topic, PARTITION, name.group))
        if self._broker.topics.by_name(queue.topic) is not queue.opened:
            return  # somebody else has deleted it
        # An import that was cut short would hold the log of a queue that nobody has any more.
        left = set(self._groups.of((queue.topic, PARTITION))) - {guard_group(queue.topic)}
        if queue.is_queue_topic and not left:
            queue.drop()
            yield self._broker.topics.delete(queue.topic)
