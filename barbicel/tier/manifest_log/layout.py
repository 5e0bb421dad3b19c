"""The names of a stream's files. Other names in its directory are passed over: warm artifacts lie there too.

00000000000000000007.mlog        a chunk
00000000000000000008.mlog.tmp    a chunk of which nothing is committed yet; a crash leaves it to be swept
snapshot_3.bin                   the catalogue at one place of the log
snapshot_4.bin.tmp               one that is being written; swept too
"""

from __future__ import annotations

import re
from typing import NamedTuple

from barbicel.disk import Disk

__all__ = [
    "FileListing",
    "bundle_name",
    "chunk_path",
    "list_files",
    "parse_bundle_name",
    "snapshot_path",
    "temporary_path",
]

_CHUNK = re.compile(r"([0-9]{20})\.mlog", re.ASCII)
_SNAPSHOT = re.compile(r"snapshot_(0|[1-9][0-9]{0,19})\.bin", re.ASCII)
_TEMPORARY = re.compile(r"(?:[0-9]{20}\.mlog|snapshot_[0-9]{1,20}\.bin)\.tmp", re.ASCII)
_BUNDLE = re.compile(r"bundle_([0-9]{20})-([0-9]{20})\.mlogs", re.ASCII)


class FileListing(NamedTuple):
    """What is there of a stream; numbers ascend, sizes are of the chunks."""

    chunks: dict[int, int]
    snapshots: list[int]
    temporaries: list[str]


def chunk_path(directory: str, chunk_index: int) -> str:
    return f"{directory}/{chunk_index:020d}.mlog"


def snapshot_path(directory: str, snapshot_id: int) -> str:
    return f"{directory}/snapshot_{snapshot_id}.bin"


def temporary_path(path: str) -> str:
    return f"{path}.tmp"


def list_files(disk: Disk, directory: str) -> FileListing:
    """A directory that is not there holds nothing."""
    listing = FileListing({}, [], [])
    for entry in disk.list(directory) if disk.exists(directory) else ():
        if found := _CHUNK.fullmatch(entry.name):
            listing.chunks[int(found[1])] = entry.size
        elif found := _SNAPSHOT.fullmatch(entry.name):
            listing.snapshots.append(int(found[1]))
        elif _TEMPORARY.fullmatch(entry.name):
            listing.temporaries.append(f"{directory}/{entry.name}")
    listing.snapshots.sort()
    return listing


def bundle_name(first_index: int, last_index: int) -> str:
    """The name, in the object store, of chunks `first_index` to `last_index` in one object."""
    return f"bundle_{first_index:020d}-{last_index:020d}.mlogs"


def parse_bundle_name(name: str) -> tuple[int, int] | None:
    found = _BUNDLE.fullmatch(name)
    return (int(found[1]), int(found[2])) if found and found[1] <= found[2] else None
