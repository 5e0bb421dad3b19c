"""The topics of a data directory, kept durably. docs/formats/data_directory.md shows the files.

A topic is what its topic.json says. Each change replaces that file: on return it survives a power cut, and a
crash leaves the topic as it was before or after. Ids are never used again, so neither are directories: a new
topic of an old name cannot meet the old one's files. What is not ours in the directory is reported and left
alone, and a damaged topic.json stops the opening: going on without the topic would create it anew, empty.

Changes wait for the disk and may come from any thread; lookups never wait.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from uuid import UUID

from barbicel.clock import Clock, wall_clock_ms
from barbicel.closing import Closing
from barbicel.codecs.topic_file import MAX_FILE_BYTES, Topic, TopicState, encode_topic
from barbicel.disk import Disk, Lock, read_file, remove_tree, replace_file
from barbicel.errors import CorruptFile, DiskError
from barbicel.gateway.broker.cluster import Cluster, RandomBytes, random_id
from barbicel.gateway.broker.data_layout import TOPIC_FILE, DataLayout
from barbicel.gateway.broker.spare import Spare
from barbicel.gateway.broker.topic_errors import (
    CatalogueStopped,
    InvalidPartitions,
    InvalidSetting,
    InvalidTopic,
    TopicExists,
    UnknownTopic,
)
from barbicel.gateway.broker.topic_names import check_topic_name, collision_key
from barbicel.gateway.broker.topic_settings import QUEUE, is_queue
from barbicel.gateway.broker.topic_survey import Survey, survey_topics
from barbicel.keratin.passing import is_full

__all__ = ["MAX_PARTITIONS", "Catalogue", "Topic", "TopicState"]

# Kafka refuses more than this in one request too; each is a directory with open files.
MAX_PARTITIONS = 10_000


class Catalogue(Closing):
    """Open it with `Catalogue.open`. It holds the lock of the data directory until `close`."""

    def __init__(
        self, disk: Disk, layout: DataLayout, lock: Lock, cluster: Cluster, clock: Clock, random: RandomBytes
    ) -> None:
        self.layout = layout
        self.cluster = cluster
        # Paths in the directory of topics that are none of ours.
        self.strays: tuple[str, ...] = ()
        self._disk = disk
        self._spare = Spare(disk, layout.spare)
        self._lock = lock
        self._clock = clock
        self._random = random
        self._mutex = threading.Lock()
        self._stopped = False
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[UUID, Topic] = {}
        # The names; replaced when they change, since lookups do not wait.
        self._by_collision_key: dict[str, tuple[str, ...]] = {}
        self._deleted: dict[UUID, Topic] = {}

    @classmethod
    def open(
        cls, disk: Disk, data_dir: str, clock: Clock = wall_clock_ms, random: RandomBytes = os.urandom
    ) -> Catalogue:
        """Lock the directory, made if absent, and read what is there.

        Raises LogLocked if a server has it open, CorruptFile with the path of a file that is damaged. The
        caller finishes what a crash may have cut short: see `deleted`.
        """
        layout = DataLayout(data_dir)
        disk.make_directory(layout.root)
        lock = disk.lock(layout.lock)
        try:
            disk.make_directory(layout.temporaries)
            cluster = _open_cluster(disk, layout, clock, random)
            # After cluster.json, which is missed wherever this directory exists.
            disk.make_directory(layout.topics)
            catalogue = cls(disk, layout, lock, cluster, clock, random)
            catalogue._take(survey_topics(disk, layout))
            catalogue._spare.keep()
        except BaseException:
            lock.release()
            raise
        return catalogue

    def close(self) -> None:
        """Take no more changes, and let the next server in."""
        with self._mutex:
            self._stopped = True
            self._lock.release()

    # --- lookups ------------------------------------------------------------------------------------

    def by_name(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def by_id(self, identity: UUID) -> Topic | None:
        return self._by_id.get(identity)

    def __iter__(self) -> Iterator[Topic]:
        """The live topics as they are now, in the order of their names."""
        # The values are copied in one step, another thread cannot come between.
        return iter(sorted(self._by_name.values(), key=lambda topic: topic.name))

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def is_running(self) -> bool:
        """Whether changes are taken: not after one of which nobody knows whether it is on the disk."""
        return not self._stopped

    @property
    def deleted(self) -> tuple[Topic, ...]:
        """Topics that are deleted and whose files are still there: give each to `remove_deleted`.

        After a crash, what the broker keeps elsewhere under such a topic's name (groups) has to go first,
        unless a live topic has that name: then it went before that one was created.
        """
        return tuple(self._deleted.values())

    # --- changes ------------------------------------------------------------------------------------

    def create(
        self, name: str, partitions: int, settings: Mapping[str, str], *, may_collide: bool = False
    ) -> Topic:
        """On return the topic exists, durably. `settings` were checked before."""
        with self._mutex:
            self.check_new(name, partitions, may_collide=may_collide)
            _check_queue(settings, partitions)
            topic = Topic(name, self._new_id(), partitions, self._clock(), dict(settings))
            self._need_running()
            directory = self.layout.directory(topic)
            try:
                self._disk.make_directory(directory)
                self._write(topic)
            except DiskError:
                # Fails if the topic's file is there after all.
                with suppress(DiskError):
                    self._disk.remove_directory(directory)
                raise
            self._show(topic)
            return topic

    def check_new(self, name: str, partitions: int, *, may_collide: bool = False) -> None:
        """Raise what `create` would; for requests that only want to know.

        `may_collide` is for Kestrel, where nothing is wrong with the queues 'a:' (a.3A) and 'a_3A' together.
        """
        check_topic_name(name)
        if name in self._by_name:
            raise TopicExists(f"topic {name!r} already exists")
        if not may_collide and (others := self._by_collision_key.get(collision_key(name))):
            raise InvalidTopic(f"topic {name!r} collides with {others[0]!r}: '.' and '_' count as the same")
        if not 1 <= partitions <= MAX_PARTITIONS:
            raise InvalidPartitions(f"{partitions} partitions, allowed are 1 to {MAX_PARTITIONS}")

    def delete(self, name: str) -> Topic:
        """On return the topic is gone, durably. Its files wait for `remove_deleted`."""
        with self._mutex:
            topic = replace(self._live(name), state=TopicState.DELETED)
            self._rewrite(topic)
            self._deleted[topic.id] = topic
            self._hide(topic)
            return topic

    def check_partitions(self, name: str, total: int) -> Topic:
        """Raise what `add_partitions` would; the topic as it is now."""
        topic = self._live(name)
        if total <= topic.partitions:
            raise InvalidPartitions(
                f"topic {name!r} has {topic.partitions} partitions already, {total} are not more"
            )
        if total > MAX_PARTITIONS:
            raise InvalidPartitions(f"{total} partitions, allowed are 1 to {MAX_PARTITIONS}")
        _check_queue(topic.settings, total)
        return topic

    def add_partitions(self, name: str, total: int) -> Topic:
        """On return the topic has `total` partitions, durably."""
        with self._mutex:
            topic = replace(self.check_partitions(name, total), partitions=total)
            self._write(topic)
            self._show(topic)
            return topic

    def change_settings(self, name: str, settings: Mapping[str, str]) -> Topic:
        """On return the topic has these settings and no others, durably. They were checked before."""
        with self._mutex:
            topic = self._live(name)
            if is_queue(settings) != is_queue(topic.settings):
                raise InvalidSetting(
                    f"{QUEUE} is decided when a topic is created, for {name!r} it stays"
                    f" {str(is_queue(topic.settings)).lower()}"
                )
            changed = replace(topic, settings=dict(settings))
            self._rewrite(changed)
            self._show(changed)
            return changed

    def remove_deleted(self, topic: Topic) -> None:
        """Remove the files of a deleted topic; nobody may have them open. May be called again after a crash.

        Its topic.json goes last: as long as anything is left, it says that the rest is to go too.
        """
        if self._deleted.get(topic.id) is None:
            raise UnknownTopic(f"topic {topic.name!r} with this id is not deleted")
        directory = self._disk.resolve(self.layout.directory(topic))
        self._empty(directory)
        remove_tree(self._disk, directory)
        with self._mutex:
            self._deleted.pop(topic.id, None)
            self._spare.keep()

    def keep_spare(self) -> None:
        """If it was needed and there is room again."""
        with self._mutex:
            self._spare.keep()

    @contextmanager
    def spare_given_up(self) -> Iterator[None]:
        """The block that is kept for deletions is free for what else makes room; then there is one again,
        if there is room."""
        with self._mutex:
            self._spare.give_up()
            try:
                yield
            finally:
                self._spare.keep()

    def _empty(self, directory: str) -> None:
        """Remove everything but the topic's file, durably. Links are removed, not followed."""
        for entry in self._disk.list(directory):
            path = f"{directory}/{entry.name}"
            if entry.is_directory and self._disk.resolve(path) == path:
                remove_tree(self._disk, path)
            elif entry.name != TOPIC_FILE:
                self._disk.unlink(path)
        self._disk.sync_directory(directory)

    # --- inside -------------------------------------------------------------------------------------

    def _live(self, name: str) -> Topic:
        try:
            return self._by_name[name]
        except KeyError:
            raise UnknownTopic(f"topic {name!r} does not exist") from None

    def _new_id(self) -> UUID:
        while (identity := random_id(self._random)) in self._by_id or identity in self._deleted:
            pass
        return identity

    def _need_running(self) -> None:
        if self._stopped:
            raise CatalogueStopped(
                "no changes are taken: the directory is closed, or a change failed half-way",
                path=self.layout.root,
                hint="see the log for the first error, then restart",
            )

    def _show(self, topic: Topic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.id] = topic
        key = collision_key(topic.name)
        self._by_collision_key[key] = (*self._others(key, topic.name), topic.name)

    def _hide(self, topic: Topic) -> None:
        del self._by_name[topic.name], self._by_id[topic.id]
        key = collision_key(topic.name)
        if others := self._others(key, topic.name):
            self._by_collision_key[key] = others
        else:
            del self._by_collision_key[key]

    def _others(self, key: str, name: str) -> tuple[str, ...]:
        return tuple(other for other in self._by_collision_key.get(key, ()) if other != name)

    def _write(self, topic: Topic) -> None:
        """Make it durable. A failure before the rename changed nothing; after it nobody knows: stop."""
        self._need_running()
        path, data = self.layout.topic_file(topic), encode_topic(topic)
        try:
            replace_file(self._disk, self.layout.new_topic_file, path, [data])
        except DiskError:
            self._stopped = self._may_have_happened(path, data)
            raise

    def _rewrite(self, topic: Topic) -> None:
        """The same for a topic that has its file, on a full disk too: deleting one, or keeping less of it, is
        what makes room."""
        try:
            self._write(topic)
        except DiskError as error:
            if self._stopped or not is_full(error):
                raise
            path, data = self.layout.topic_file(topic), encode_topic(topic)
            try:
                self._spare.replace(path, data)
            except DiskError:
                self._stopped = self._may_have_happened(path, data)
                raise error from None

    def _may_have_happened(self, path: str, data: bytes) -> bool:
        try:
            return self._disk.exists(path) and read_file(self._disk, path, MAX_FILE_BYTES) == data
        except DiskError:
            return True

    def _take(self, survey: Survey) -> None:
        for topic in survey.live.values():
            self._show(topic)
        self._deleted = {topic.id: topic for topic in survey.deleted}
        self.strays = tuple(survey.strays)
        for path in survey.leftovers:
            # Empty, so nothing is lost with it.
            self._disk.remove_directory(path)


def _check_queue(settings: Mapping[str, str], partitions: int) -> None:
    if is_queue(settings) and partitions != 1:
        raise InvalidPartitions(f"{partitions} partitions, a Kestrel queue has one")


def _open_cluster(disk: Disk, layout: DataLayout, clock: Clock, random: RandomBytes) -> Cluster:
    if disk.exists(layout.cluster_file):
        return Cluster.open(disk, layout.cluster_file, layout.new_cluster_file)
    if disk.exists(layout.topics):
        raise CorruptFile(
            "this file is missing, though there is a directory of topics beside it",
            path=layout.cluster_file,
            hint="restore it: without it producer ids could be given out twice",
        )
    return Cluster.create(disk, layout.cluster_file, layout.new_cluster_file, clock=clock, random=random)
