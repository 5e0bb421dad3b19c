"""Kafka's primitive types as bytes, in the classic encoding and in the flexible one (KIP-482).

Owns the rule that nothing a peer declares is believed: a length is held against the bytes that are left, a
count against how many of the smallest element these can hold, both before anything is allocated. What does
not fit raises MalformedRequest with the byte where it stands. Views are never copied, text and ids are.

A reader is one of two classes with the same methods, so that a decoder is written once for both encodings;
decoders that run for every Produce use the functions and Struct.unpack_from instead.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from barbicel.errors import BarbicelError

__all__ = [
    "CLASSIC",
    "FLEXIBLE",
    "INT16",
    "INT32",
    "NO_ROW_LIMIT",
    "NO_TAGGED_FIELDS",
    "UUID_BYTES",
    "ClassicReader",
    "Encoding",
    "FlexibleReader",
    "MalformedRequest",
    "check_count",
    "decode_uvarint",
    "encode_tagged_fields",
    "encode_topic_id",
    "encode_uvarint",
    "new_tuple",
    "skip_tagged_fields",
]

INT16 = struct.Struct(">h")
INT32 = struct.Struct(">i")
UUID_BYTES = 16
NO_TAGGED_FIELDS = b"\x00"
NO_ROW_LIMIT = 1 << 62
# A tag and the size of an empty field.
SMALLEST_TAGGED_FIELD_BYTES = 2
LATER_VARINT_SHIFTS = (7, 14, 21, 28)

# Makes a NamedTuple in half the time of its own constructor, which is a Python function.
new_tuple = tuple.__new__


class MalformedRequest(BarbicelError):
    """What a peer sent is not the message that it claims to be; `position` is the byte where that shows."""


# --- decoding -------------------------------------------------------------------------------------------


def decode_uvarint(view: memoryview, position: int) -> tuple[int, int]:
    """An unsigned varint of at most five bytes, and the position after it. IndexError if it is cut.

    The fifth byte may carry the value past 32 bits; no length, count or tag of that size is ever right.
    """
    value = view[position]
    if value < 0x80:
        return value, position + 1
    value &= 0x7F
    at = position
    for shift in LATER_VARINT_SHIFTS:
        at += 1
        byte = view[at]
        if byte < 0x80:
            return value | byte << shift, at + 1
        value |= (byte & 0x7F) << shift
    raise MalformedRequest("a varint of more than five bytes", position=position)


def check_count(count: int, smallest_bytes: int, left: int, what: str, position: int) -> None:
    """Refuse a count that is negative, or of more elements than the bytes left can hold."""
    if not 0 <= count <= left // smallest_bytes:
        raise MalformedRequest(
            f"{count} {what} declared in the {left} bytes that are left", position=position
        )


def skip_tagged_fields(view: memoryview, position: int) -> int:
    """The position after a struct's tagged fields, whatever they are. IndexError if they are cut."""
    count, position = decode_uvarint(view, position)
    check_count(count, SMALLEST_TAGGED_FIELD_BYTES, len(view) - position, "tagged fields", position)
    for _ in range(count):
        tag, position = decode_uvarint(view, position)
        size, position = decode_uvarint(view, position)
        if size > len(view) - position:
            raise MalformedRequest(f"tagged field {tag} is cut: it has {size} bytes", position=position)
        position += size
    return position


class ClassicReader:
    """Steps through the bytes of a message; `end` is where they end, `position` the next one to be read.

    `rows_left` is how many elements the message's arrays may still have, all of them together.
    """

    __slots__ = ("end", "position", "rows_left", "view")

    def __init__(self, view: memoryview, position: int = 0, end: int | None = None) -> None:
        self.view = view
        self.position = position
        self.end = len(view) if end is None else min(end, len(view))
        self.rows_left = NO_ROW_LIMIT

    def take(self, length: int, what: str) -> int:
        """Step over `length` bytes that belong to `what`; where they begin."""
        start = self.position
        if not 0 <= length <= self.end - start:
            left = self.end - start
            raise MalformedRequest(f"{what} has {length} bytes, {left} are left", position=start)
        self.position = start + length
        return start

    def unpack(self, shape: struct.Struct, what: str) -> tuple[Any, ...]:
        """Fields of fixed sizes that follow one another."""
        return shape.unpack_from(self.view, self.take(shape.size, what))

    def uuid(self, what: str) -> bytes:
        start = self.take(UUID_BYTES, what)
        return bytes(self.view[start : self.position])

    def count(self, smallest_bytes: int, what: str) -> int:
        """How many elements of at least `smallest_bytes` an array has, which may not be null."""
        at = self.position
        count = self._declared_count(what)
        check_count(count, smallest_bytes, self.end - self.position, what, at)
        self.rows_left -= count
        if self.rows_left < 0:
            raise MalformedRequest(f"too many rows: {count} {what} are more than is allowed", position=at)
        return count

    def string(self, what: str) -> str:
        text = self.nullable_string(what)
        if text is None:
            raise MalformedRequest(f"{what} is null", position=self.position)
        return text

    def nullable_string(self, what: str) -> str | None:
        length = self._declared_length(what)
        if length == -1:
            return None
        start = self.take(length, what)
        # As Kafka does it: what is no UTF-8 becomes U+FFFD, which no legal name contains.
        return str(self.view[start : self.position], "utf-8", "replace")

    def tagged_fields(self) -> Iterator[tuple[int, int]]:
        """Where each tagged field lies, as (tag, end), the reader's position at its first byte."""
        return iter(())

    def skip_tagged_fields(self) -> None:
        """The classic encoding has none."""

    def _declared_count(self, what: str) -> int:
        count: int = self.unpack(INT32, what)[0]
        return count

    def _declared_length(self, what: str) -> int:
        length: int = self.unpack(INT16, what)[0]
        return length


class FlexibleReader(ClassicReader):
    """The encoding with compact lengths (one more than they mean, 0 is null) and tagged fields."""

    __slots__ = ()

    def uvarint(self, what: str) -> int:
        at = self.position
        if at < self.end and self.view[at] < 0x80:  # nearly always
            self.position = at + 1
            return self.view[at]
        try:
            value, position = decode_uvarint(self.view, at)
        except IndexError:
            position = self.end + 1
        if position > self.end:
            raise MalformedRequest(f"{what} is cut", position=self.position)
        self.position = position
        return value

    def tagged_fields(self) -> Iterator[tuple[int, int]]:
        count = self.uvarint("the count of tagged fields")
        left = self.end - self.position
        check_count(count, SMALLEST_TAGGED_FIELD_BYTES, left, "tagged fields", self.position)
        for _ in range(count):
            tag = self.uvarint("a tag")
            size = self.uvarint("the size of a tagged field")
            start = self.take(size, f"tagged field {tag}")
            end, self.position = self.position, start
            yield tag, end
            self.position = end

    def skip_tagged_fields(self) -> None:
        if self.position < self.end and self.view[self.position] == 0:
            self.position += 1
            return
        for _ in self.tagged_fields():
            pass

    def _declared_count(self, what: str) -> int:
        return self.uvarint(what) - 1

    def _declared_length(self, what: str) -> int:
        return self.uvarint(what) - 1


# --- encoding -------------------------------------------------------------------------------------------


def encode_uvarint(value: int) -> bytes:
    if value < 0x80:
        return value.to_bytes(1, "big")
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encode_length(length: int | None) -> bytes:
    return INT32.pack(-1 if length is None else length)


def encode_compact_length(length: int | None) -> bytes:
    return encode_uvarint(0 if length is None else length + 1)


def encode_string(text: str | None) -> bytes:
    if text is None:
        return INT16.pack(-1)
    raw = text.encode()
    return INT16.pack(len(raw)) + raw


def encode_compact_string(text: str | None) -> bytes:
    if text is None:
        return encode_uvarint(0)
    raw = text.encode()
    return encode_uvarint(len(raw) + 1) + raw


class Encoding(NamedTuple):
    """How what has no fixed size is written. None is null, to `length` and to `string`.

    `length` is that of an array in elements and that of records in bytes alike.
    """

    length: Callable[[int | None], bytes]
    string: Callable[[str | None], bytes]
    no_tagged_fields: bytes
    # What most arrays have.
    length_of_one: bytes

    def name(self, text: str | None) -> bytes:
        """A string that the protocol does not let be null."""
        if text is None:
            raise ValueError("a topic without a name in a version that has no ids")
        return self.string(text)


CLASSIC = Encoding(encode_length, encode_string, b"", encode_length(1))
FLEXIBLE = Encoding(encode_compact_length, encode_compact_string, NO_TAGGED_FIELDS, encode_compact_length(1))


def encode_topic_id(topic_id: bytes | None) -> bytes:
    if topic_id is None or len(topic_id) != UUID_BYTES:
        raise ValueError(f"{topic_id!r} is no topic id")
    return topic_id


def encode_tagged_fields(fields: list[tuple[int, bytes]]) -> bytes:
    """A struct's tagged fields, which KIP-482 wants in the order of their tags."""
    if not fields:
        return NO_TAGGED_FIELDS
    pieces = [encode_uvarint(len(fields))]
    for tag, body in sorted(fields):
        pieces += (encode_uvarint(tag), encode_uvarint(len(body)), body)
    return b"".join(pieces)
