""".kfs objects as they lie in a store, without the log that they came from: found by their names, read by
their index. A path is one object, or a prefix that all of them begin with, on a disk or in S3."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise

from barbicel.codecs.topic_file import parse_id
from barbicel.disk import Disk
from barbicel.errors import CorruptFile
from barbicel.pipeline.source.options import BadOption, Options
from barbicel.pipeline.source.shapes import ObjectStretch
from barbicel.tier.segment_file import SegmentFile, list_segments
from barbicel.tier.stores import open_store

__all__ = ["check_base_offset", "find_objects", "is_object_path", "open_object", "topic_of"]

SUFFIX = ".kfs"
_NAME = re.compile(r"(?:.*/)?segment-([0-9]{20})\.kfs", re.ASCII | re.DOTALL)
ID_CHARS = 22
BASE_OFFSET_AT = 8  # in the header of a .kfs


def is_object_path(path: str) -> bool:
    """Whether a path can be nothing but that of objects."""
    return path.startswith("s3://") or path.endswith(SUFFIX)


def topic_of(topic_dir: str) -> tuple[str, str]:
    """A topic's name and its id, of the name of its directory; other programs' have no id."""
    name, dash, identity = (
        topic_dir[: -ID_CHARS - 1],
        topic_dir[-ID_CHARS - 1 : -ID_CHARS],
        topic_dir[-ID_CHARS:],
    )
    try:
        parse_id(identity)
    except ValueError:
        return topic_dir, ""
    return (name, identity) if dash == "-" and name else (topic_dir, "")


@contextmanager
def open_object(disk: Disk, store_url: str, key: str, options: Mapping[str, str]) -> Iterator[SegmentFile]:
    """Raises CorruptFile, StoreError; ObjectMissing is one."""
    store = open_store(store_url, disk=disk, options=options)
    try:
        yield SegmentFile(store, key, f"{store_url}/{key}")
    finally:
        store.close()


def check_base_offset(segment: SegmentFile, base_offset: int) -> None:
    """No sum covers an object's header: without this a wrong offset in it would look like a loss.

    Raises CorruptFile.
    """
    if segment.header.base_offset != base_offset:
        said = f"the header says base offset {segment.header.base_offset}, and it is object {base_offset}"
        raise CorruptFile(said, path=segment.url, position=BASE_OFFSET_AT)


def find_objects(disk: Disk, options: Options) -> dict[tuple[str, str, int], tuple[ObjectStretch, ...]]:
    """(topic, its id, partition) → its objects, ascending."""
    path = options.path.rstrip("/")
    if path.endswith(SUFFIX):
        root, _, key = path.rpartition("/")
        names = [(key, 0)]
        root = root or "."
    else:
        root = path
        found_segments = list_segments(path, disk=disk, options=options.store_options)
        names = [(found.url.removeprefix(f"{root}/"), found.size) for found in found_segments]
    grouped: dict[tuple[str, str, int], list[ObjectStretch]] = {}
    for key, size in names:
        stretch = ObjectStretch(root, key, _base_offset(key) or 0, 0, size)
        grouped.setdefault(_owner(f"{root}/{key}", options), []).append(stretch)
    return {owner: tuple(_with_ends(disk, stretches, options)) for owner, stretches in grouped.items()}


def _base_offset(key: str) -> int | None:
    """As its name says it. One that was given another name does not."""
    named = _NAME.fullmatch(key)
    return int(named[1]) if named else None


def _owner(url: str, options: Options) -> tuple[str, str, int]:
    """By the name, as stores have it: …/<topic>/<partition>/segment-<base offset>.kfs. Options come first."""
    above = url.split("/")[:-1]
    partition = int(above[-1]) if above and above[-1].isdecimal() else None
    topic, identity = topic_of(above[-2]) if partition is not None and len(above) > 1 else ("", "")
    if not topic:
        if len(options.topics) != 1:
            raise BadOption(f"the name of {url} does not say its topic", hint="give it: option('topic', …)")
        topic = options.topics[0]
    return (
        topic,
        identity,
        partition if options.partition is None and partition is not None else options.partition or 0,
    )


def _with_ends(disk: Disk, stretches: list[ObjectStretch], options: Options) -> Iterator[ObjectStretch]:
    """An object ends where the next one begins, or a part of it is missing; the last one is asked."""
    stretches.sort(key=lambda stretch: stretch.base_offset)
    for stretch, following in pairwise(stretches):
        yield stretch._replace(end_offset=following.base_offset)
    last = stretches[-1]
    with open_object(disk, last.store_url, last.key, options.store_options) as segment:
        if _base_offset(last.key) is not None:
            check_base_offset(segment, last.base_offset)
        yield last._replace(
            base_offset=segment.header.base_offset,
            end_offset=segment.footer.last_offset + 1,
            size_bytes=segment.size,
        )
