"""Looking through one segment file: what is sound, what is damaged, what is only torn.

Torn and corrupt are told apart by what the log vouched for: below `vouched_offset` everything was synced,
so what is missing there is damage; at and above it a crash may have left anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from barbicel.codecs.keratin_format import LOG_HEADER_BYTES, FileHeader, decode_log_header
from barbicel.codecs.keratin_record import Record
from barbicel.disk import Disk, File
from barbicel.errors import CorruptFile
from barbicel.keratin.index import SparseIndex
from barbicel.keratin.layout import Layout
from barbicel.keratin.resumption import find_resumption
from barbicel.keratin.walk import Walk, is_zero

__all__ = ["Examination", "Gap", "Run", "examine", "is_misnamed", "read_log_header", "whole_records_behind"]

NO_OFFSET_BOUND = 1 << 64


class Run(NamedTuple):
    """Sound records without a gap: bytes position..end_position, offsets first_offset..end_offset."""

    position: int
    end_position: int
    first_offset: int
    end_offset: int


class Gap(NamedTuple):
    """Bytes that hold no sound record, and the offsets that are missing there."""

    position: int
    end_position: int
    first_offset: int
    end_offset: int
    reason: str


class Examination(NamedTuple):
    """`end_position` is behind the last sound record. `torn` says why the rest is not one, None if the
    file ends there or only zeros follow."""

    runs: tuple[Run, ...]
    gaps: tuple[Gap, ...]
    end_position: int
    end_offset: int
    torn: str | None


def read_log_header(file: File, base_offset: int) -> FileHeader:
    """Raises CorruptFile, naming file and position, unless it is the header of this segment."""
    try:
        header = decode_log_header(file.pread(LOG_HEADER_BYTES, 0))
    except CorruptFile as error:
        error.path = file.path
        raise
    if header.base_offset != base_offset:
        raise CorruptFile(
            f"the header says base offset {header.base_offset}, the name {base_offset}",
            path=file.path,
            position=16,
        )
    return header


def is_misnamed(disk: Disk, layout: Layout, base_offset: int) -> bool:
    """Whether the file has the sound header of another segment."""
    file = disk.open(layout.log(base_offset), "read")
    try:
        return decode_log_header(file.pread(LOG_HEADER_BYTES, 0)).base_offset != base_offset
    except CorruptFile:
        return False  # it is damaged, that is something else
    finally:
        file.close()


def examine(
    file: File,
    position: int,
    next_offset: int,
    *,
    end_position: int,
    vouched_offset: int,
    note: Callable[[Record], None] | None = None,
    index: SparseIndex | None = None,
) -> Examination:
    """Look through the bytes from `position` on; `note` is told of every sound record.

    An index, if there is one, helps to find the way past damage.
    """
    runs: list[Run] = []
    gaps: list[Gap] = []
    while True:
        walk = Walk(file, position, end_position, next_offset)
        for record in walk:
            if note is not None:
                note(record)
        if walk.position > position:
            runs.append(Run(position, walk.position, next_offset, walk.next_offset))
        position, next_offset = walk.position, walk.next_offset
        torn = None if is_zero(file, position, end_position) else walk.problem
        if torn is None or next_offset >= vouched_offset:
            break
        resumption = find_resumption(file, position, end_position, next_offset, vouched_offset, index)
        if resumption is None:
            break
        gaps.append(Gap(position, resumption.position, next_offset, resumption.offset, torn))
        position, next_offset = resumption
    if next_offset < vouched_offset:
        reason = torn or "the records end here"
        gaps.append(Gap(position, end_position, next_offset, vouched_offset, reason))
        return Examination(tuple(runs), tuple(gaps), position, vouched_offset, None)
    return Examination(tuple(runs), tuple(gaps), position, next_offset, torn)


def whole_records_behind(file: File, position: int, end: int, next_offset: int) -> tuple[Run, ...]:
    """The sound records that lie behind a torn place: they are cut off with it, and reported."""
    found: list[Run] = []
    while True:
        resumption = find_resumption(file, position, end, next_offset, NO_OFFSET_BOUND)
        if resumption is None:
            return tuple(found)
        walk = Walk(file, resumption.position, end, resumption.offset)
        for _ in walk:
            pass
        found.append(Run(resumption.position, walk.position, resumption.offset, walk.next_offset))
        position, next_offset = walk.position, walk.next_offset
