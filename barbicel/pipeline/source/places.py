"""Which topic partitions there are at a path, and where each of them lies.

A path is a data directory (with `topics/`), a topic's directory (with `topic.json`), or the directory of one
log. Nothing is cached: a stream looks again for each of its batches, and finds what was created meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from barbicel.codecs.topic_file import MAX_FILE_BYTES, Topic, TopicState, decode_topic, render_id
from barbicel.disk import Disk, parent, read_file
from barbicel.errors import BarbicelError, CorruptFile, NotALog
from barbicel.pipeline.source.objects import find_objects, is_object_path
from barbicel.pipeline.source.options import BadOption, Options
from barbicel.pipeline.source.shapes import ObjectStretch

__all__ = ["NoSuchTopic", "Place", "find_places"]

TOPIC_FILE = "topic.json"
SHOWN_TOPICS = 20
NO_ID = ""


class NoSuchTopic(BarbicelError):
    """A topic or partition that was asked for is not there."""


class Place(NamedTuple):
    """One partition: the directory of its log, or its objects if there is none."""

    topic: str
    topic_id: str
    partition: int
    directory: str
    # The data directory that it belongs to, None for a log that stands alone.
    data: str | None = None
    objects: tuple[ObjectStretch, ...] = ()

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.partition


def find_places(disk: Disk, options: Options) -> list[Place]:
    """Every partition that the options ask for, sorted.

    Raises NoSuchTopic, NotALog, CorruptFile, StoreError.
    """
    if is_object_path(options.path):
        return _of_objects(disk, options)
    root = disk.resolve(options.path.removeprefix("file://"))
    if not disk.exists(root):
        raise NotALog("there is no such path", path=root, hint="give the data directory of a server")
    if disk.exists(f"{root}/topics"):
        return _in_data_directory(disk, root, options)
    if disk.exists(f"{root}/{TOPIC_FILE}"):
        topic = _read_topic(disk, root)
        return sorted(_partitions(disk, root, topic, _data_of(disk, root)))
    if disk.exists(f"{root}/segments") or disk.exists(f"{root}/manifest.bin"):
        return [_single_log(disk, root, options)]
    return _of_objects(disk, options)


def _of_objects(disk: Disk, options: Options) -> list[Place]:
    places = [
        Place(topic, identity, partition, options.path, None, objects)
        for (topic, identity, partition), objects in find_objects(disk, options).items()
    ]
    if not places:
        raise NotALog(
            "there is neither a log nor a .kfs object",
            path=options.path,
            hint="give the directory of a log, a data directory with topics/, or where .kfs objects are",
        )
    return sorted(_only_chosen(places, options))


def _only_chosen(places: list[Place], options: Options) -> list[Place]:
    """All of them, if the options say nothing."""
    names = sorted({place.topic for place in places})
    if not options.topics and options.assigned is None and options.topic_pattern is None:
        return places
    wanted = _chosen(options.path, names, options)
    kept = [place for place in places if place.topic in wanted]
    return kept if options.assigned is None else _only_assigned(kept, options.assigned, options.path)


def _in_data_directory(disk: Disk, root: str, options: Options) -> list[Place]:
    if options.partition is not None:
        raise BadOption(
            "partition is for a log that does not say its own",
            hint=f'assign={{"<topic>": [{options.partition}]}} chooses one',
        )
    topics = {topic.name: (directory, topic) for directory, topic in _live_topics(disk, root)}
    names = _chosen(root, sorted(topics), options)
    places = [place for name in names for place in _partitions(disk, topics[name][0], topics[name][1], root)]
    if options.assigned is not None:
        places = _only_assigned(places, options.assigned, root)
    return sorted(places)


def _chosen(root: str, existing: list[str], options: Options) -> list[str]:
    if options.topic_pattern is not None:
        # As Java's Matcher.matches, the whole name.
        return [name for name in existing if re.fullmatch(options.topic_pattern, name)]
    wanted = options.topics or tuple(options.assigned or ())
    if not wanted:
        raise BadOption("no topic is chosen", hint=f"give subscribe=…; {_listed(existing)}, in {root}")
    missing = [name for name in wanted if name not in existing]
    if missing:
        raise NoSuchTopic(f"there is no topic {missing[0]!r}", path=root, hint=_listed(existing))
    return list(wanted)


def _listed(names: list[str]) -> str:
    if not names:
        return "there are no topics"
    more = f" and {len(names) - SHOWN_TOPICS} more" if len(names) > SHOWN_TOPICS else ""
    return f"there are {', '.join(names[:SHOWN_TOPICS])}{more}"


def _only_assigned(places: list[Place], assigned: Mapping[str, tuple[int, ...]], root: str) -> list[Place]:
    wanted = {(topic, number) for topic, numbers in assigned.items() for number in numbers}
    missing = sorted(wanted - {place.key for place in places})
    if missing:
        raise NoSuchTopic("there is no partition {1} of topic {0!r}".format(*missing[0]), path=root)
    return [place for place in places if place.key in wanted]


def _live_topics(disk: Disk, root: str) -> Iterator[tuple[str, Topic]]:
    for entry in disk.list(f"{root}/topics"):
        directory = f"{root}/topics/{entry.name}"
        # A directory without the file is being created or removed.
        if entry.is_directory and disk.exists(f"{directory}/{TOPIC_FILE}"):
            topic = _read_topic(disk, directory)
            if topic.state is TopicState.LIVE:
                yield directory, topic


def _read_topic(disk: Disk, directory: str) -> Topic:
    path = f"{directory}/{TOPIC_FILE}"
    try:
        return decode_topic(read_file(disk, path, MAX_FILE_BYTES + 1))
    except CorruptFile as error:
        error.path = path
        raise


def _partitions(disk: Disk, directory: str, topic: Topic, data: str | None) -> Iterator[Place]:
    for partition in range(topic.partitions):
        # The logs of a topic that was just created are made one after the other.
        if disk.exists(f"{directory}/{partition}"):
            yield Place(topic.name, render_id(topic.id), partition, f"{directory}/{partition}", data)


def _data_of(disk: Disk, topic_directory: str) -> str | None:
    above = parent(topic_directory)
    return parent(above) if above.endswith("/topics") else None


def _single_log(disk: Disk, root: str, options: Options) -> Place:
    """A log may lie in its topic's directory, which says what it is, or anywhere."""
    above, name = parent(root), root.rsplit("/", 1)[-1]
    if disk.exists(f"{above}/{TOPIC_FILE}") and name.isdecimal():
        topic = _read_topic(disk, above)
        return Place(topic.name, render_id(topic.id), int(name), root, _data_of(disk, above))
    if len(options.topics) > 1:
        raise BadOption(f"{root} is one log, it has one topic", hint="give one name")
    return Place(options.topics[0] if options.topics else name, NO_ID, options.partition or 0, root)
