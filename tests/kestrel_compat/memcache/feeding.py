"""Ways to feed the same bytes to a reader. Whatever the pieces, the same requests must come out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol, TypeAlias

__all__ = ["WAYS", "Reader", "Way", "drain", "in_two", "read", "told"]


class Reader(Protocol):
    def feed(self, data: bytes) -> None: ...

    def next_request(self) -> object: ...

    @property
    def held_bytes(self) -> int: ...

    @property
    def is_within_a_request(self) -> bool: ...


def told(requests: Iterable[object]) -> list[tuple[str, object]]:
    """With their types, because tuples of different types are equal where their fields are."""
    return [(type(request).__name__, request) for request in requests]


def drain(reader: Reader) -> Iterator[object]:
    while (request := reader.next_request()) is not None:
        yield request


def read(reader: Reader, pieces: Iterable[bytes]) -> list[object]:
    requests: list[object] = []
    for piece in pieces:
        reader.feed(piece)
        requests.extend(drain(reader))
    return requests


def in_two(data: bytes, position: int) -> list[bytes]:
    return [data[:position], data[position:]]


def _whole(reader: Reader, data: bytes) -> list[object]:
    return read(reader, [data])


def _byte_by_byte(reader: Reader, data: bytes) -> list[object]:
    return read(reader, (data[at : at + 1] for at in range(len(data))))


def _three_at_a_time(reader: Reader, data: bytes) -> list[object]:
    return read(reader, (data[at : at + 3] for at in range(0, len(data), 3)))


def _all_before_the_first_is_asked_for(reader: Reader, data: bytes) -> list[object]:
    for at in range(0, len(data), 2):
        reader.feed(data[at : at + 2])
    return list(drain(reader))


def _one_is_asked_for_at_each_piece(reader: Reader, data: bytes) -> list[object]:
    requests = []
    for at in range(0, len(data), 5):
        reader.feed(data[at : at + 5])
        requests.append(reader.next_request())
    return [request for request in (*requests, *drain(reader)) if request is not None]


Way: TypeAlias = Callable[[Reader, bytes], list[object]]

WAYS: Mapping[str, Way] = {
    way.__name__.strip("_"): way
    for way in (
        _whole,
        _byte_by_byte,
        _three_at_a_time,
        _all_before_the_first_is_asked_for,
        _one_is_asked_for_at_each_piece,
    )
}
