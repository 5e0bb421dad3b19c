"""Looking at the directory of topics: what is there, and what a crash left behind. Changes nothing."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field

from barbicel.codecs.topic_file import MAX_FILE_BYTES, Topic, TopicState, decode_topic
from barbicel.disk import Disk, Entry, read_file
from barbicel.errors import CorruptFile, DiskError, UnknownVersion
from barbicel.gateway.broker.data_layout import TOPIC_FILE, DataLayout, is_topic_directory

__all__ = ["Survey", "survey_entry", "survey_topics"]


@dataclass
class Survey:
    """`leftovers` are empty directories that a creation or a removal left when it was cut short. `strays` are
    files and directories that are none of ours."""

    live: dict[str, Topic] = field(default_factory=dict)
    deleted: list[Topic] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)


def survey_topics(disk: Disk, layout: DataLayout) -> Survey:
    """Raises CorruptFile, with the path, at the first topic whose file does not tell the truth."""
    survey = Survey()
    for entry in disk.list(layout.topics):
        survey_entry(survey, disk, layout, entry)
    return survey


def survey_entry(survey: Survey, disk: Disk, layout: DataLayout, entry: Entry) -> None:
    """Add one entry of the directory to what was found so far. Raises CorruptFile, with the path."""
    path = f"{layout.topics}/{entry.name}"
    topic = _read_topic(disk, path) if entry.is_directory else None
    if topic is not None:
        _check_place(layout, topic, path)
        _add(survey, layout, topic)
    elif _is_leftover(disk, entry, path):
        survey.leftovers.append(path)
    elif entry.is_directory and is_topic_directory(entry.name):
        raise CorruptFile(
            "a topic's directory without its topic.json",
            path=f"{path}/{TOPIC_FILE}",
            hint="restore this file, or move its directory away to go on without the topic",
        )
    else:
        survey.strays.append(path)


def _read_topic(disk: Disk, directory: str) -> Topic | None:
    """None for a directory without a topic.json."""
    path = f"{directory}/{TOPIC_FILE}"
    try:
        return decode_topic(read_file(disk, path, MAX_FILE_BYTES + 1))
    except DiskError as error:
        if error.errno == errno.ENOENT:
            return None
        raise
    except CorruptFile as error:
        error.path = path
        error.hint = (
            "a newer version wrote it"
            if isinstance(error, UnknownVersion)
            else "restore this file, or move its directory away to go on without the topic"
        )
        raise


def _check_place(layout: DataLayout, topic: Topic, path: str) -> None:
    expected = layout.directory(topic)
    if expected != path:
        raise CorruptFile(
            f"this is the file of topic {topic.name!r}, which belongs in {expected}",
            path=f"{path}/{TOPIC_FILE}",
            hint="the directory of a topic can be neither copied nor renamed",
        )


def _add(survey: Survey, layout: DataLayout, topic: Topic) -> None:
    if topic.state is TopicState.DELETED:
        survey.deleted.append(topic)
        return
    other = survey.live.setdefault(topic.name, topic)
    if other is not topic:
        raise CorruptFile(
            f"topic {topic.name!r} is also in {layout.directory(other)}",
            path=layout.topic_file(topic),
            hint="move the directory away that does not belong here",
        )


def _is_leftover(disk: Disk, entry: Entry, path: str) -> bool:
    return entry.is_directory and is_topic_directory(entry.name) and not disk.names(path)
