"""The names of objects: the only place that knows what lies where in a store.

One cluster owns one namespace. In it, `<topic>` is a topic's directory name (name and id, so that a topic
which is made again never sees the objects of the deleted one), and `<stream>` is `<topic>-<partition>`:

    <namespace>/cluster.json                                 claims the namespace for one cluster id
    <namespace>/<topic>/topic.json
    <namespace>/<topic>/<partition>/segment-<base offset>.kfs and .index
    <namespace>/manifest/<stream>/<chunk index>.mlog
    <namespace>/manifest/<stream>/snapshot_<id>.bin
    <namespace>/manifest/<stream>/<bundle>
    <namespace>/probe/<32 hex digits>                        for a moment, in a place of its own: looking for
                                                             what was left of one lists nothing else

Offsets and chunk indexes are 20 digits, so that keys sort as numbers do. A topic's directory name ends with
an id of 22 characters, so that none is called `manifest` or `probe`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from barbicel.errors import StoreRefused

__all__ = ["Keys", "SegmentKey", "TopicKeys", "parse_chunk_key", "parse_segment_key", "parse_snapshot_key"]

_NAMESPACE = re.compile(r"[A-Za-z0-9._-]{1,64}(/[A-Za-z0-9._-]{1,64}){0,7}")
_SEGMENT = re.compile(r"(?:.*/)?([^/]+)/(0|[1-9][0-9]{0,9})/segment-([0-9]{20})\.kfs", re.ASCII)
_CHUNK = re.compile(r"(?:.*/)?manifest/([^/]+)/([0-9]{20})\.mlog", re.ASCII)
_SNAPSHOT = re.compile(r"(?:.*/)?manifest/([^/]+)/snapshot_(0|[1-9][0-9]{0,19})\.bin", re.ASCII)


class SegmentKey(NamedTuple):
    """What the key of a segment says."""

    topic_dir: str
    partition: int
    base_offset: int


@dataclass(frozen=True)
class TopicKeys:
    """The keys of one topic's objects; `prefix` ends with a slash and begins all of them."""

    prefix: str

    @property
    def description(self) -> str:
        return f"{self.prefix}topic.json"

    def partition(self, partition: int) -> str:
        """What the keys of a partition's segments begin with."""
        return f"{self.prefix}{partition}/"

    def segment(self, partition: int, base_offset: int) -> str:
        return f"{self.prefix}{partition}/segment-{base_offset:020d}.kfs"

    def index(self, partition: int, base_offset: int) -> str:
        return f"{self.prefix}{partition}/segment-{base_offset:020d}.index"


@dataclass(frozen=True)
class Keys:
    """The keys of one cluster's objects."""

    namespace: str

    def __post_init__(self) -> None:
        if not _NAMESPACE.fullmatch(self.namespace) or {".", ".."} & set(self.namespace.split("/")):
            raise StoreRefused(
                f"{self.namespace!r} is no namespace",
                hint="letters, digits, '.', '_' and '-', with one slash between two names",
            )

    @property
    def prefix(self) -> str:
        """What every key of the namespace begins with."""
        return f"{self.namespace}/"

    @property
    def cluster(self) -> str:
        return f"{self.namespace}/cluster.json"

    def topic(self, topic_dir: str) -> TopicKeys:
        return TopicKeys(f"{self.namespace}/{topic_dir}/")

    def manifest(self, stream_id: str) -> str:
        """What the keys of a stream's manifest begin with."""
        return f"{self.namespace}/manifest/{stream_id}/"

    def chunk(self, stream_id: str, chunk_index: int) -> str:
        return f"{self.manifest(stream_id)}{chunk_index:020d}.mlog"

    def snapshot(self, stream_id: str, snapshot_id: int) -> str:
        return f"{self.manifest(stream_id)}snapshot_{snapshot_id}.bin"

    def bundle(self, stream_id: str, name: str) -> str:
        return f"{self.manifest(stream_id)}{name}"


def parse_segment_key(key: str) -> SegmentKey | None:
    """What a segment's key says, None for any other key: also for its `.index`."""
    found = _SEGMENT.fullmatch(key)
    return SegmentKey(found[1], int(found[2]), int(found[3])) if found else None


def parse_chunk_key(key: str) -> tuple[str, int] | None:
    """The stream and the index of a manifest's chunk."""
    found = _CHUNK.fullmatch(key)
    return (found[1], int(found[2])) if found else None


def parse_snapshot_key(key: str) -> tuple[str, int] | None:
    """The stream and the id of a manifest's snapshot."""
    found = _SNAPSHOT.fullmatch(key)
    return (found[1], int(found[2])) if found else None
