"""Columns by code that numba compiles. It takes what is sound, and leaves the rest to columns_plain.

numba does not check bounds: in here every position is checked against the end of its batch before it is read,
and every length against the room that is left before it is copied. What is odd in any way makes it give up,
never guess.

Cells are copied while they are found. So a column gets room for all bytes that it could have, and what is not
needed of it is never touched, and costs nothing.

Compiled code is kept beside this file, or in numba's cache directory, so that it is compiled once a machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar, cast

import numba
import numpy as np

from barbicel.codecs.kafka.columns_layout import (
    I32,
    I64,
    U8,
    BinaryColumn,
    Columns,
    HeaderColumn,
    OpenedBatch,
    Wanted,
)
from barbicel.codecs.kafka.record_batch import LOG_APPEND_TIME_BIT

__all__ = ["TABLE_COLUMNS", "compiled", "decode_compiled", "fill_columns"]

_Function = TypeVar("_Function", bound=Callable[..., object])


def compiled(function: _Function) -> _Function:
    """The function as machine code, made when it is first called."""
    try:
        return cast(_Function, numba.njit(cache=True, nogil=True, forceinline=True)(function))
    except RuntimeError:  # there is no place to keep it: it is compiled by every process
        return cast(_Function, numba.njit(nogil=True, forceinline=True)(function))


# The columns of the table that describes the batches.
START, END, BASE_OFFSET, BASE_TIMESTAMP, APPEND_TIME, LAST_DELTA, COUNT, TYPE = range(8)
TABLE_COLUMNS = 8

VARINT_BYTES = 5
VARLONG_BYTES = 9  # a tenth byte is for numbers that no sane timestamp reaches
# So that no sum of them and a delta, of 9 bytes at most, goes beyond 64 bits. It must be known before they
# are added: for a compiler there is no sum that is too large, and it leaves out whatever looks for one.
HIGHEST_BASE_OFFSET = 2**62
HIGHEST_BASE_TIMESTAMP = 2**62
GIVEN_UP = -1


# The columns of cells. Both columns of headers have a row for each header.
KEY, VALUE, HEADER_KEY, HEADER_VALUE = range(4)


class Room(NamedTuple):
    """The columns while they are filled. The first index of the last three is the number of the column.

    In compiled code each is an argument of its own: to take one out of a tuple counts a reference, which
    costs as much as to decode a number.
    """

    offsets: I64
    timestamps_ms: I64
    timestamp_types: I32
    header_bounds: I32
    bounds: I32
    cells: U8
    is_there: U8


@compiled
def _signed(number: np.uint64) -> int:
    return np.int64(number)  # type: ignore[return-value]  # compiled, it is what an int is


@compiled
def _varint(data: U8, position: int, end: int, max_bytes: int) -> tuple[int, int]:
    """A zig-zag number and the position behind it, GIVEN_UP if it has no end there."""
    number = np.uint64(0)
    for index in range(max_bytes):
        if position >= end:
            return 0, GIVEN_UP
        byte = np.uint64(data[position])
        position += 1
        number |= (byte & np.uint64(127)) << np.uint64(7 * index)
        if byte < np.uint64(128):
            return _signed(number >> np.uint64(1)) ^ -_signed(number & np.uint64(1)), position
    return 0, GIVEN_UP


@compiled
def _take(
    data: U8, position: int, end: int, column: int, row: int, bounds: I32, cells: U8, is_there: U8
) -> int:
    """Put the cell that begins with its length into its column; the position behind it, or GIVEN_UP.

    A column that there is no room for at all is not wanted.
    """
    length, position = _varint(data, position, end, VARINT_BYTES)
    if position < 0 or length > end - position:
        return GIVEN_UP
    size = max(length, 0)
    if column < len(cells):
        if row >= is_there.shape[1]:
            return GIVEN_UP
        at = np.int64(bounds[column, row])
        if at < 0 or size > cells.shape[1] - at:
            return GIVEN_UP
        for index in range(size):
            cells[column, at + index] = data[position + index]
        bounds[column, row + 1] = at + size
        is_there[column, row] = length >= 0
    return position + size


@compiled
def _take_headers(
    data: U8, position: int, end: int, first: int, bounds: I32, cells: U8, is_there: U8
) -> tuple[int, int]:
    """Put a record's headers behind the `first` ones; the number of all, and the position behind them."""
    count, position = _varint(data, position, end, VARINT_BYTES)
    if position < 0 or count < 0 or count > (end - position) // 2:
        return 0, GIVEN_UP
    for number in range(first, first + count):
        length, _ = _varint(data, position, end, VARINT_BYTES)
        if length < 0:  # a header's key is never null
            return 0, GIVEN_UP
        position = _take(data, position, end, HEADER_KEY, number, bounds, cells, is_there)
        if position < 0:
            return 0, GIVEN_UP
        position = _take(data, position, end, HEADER_VALUE, number, bounds, cells, is_there)
        if position < 0:
            return 0, GIVEN_UP
    return first + count, position


@compiled
def _fill_batch(
    data: U8,
    batch: I64,
    from_offset: int,
    end_offset: int,
    row: int,
    headers: int,
    offsets: I64,
    timestamps_ms: I64,
    timestamp_types: I32,
    header_bounds: I32,
    bounds: I32,
    cells: U8,
    is_there: U8,
) -> tuple[int, int]:
    """Go through all records of a batch; the rows and the headers with its wanted ones, or GIVEN_UP.

    A row that turns out not to be wanted is written over by the next one.
    """
    position, end = batch[START], batch[END]
    previous_delta = -1
    for _ in range(batch[COUNT]):
        length, position = _varint(data, position, end, VARINT_BYTES)
        if position < 0 or length < 1 or length > end - position or row >= len(offsets):
            return GIVEN_UP, 0
        record_end = position + length
        timestamp_delta, position = _varint(data, position + 1, record_end, VARLONG_BYTES)
        if position < 0:
            return GIVEN_UP, 0
        delta, position = _varint(data, position, record_end, VARINT_BYTES)
        if position < 0 or delta <= previous_delta or delta > batch[LAST_DELTA]:
            return GIVEN_UP, 0
        previous_delta = delta
        timestamp = batch[BASE_TIMESTAMP] + timestamp_delta
        position = _take(data, position, record_end, KEY, row, bounds, cells, is_there)
        if position < 0:
            return GIVEN_UP, 0
        position = _take(data, position, record_end, VALUE, row, bounds, cells, is_there)
        if position < 0:
            return GIVEN_UP, 0
        headers_then, position = _take_headers(data, position, record_end, headers, bounds, cells, is_there)
        if position != record_end:
            return GIVEN_UP, 0
        offset = batch[BASE_OFFSET] + delta
        if offset < from_offset or offset >= end_offset:
            continue
        offsets[row] = offset
        timestamps_ms[row] = batch[APPEND_TIME] if batch[TYPE] == 1 else timestamp
        timestamp_types[row] = batch[TYPE]
        headers = headers_then
        row += 1
        header_bounds[row] = headers
    return (row, headers) if position == end else (GIVEN_UP, 0)


@compiled
def _fill(
    data: U8,
    batches: I64,
    from_offset: int,
    end_offset: int,
    offsets: I64,
    timestamps_ms: I64,
    timestamp_types: I32,
    header_bounds: I32,
    bounds: I32,
    cells: U8,
    is_there: U8,
) -> tuple[int, int]:
    """Go through all batches; how many rows and headers there are, or GIVEN_UP."""
    row = headers = 0
    for number in range(len(batches)):
        batch = batches[number]
        if batch[START] < 0 or batch[END] > len(data):
            return GIVEN_UP, 0
        if batch[BASE_OFFSET] < 0 or batch[BASE_OFFSET] > HIGHEST_BASE_OFFSET:
            return GIVEN_UP, 0
        if not -HIGHEST_BASE_TIMESTAMP <= batch[BASE_TIMESTAMP] <= HIGHEST_BASE_TIMESTAMP:
            return GIVEN_UP, 0
        row, headers = _fill_batch(
            data,
            batch,
            from_offset,
            end_offset,
            row,
            headers,
            offsets,
            timestamps_ms,
            timestamp_types,
            header_bounds,
            bounds,
            cells,
            is_there,
        )
        if row < 0:
            return GIVEN_UP, 0
    return row, headers


def decode_compiled(batches: Sequence[OpenedBatch], wanted: Wanted) -> Columns | None:
    """The wanted rows of all the batches, None if there is anything that columns_plain has to judge."""
    data = np.frombuffer(b"".join(batch.records for batch in batches), np.uint8)
    records = sum(max(batch.header.records_count, 0) for batch in batches)
    return fill_columns(data, _describe(batches), records, wanted)


def fill_columns(data: U8, table: I64, records: int, wanted: Wanted) -> Columns | None:
    """The same, of batches in one buffer that a table describes, with so many records as they say."""
    room = new_room(records, len(data), wanted)
    rows, headers = fill(data, table, room, wanted)
    if rows < 0:
        return None
    header_column = None
    if wanted.headers:
        header_column = HeaderColumn(
            room.header_bounds[: rows + 1], _cut(room, HEADER_KEY, headers), _cut(room, HEADER_VALUE, headers)
        )
    return Columns(
        room.offsets[:rows],
        room.timestamps_ms[:rows],
        room.timestamp_types[:rows],
        _cut(room, KEY, rows) if wanted.keys else None,
        _cut(room, VALUE, rows) if wanted.values else None,
        header_column,
    )


def fill(data: U8, table: I64, room: Room, wanted: Wanted) -> tuple[int, int]:
    """Fill the room; how many rows and headers there are then, GIVEN_UP for columns_plain to judge."""
    return _fill(data, table, wanted.from_offset, wanted.end_offset, *room)


def _describe(batches: Sequence[OpenedBatch]) -> I64:
    table: list[tuple[int, ...]] = []
    start = 0
    for header, records, _ in batches:
        end = start + len(records)
        table.append(
            (
                start,
                end,
                header.base_offset,
                header.base_timestamp,
                header.max_timestamp,
                header.last_offset_delta,
                header.records_count,
                header.attributes & LOG_APPEND_TIME_BIT != 0,
            )
        )
        start = end
    return np.array(table, np.int64).reshape(len(table), TABLE_COLUMNS)


def new_room(rows: int, size: int, wanted: Wanted) -> Room:
    """For so many rows, out of so many bytes. A header has two bytes at least."""
    columns = HEADER_VALUE + 1 if wanted.headers else VALUE + 1 if wanted.values else KEY + 1
    longest = max(rows, size // 2) if wanted.headers else rows
    header_bounds = np.empty(rows + 1, np.int32)
    header_bounds[0] = 0
    bounds = np.empty((columns, longest + 1), np.int32)
    bounds[:, 0] = 0
    return Room(
        np.empty(rows, np.int64),
        np.empty(rows, np.int64),
        np.empty(rows, np.int32),
        header_bounds,
        bounds,
        np.empty((columns, size), np.uint8),
        np.empty((columns, longest), np.uint8),
    )


def _cut(room: Room, column: int, rows: int) -> BinaryColumn:
    """Without the room that was not needed."""
    bounds = room.bounds[column, : rows + 1]
    return BinaryColumn(bounds, room.cells[column, : bounds[rows]], room.is_there[column, :rows])
