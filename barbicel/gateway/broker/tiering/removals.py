"""Deleted topics of which the object store may have something left. Tried until nothing is.

The caller keeps a topic's own files until `remove` has fired: after a crash they say that there is something
to delete.
"""

from __future__ import annotations

import logging
from uuid import UUID

from twisted.internet.defer import Deferred

from barbicel.codecs.topic_file import Topic
from barbicel.disk import Disk, remove_tree
from barbicel.errors import BarbicelError
from barbicel.gateway.broker.data_layout import DataLayout, topic_directory
from barbicel.gateway.log_pace import LogPace
from barbicel.tier.keys import Keys
from barbicel.tier.object_store import ObjectStore

__all__ = ["Removals"]

_log = logging.getLogger(__name__)


class Removals:
    """In the reactor's thread, but for `work`, which waits for the store."""

    def __init__(self, store: ObjectStore, keys: Keys, disk: Disk, layout: DataLayout, pace: LogPace) -> None:
        self._store = store
        self._keys = keys
        self._disk = disk
        self._layout = layout
        self._pace = pace
        self._waiting: dict[UUID, tuple[Topic, Deferred[None]]] = {}
        self._is_stopping = False

    @property
    def topics(self) -> list[Topic]:
        return [topic for topic, _ in self._waiting.values()]

    def add(self, topic: Topic) -> Deferred[None]:
        """Fires when nothing of the topic is left, however long that takes."""
        done: Deferred[None] = Deferred()
        self._waiting[topic.id] = (topic, done)
        return done

    def stop(self) -> None:
        """Whatever is under way ends after its object; the next start goes on."""
        self._is_stopping = True

    def work(self, topic: Topic) -> bool:
        """Whether nothing is left. In a thread; nobody may use the topic's partitions any more."""
        try:
            return self._remove(topic)
        except BarbicelError as error:
            if self._pace.is_due():
                _log.warning("objects of the deleted topic %s are left for now: %s", topic.name, error)
            return False

    def _remove(self, topic: Topic) -> bool:
        for prefix in self._prefixes(topic):
            for info in list(self._store.list(prefix)):
                if self._is_stopping:
                    return False
                self._store.delete(info.key)
        for number in range(topic.partitions):
            path = self._layout.manifest(topic, number)
            if self._disk.exists(path):
                remove_tree(self._disk, path)
        return True

    def _prefixes(self, topic: Topic) -> list[str]:
        streams = [self._layout.stream(topic, number) for number in range(topic.partitions)]
        return [self._keys.topic(topic_directory(topic)).prefix, *map(self._keys.manifest, streams)]

    def finish(self, topic: Topic) -> None:
        _, done = self._waiting.pop(topic.id)
        done.callback(None)
