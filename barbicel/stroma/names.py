"""Which group, and under which file name its state lies. The mapping is a bijection."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from barbicel.codecs.stroma_format import hash_name

__all__ = [
    "MAX_NAME_BYTES",
    "MAX_PARTITION",
    "GroupKey",
    "file_stem",
    "is_hashed",
    "parse_full_name",
    "parse_stem",
    "render_full_name",
    "render_prefix",
]

MAX_STEM_BYTES = 200
# Escaped. Kafka's longest group and topic names fit with every byte escaped.
MAX_NAME_BYTES = 1 << 18
MAX_PARTITION = (1 << 31) - 1
_ESCAPED = re.compile(rb"[^A-Za-z0-9.\-]")
_HASHED = re.compile(r"h-[0-9a-f]{32}")
# `<topic>-<partition>_<group>`, escaped: the one bare underscore separates.
_STEM = re.compile(r"([A-Za-z0-9.\-%]+)-(0|[1-9][0-9]{0,9})_([A-Za-z0-9.\-%]*)")


class GroupKey(NamedTuple):
    """A group's consumption of one partition."""

    topic: str
    partition: int
    group: str

    @property
    def tp_hash(self) -> int:
        return hash_name(f"{self.topic}-{self.partition}")

    @property
    def group_hash(self) -> int:
        return hash_name(self.group)


def _escape(name: str) -> str:
    return _ESCAPED.sub(lambda match: b"%%%02X" % match[0][0], name.encode("utf-8")).decode("ascii")


def render_full_name(key: GroupKey) -> str:
    return f"{render_prefix(key.topic, key.partition)}{_escape(key.group)}"


def render_prefix(topic: str, partition: int) -> str:
    """What the full names of all groups of a partition begin with, and no others do."""
    return f"{_escape(topic)}-{partition}_"


def file_stem(key: GroupKey) -> str:
    """The files' name without its suffix; a long one is a hash, and a `.name` file holds the full one.

    Raises ValueError for a key that has no name: without a topic, with an impossible partition, with
    letters that UTF-8 does not have, or too long.
    """
    if not key.topic or not 0 <= key.partition <= MAX_PARTITION:
        raise ValueError(f"{key} is no partition's group")
    full = render_full_name(key)
    if len(full) <= MAX_STEM_BYTES:
        return full
    if len(full) > MAX_NAME_BYTES:
        raise ValueError(f"the names are too long: {len(full)} bytes, {MAX_NAME_BYTES} are allowed")
    return f"h-{sha256(full.encode('ascii')).hexdigest()[:32]}"


def is_hashed(stem: str) -> bool:
    return _HASHED.fullmatch(stem) is not None


def parse_full_name(full: str) -> GroupKey | None:
    """The key that renders as this name, None if there is none."""
    match = _STEM.fullmatch(full)
    if match is None:
        return None
    try:
        topic, group = (unquote_to_bytes(part).decode("utf-8") for part in (match[1], match[3]))
    except UnicodeDecodeError:
        return None
    key = GroupKey(topic, int(match[2]), group)
    return key if key.partition <= MAX_PARTITION and render_full_name(key) == full else None


def parse_stem(stem: str) -> GroupKey | None:
    """The key of a name that is not a hash."""
    return None if is_hashed(stem) or len(stem) > MAX_STEM_BYTES else parse_full_name(stem)
