"""Where the files of a data directory are. docs/formats/data_directory.md shows it."""

from __future__ import annotations

from dataclasses import dataclass

from barbicel.codecs.topic_file import ID_TEXT_CHARS, Topic, parse_id, render_id
from barbicel.disk import Disk

__all__ = ["TOPIC_FILE", "DataLayout", "has_manifest", "is_topic_directory", "topic_directory"]

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

    @property
    def spare(self) -> str:
        return f"{self.temporaries}/spare"

    def directory(self, topic: Topic) -> str:
        return f"{self.topics}/{topic_directory(topic)}"

    def topic_file(self, topic: Topic) -> str:
        return f"{self.directory(topic)}/{TOPIC_FILE}"

    def partition(self, topic: Topic, partition: int) -> str:
        """The directory of a partition's log."""
        return f"{self.directory(topic)}/{partition}"

    # --- the tier ---------------------------------------------------------------------------------------

    @property
    def object_store(self) -> str:
        """The embedded object store."""
        return f"{self.root}/object-store"

    @property
    def tier(self) -> str:
        """The manifest logs, a directory for each partition."""
        return f"{self.root}/tier"

    def stream(self, topic: Topic, partition: int) -> str:
        """What the manifest of a partition is called."""
        return f"{topic_directory(topic)}-{partition}"

    def manifest(self, topic: Topic, partition: int) -> str:
        return f"{self.tier}/{self.stream(topic, partition)}"


def has_manifest(disk: Disk, layout: DataLayout, topic: Topic) -> bool:
    """Whether anything of a topic may be in an object store. Waits for the disk."""
    return any(disk.exists(layout.manifest(topic, number)) for number in range(topic.partitions))


def topic_directory(topic: Topic) -> str:
    """A name for files and objects. The id makes it unique; the topic's name is there for people."""
    return f"{topic.name[:NAME_CHARS]}-{render_id(topic.id)}"


def is_topic_directory(name: str) -> bool:
    """Whether a directory is named like a topic's."""
    try:
        parse_id(name[-ID_TEXT_CHARS:])
    except ValueError:
        return False
    return name[:-ID_TEXT_CHARS].endswith("-")
