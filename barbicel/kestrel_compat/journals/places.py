"""Where an item is, as one integer, so that millions of them fit an array: 8 bytes an item.

bit 62       EMPTY: the item has no data
bits 44-61   the number of the file
bits 0-43    the position of its entry
"""

from __future__ import annotations

from collections.abc import Sequence

from barbicel.errors import BarbicelError
from barbicel.kestrel_compat.journals.queue import JournalFile

__all__ = ["EMPTY", "check_places", "place_of", "split_place"]

EMPTY = 1 << 62
_FILE_BITS = 18
_POSITION_BITS = 44
_POSITIONS = (1 << _POSITION_BITS) - 1
_FILES = (1 << _FILE_BITS) - 1


def place_of(file: int, position: int) -> int:
    return file << _POSITION_BITS | position


def split_place(place: int) -> tuple[int, int]:
    """The number of the file and the position."""
    return place >> _POSITION_BITS & _FILES, place & _POSITIONS


def check_places(files: Sequence[JournalFile]) -> None:
    """Raises BarbicelError for more, or larger, files than places can tell apart."""
    if len(files) > _FILES:
        raise BarbicelError(f"a queue of {len(files)} journals, at most {_FILES} are possible")
    for file in files:
        if file.size > _POSITIONS:
            raise BarbicelError(f"a journal of {file.size} bytes, larger than is possible", path=file.name)
