"""What a log directory holds that may be read, told by its files alone, beside a server that may write it.

No lock is taken and nothing is changed. The end is a promise: everything below it survives a power cut, so no
reader ever hands out what the log does not have any more. Sealed segments are durable. Of the active one the
manifest vouches for a part. What is whole behind that is synced here, by fdatasync on a descriptor that was
open before it was read: if that fails, or the records are not there any more afterwards, it does not count.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import closing

import numpy as np
import numpy.typing as npt

from barbicel.codecs.keratin_format import (
    INDEX,
    INDEX_ENTRY,
    INDEX_HEADER_BYTES,
    LOG_HEADER_BYTES,
    Manifest,
    decode_index_header,
    decode_log_header,
)
from barbicel.codecs.keratin_record import Record
from barbicel.disk import Disk, File, read_file
from barbicel.errors import CorruptFile, CorruptLog, DiskError, NotALog
from barbicel.keratin.layout import Layout
from barbicel.keratin.manifest import read_manifest
from barbicel.keratin.walk import Walk, is_record
from barbicel.pipeline.source.options import ReadUpTo
from barbicel.pipeline.source.shapes import LogStretch, Shape

__all__ = ["index_entries", "survey_log"]

# A log in use changes under our eyes: what looks missing is believed when it is seen this often.
LOOKS = 4
MAX_INDEX_BYTES = 1 << 30
_ENTRY = np.dtype([("rel_offset", ">u4"), ("reserved0", ">u4"), ("position", ">u8")])


def survey_log(
    disk: Disk, root: str, *, up_to: str = ReadUpTo.SYNCED, known: LogStretch | None = None
) -> Shape:
    """Look at a log. `known` is the last stretch of an earlier look, from whose end it can go on.

    VOUCHED ends where the manifest vouches for it, SEALED where the active segment begins, unseen.
    Raises NotALog, CorruptFile, CorruptLog, DiskError.
    """
    layout = Layout(root)
    for look in range(LOOKS):
        try:
            manifest = read_manifest(disk, layout)
            return _shape(disk, layout, manifest, up_to, known)
        except DiskError as error:
            # Between the manifest and its files a trim or a roll may have come.
            if error.errno != errno.ENOENT or look == LOOKS - 1:
                raise _not_a_log(disk, layout, error) from error
    raise AssertionError("the last look returns or raises")


def _not_a_log(disk: Disk, layout: Layout, error: DiskError) -> Exception:
    if error.errno != errno.ENOENT or disk.exists(layout.manifest):
        return error
    hint = "give the directory of a log, a data directory with topics/, or a .kfs file"
    if disk.exists(layout.segments):
        hint = "its manifest is missing: 'barbicel log repair' rebuilds it"
    return NotALog("there is no log in this directory", path=layout.root, hint=hint)


def _shape(disk: Disk, layout: Layout, manifest: Manifest, up_to: str, known: LogStretch | None) -> Shape:
    stretches = [
        LogStretch(layout.log(base), base, last + 1, log_bytes)
        for base, last, log_bytes, _ in manifest.segments
    ]
    base = manifest.active_base_offset
    if up_to == ReadUpTo.SEALED:
        stretches.append(LogStretch(layout.log(base), base, base, LOG_HEADER_BYTES))
    else:
        stretches += _unsealed(disk, layout, manifest, up_to == ReadUpTo.SYNCED, known)
    return Shape(manifest.log_start_offset, stretches[-1].end_offset, tuple(stretches))


def _unsealed(
    disk: Disk, layout: Layout, manifest: Manifest, sync: bool, known: LogStretch | None
) -> Iterator[LogStretch]:
    """The active segment, and what a roll has added since the manifest was read."""
    base = manifest.active_base_offset
    while True:
        stretch = _active(disk, layout, base, manifest.next_offset, sync, known)
        yield stretch
        base = stretch.end_offset
        if not sync or base == stretch.base_offset or not disk.exists(layout.log(base)):
            return


def _active(
    disk: Disk, layout: Layout, base: int, vouched_offset: int, sync: bool, known: LogStretch | None
) -> LogStretch:
    with closing(disk.open(layout.log(base), "read")) as file:
        _check_header(file, base)
        size = file.size()
        found = LogStretch(file.path, base, base, LOG_HEADER_BYTES)
        if known is not None and _is_still_there(file, size, known, base):
            found = known
        elif (entry := _last_entry(disk, layout, file, base, vouched_offset)) is not None:
            found = found._replace(end_offset=entry[0], size_bytes=entry[1])
        found = _walk_to(file, size, found, vouched_offset)
        return _sync_behind(file, size, found) if sync else found


def _is_still_there(file: File, size: int, known: LogStretch, base: int) -> bool:
    """Whether the log goes on behind an earlier look: a log that failed may have been cut back."""
    is_same = known.path == file.path and known.base_offset == base
    return is_same and is_record(file, known.last_position, size, known.last_offset)


def _check_header(file: File, base: int) -> None:
    try:
        header = decode_log_header(file.pread(LOG_HEADER_BYTES, 0))
        if header.base_offset != base:
            raise CorruptFile(
                f"the header says base offset {header.base_offset}, the name {base}", position=16
            )
    except CorruptFile as error:
        error.path = file.path
        raise


def _last_entry(
    disk: Disk, layout: Layout, file: File, base: int, vouched_offset: int
) -> tuple[int, int] | None:
    """Offset and position of the last index entry that leads to a sound record which is vouched for."""
    offsets, positions = index_entries(disk, layout.index(base), base)
    number = int(np.searchsorted(offsets, vouched_offset, side="left")) - 1
    if number < 0 or not is_record(file, int(positions[number]), file.size(), int(offsets[number])):
        return None
    return int(offsets[number]), int(positions[number])


def _walk_to(file: File, size: int, found: LogStretch, end_offset: int) -> LogStretch:
    """Go to the end of what the manifest vouches for: what is missing before that is damage."""
    if found.end_offset >= end_offset:
        return found
    walk = Walk(file, found.size_bytes, size, found.end_offset)
    for record in walk:
        if record.end_offset >= end_offset:
            return _ending_with(found, record)
    raise CorruptLog(
        walk.problem or "the file ends before its last record",
        first_offset=walk.next_offset,
        end_offset=end_offset,
        path=file.path,
        position=walk.position,
    )


def _sync_behind(file: File, size: int, found: LogStretch) -> LogStretch:
    """Take in the whole records that follow, once they are durable."""
    grown = found
    for record in Walk(file, found.size_bytes, size, found.end_offset):
        grown = _ending_with(found, record)
    if grown is found:
        return found
    file.fdatasync()
    # An append that failed is cut off again by who wrote it.
    return grown if is_record(file, grown.last_position, grown.size_bytes, grown.last_offset) else found


def _ending_with(stretch: LogStretch, record: Record) -> LogStretch:
    return stretch._replace(
        end_offset=record.end_offset,
        size_bytes=record.position + record.size,
        last_offset=record.offset,
        last_position=record.position,
    )


def index_entries(
    disk: Disk, path: str, base_offset: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Offsets and positions of an index file: hints where records begin, none if it is of no use."""
    nothing = np.empty(0, np.int64)
    try:
        data = read_file(disk, path, MAX_INDEX_BYTES)
        if decode_index_header(INDEX, data).base_offset != base_offset:
            return nothing, nothing
    except (CorruptFile, DiskError):
        return nothing, nothing
    count = (len(data) - INDEX_HEADER_BYTES) // INDEX_ENTRY.size
    entries = np.frombuffer(data, _ENTRY, count, INDEX_HEADER_BYTES)
    positions = entries["position"].astype(np.int64)
    offsets = base_offset + entries["rel_offset"].astype(np.int64)
    if (np.diff(offsets) <= 0).any() or (np.diff(positions) <= 0).any():
        return nothing, nothing
    return offsets, positions
