"""Where the files of a data directory are. docs/formats/data_directory.md shows it."""

from __future__ import annotations

from dataclasses import dataclass

from barbicel.codecs.topic_file import ID_TEXT_CHARS, Topic, parse_id, render_id

__all__ = ["TOPIC_FILE", "DataLayout", "is_topic_directory"]

TOPIC_FILE = "topic.json"
# A file name has 255 bytes at most: the rest is for the id, and for what people put behind it in copies.
NAME_CHARS = 200


@dataclass(frozen=True, slots=True)
class DataLayout:
    """The paths in one data directory."""

    root: str

    @property
    def lock(self) -> str:
        return f"{self.root}/LOCK"

    @property
    def cluster_file(self) -> str:
        return f"{self.root}/cluster.json"

    @property
    def topics(self) -> str:
        return f"{self.root}/topics"

    @property
    def groups(self) -> str:
        """What consumers have consumed, see docs/formats/stroma.md."""
        return f"{self.root}/groups"

    @property
    def temporaries(self) -> str:
        return f"{self.root}/tmp"

    @property
    def new_cluster_file(self) -> str:
        return f"{self.temporaries}/cluster.json.new"

    @property
    def new_topic_file(self) -> str:
        return f"{self.temporaries}/topic.json.new"

    def directory(self, topic: Topic) -> str:
        """The id makes it unique; the name is there for people."""
        return f"{self.topics}/{topic.name[:NAME_CHARS]}-{render_id(topic.id)}"

    def topic_file(self, topic: Topic) -> str:
        return f"{self.directory(topic)}/{TOPIC_FILE}"

    def partition(self, topic: Topic, partition: int) -> str:
        """The directory of a partition's log."""
        return f"{self.directory(topic)}/{partition}"


def is_topic_directory(name: str) -> bool:
    """Whether a directory is named like a topic's."""
    try:
        parse_id(name[-ID_TEXT_CHARS:])
    except ValueError:
        return False
    return name[:-ID_TEXT_CHARS].endswith("-")
