"""Warm artifacts: a segment as a `.kfs` file beside the log, its batches compressed, until it is uploaded.

The order is the promise: temporary → batches → header → fsync → rename → fsync of the directory. So a file
under its own name is whole, and what a crash leaves behind besides is a temporary that `sweep_warm` removes.
Compressing changes a batch's codec bits, its length and its CRC, and never a batch that is damaged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

from barbicel.codecs.kafka.compression import Codec, compress
from barbicel.codecs.kafka.record_batch import BATCH_HEADER_BYTES, decode_header, encode_batch
from barbicel.codecs.kfs import KFS_HEADER_BYTES
from barbicel.codecs.kfs_batches import decode_batch_facts
from barbicel.disk import Bytes, Disk, File, parent
from barbicel.errors import CorruptFile, DiskError
from barbicel.tier.body import ReadRange, split_batches
from barbicel.tier.pace import Pace
from barbicel.tier.packing import BACKGROUND_SHARE, NoBatches, Packed, Tally, grouped, is_compressible
from barbicel.tier.whole_segment import check_whole

__all__ = [
    "WarmArtifact",
    "list_warm",
    "open_warm",
    "read_warm",
    "recompress",
    "remove_warm",
    "sweep_warm",
    "warm_path",
    "write_warm",
]

_NAME = re.compile(r"segment-([0-9]{20})\.kfs", re.ASCII)
TEMPORARY = ".new"


class WarmArtifact(NamedTuple):
    path: str
    packed: Packed


def warm_path(directory: str, base_offset: int) -> str:
    return f"{directory}/segment-{base_offset:020d}.kfs"


def recompress(batches: Iterable[Bytes], codec: Codec) -> Iterator[Bytes]:
    """Plain batches compressed, the others and those that would not get smaller as they are.

    Raises CorruptFile: a damaged batch would get a CRC that is right.
    """
    for batch in batches:
        yield batch if codec == Codec.NONE else _smaller(batch, codec)


def _smaller(batch: Bytes, codec: Codec) -> Bytes:
    view = memoryview(batch)
    if not is_compressible(decode_batch_facts(view)):
        return batch
    inside = compress(codec, view[BATCH_HEADER_BYTES:])
    if BATCH_HEADER_BYTES + len(inside) >= len(view):
        return batch
    header = decode_header(view)
    return encode_batch(header._replace(attributes=header.attributes | codec), inside)


def write_warm(
    disk: Disk,
    directory: str,
    batches: Iterable[Bytes],
    codec: Codec,
    created_ms: int,
    *,
    base_offset: int | None = None,
    share: float = BACKGROUND_SHARE,
) -> WarmArtifact:
    """Write a segment's artifact; on return it survives a power cut.

    It is named for `base_offset`: without it for the first batch's, which is the greater one if offsets were
    lost before that.
    """
    if base_offset is None:
        base_offset, batches = _first_offset(batches)
    path = warm_path(directory, base_offset)
    temporary = path + TEMPORARY
    if disk.exists(temporary):
        disk.unlink(temporary)
    file = disk.open(temporary, "create")
    try:
        packed = _write(file, recompress(batches, codec), created_ms, Pace(share))
    except BaseException:
        file.close()
        with suppress(DiskError):  # what went wrong first is what to tell; a start sweeps the rest
            disk.unlink(temporary)
        raise
    file.close()
    disk.rename(temporary, path)
    disk.sync_directory(directory)
    return WarmArtifact(path, packed)


def _first_offset(batches: Iterable[Bytes]) -> tuple[int, Iterable[Bytes]]:
    """The first batch's offset, and all batches."""
    source = iter(batches)
    first = next(source, None)
    if first is None:
        raise NoBatches
    return decode_batch_facts(memoryview(first)).base_offset, chain([first], source)


def _write(file: File, batches: Iterable[Bytes], created_ms: int, pace: Pace) -> Packed:
    tally = Tally()
    file.append([bytes(KFS_HEADER_BYTES)])
    for group in grouped(batches):
        tally.add(group)
        file.append(group)
        pace.rest()
    packed = tally.pack(created_ms)
    file.append([packed.footer])
    file.pwrite(packed.header, 0)
    file.fdatasync()
    return packed


def open_warm(disk: Disk, path: str) -> WarmArtifact:
    """An artifact that an earlier run left, with all of it checked. Raises CorruptFile."""
    file = disk.open(path, "read")
    try:
        return WarmArtifact(path, check_whole(_reader(file), file.size()))
    except CorruptFile as problem:
        raise type(problem)(problem.message, path=path, position=problem.position) from None
    finally:
        file.close()


def read_warm(disk: Disk, artifact: WarmArtifact) -> Iterator[Bytes]:
    """Its batches, for `pieces`, which notices if the file has changed."""
    end = KFS_HEADER_BYTES + artifact.packed.body_bytes
    file = disk.open(artifact.path, "read")
    try:
        for batch in split_batches(_reader(file), KFS_HEADER_BYTES, end):
            yield batch.data
    finally:
        file.close()


def _reader(file: File) -> ReadRange:
    def read(position: int, length: int) -> bytes:
        data = file.pread(length, position)
        if len(data) != length:
            raise CorruptFile("the file is cut short", position=position + len(data))
        return data

    return read


def remove_warm(disk: Disk, path: str) -> None:
    """On return the artifact is gone for good; that there was none is fine."""
    if disk.exists(path):
        disk.unlink(path)
        disk.sync_directory(parent(path))


def list_warm(disk: Disk, directory: str) -> dict[int, str]:
    """The paths of the artifacts in a directory, by the base offsets that they are named for."""
    found = sorted(name for name in disk.names(directory) if _NAME.fullmatch(name))
    return {int(name[8:28]): f"{directory}/{name}" for name in found}


def sweep_warm(disk: Disk, directory: str) -> None:
    """Remove the temporaries that a crash left."""
    for name in disk.names(directory):
        if name.endswith(TEMPORARY) and _NAME.fullmatch(name.removesuffix(TEMPORARY)):
            disk.unlink(f"{directory}/{name}")
