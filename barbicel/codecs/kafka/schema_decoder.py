"""Decoders made from kafka-python's schemas, for bytes that nobody has checked.

They read with wire.py, which believes no length, and hold the count of an array against its smallest
element: n elements need n times its bytes. So neither the memory nor the time that a message takes exceeds a
small multiple of its size, and a message that is cut is always refused. So is a null where none may be, and a
message of more elements than whoever reads it allows.

kafka-python's own decoders do none of that: a varint may go on for ever, a slice beyond the end is short
without complaint, the count of an array is looped over whatever is left, and every struct that has tagged
fields copies the rest of the message once more. So its schemas and its data classes are used here and its
decoders are not; they stay as they are, for kafka-python's clients.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any, TypeAlias
from uuid import UUID

from barbicel.codecs.kafka.wire import (
    INT32,
    NO_ROW_LIMIT,
    UUID_BYTES,
    ClassicReader,
    FlexibleReader,
    MalformedRequest,
    check_count,
)

__all__ = ["decode_body", "struct_decoder"]

# kafka-python has no types. This is its BaseField: one field of a schema, or the whole schema.
_Field: TypeAlias = Any
_Read: TypeAlias = Callable[[ClassicReader], Any]
# Sets attributes of an object to what it reads.
_Fill: TypeAlias = Callable[[Any, ClassicReader], None]

_FIXED = {
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "bool": "?",
}
_BIT_FIELD = struct.Struct(">I")
_FIXED_BYTES = {
    **{name: struct.calcsize(f">{code}") for name, code in _FIXED.items()},
    "uuid": UUID_BYTES,
    "bitfield": _BIT_FIELD.size,
}
_STRING_LENGTH_BYTES = 2
_LENGTH_BYTES = 4
_NO_ID = bytes(UUID_BYTES)
_NULL = -1


def decode_body(decoder: _Read, body: memoryview, *, flexible: bool, max_rows: int = NO_ROW_LIMIT) -> Any:
    """The message that `body` begins with, of at most so many elements in all of its arrays together.

    Raises MalformedRequest. Bytes behind it are left alone: librdkafka sends three of them after Metadata.
    """
    reader = FlexibleReader(body) if flexible else ClassicReader(body)
    reader.rows_left = max_rows
    return decoder(reader)


def struct_decoder(schema: _Field, kind: type, version: int, *, flexible: bool) -> _Read:
    """Reads a struct of that schema and version into an instance of `kind`."""
    return _Version(version, flexible).struct_of(schema, kind)


class _Version:
    """Turns the fields that one version of a message has into functions that read them."""

    def __init__(self, version: int, flexible: bool) -> None:
        self._version = version
        self._flexible = flexible
        self._read_length: Callable[[Any, str], int] = _read_compact_length if flexible else _read_length

    def struct_of(self, schema: _Field, kind: type) -> _Read:
        version, fills = self._version, self._fills(schema)

        def read(reader: ClassicReader) -> Any:
            # Past the constructor, as kafka-python itself decodes: that would look up every default first.
            decoded: Any = object.__new__(kind)
            decoded._version = version
            decoded.tags = None
            decoded.unknown_tags = None
            for fill in fills:
                fill(decoded, reader)
            return decoded

        return read

    def _fills(self, schema: _Field) -> tuple[_Fill, ...]:
        fills: list[_Fill] = []
        for is_fixed, run in groupby(self._fields(schema), lambda field: field.type_str in _FIXED):
            if is_fixed:
                fills.append(_fill_fixed(list(run)))
            else:
                fills.extend(_fill(field.name, self._value(field)) for field in run)
        if self._flexible:
            tagged = self._fields(schema, tagged=True)
            fills.append(_fill_tagged({field.tag: (field.name, self._value(field)) for field in tagged}))
        return tuple(fills)

    def _fields(self, schema: _Field, *, tagged: bool = False) -> list[_Field]:
        version = self._version
        fields = (field for field in schema.fields.values() if field.for_version_q(version))
        return [field for field in fields if field.tagged_field_q(version) is tagged]

    def _value(self, field: _Field) -> _Read:
        nullable = field.nullable_for_version_q(self._version)
        if field.is_array():
            return self._array(field, nullable)
        if field.is_struct():
            read = self.struct_of(field, field.data_class)
            return _nullable_struct(read, field.name) if nullable else read
        return self._simple(field, nullable)

    def _array(self, field: _Field, nullable: bool) -> _Read:
        element = field.array_of
        # What the schema calls nullable is the array, never an element.
        is_struct = element.is_struct()
        read = (
            self.struct_of(element, element.data_class)
            if is_struct
            else self._simple(element, nullable=False)
        )
        # An element of no bytes would make any count believable.
        smallest_bytes = max(1, self._struct_bytes(element) if is_struct else self._smallest_bytes(element))
        return _array(self._read_length, read, smallest_bytes, field.name, nullable)

    def _simple(self, field: _Field, nullable: bool) -> _Read:
        name, type_name = field.name, field.type_str
        if type_name in _FIXED:
            shape = struct.Struct(f">{_FIXED[type_name]}")
            return lambda reader: reader.unpack(shape, name)[0]
        if type_name == "string":
            return lambda reader: reader.nullable_string(name) if nullable else reader.string(name)
        if type_name == "uuid":
            return lambda reader: _uuid(reader.uuid(name))
        if type_name == "bitfield":
            return lambda reader: _bit_numbers(*reader.unpack(_BIT_FIELD, name))
        return _bytes(self._read_length, name, nullable)

    def _smallest_bytes(self, field: _Field) -> int:
        """How few bytes a field can have: those of null, or of the length 0."""
        if field.is_struct() and not field.nullable_for_version_q(self._version):
            return self._struct_bytes(field)
        if field.type_str in _FIXED_BYTES:
            return _FIXED_BYTES[field.type_str]
        if self._flexible or field.is_struct():
            return 1
        return _STRING_LENGTH_BYTES if field.type_str == "string" else _LENGTH_BYTES

    def _struct_bytes(self, schema: _Field) -> int:
        # In a flexible version the count of tagged fields stands at the end.
        return sum(map(self._smallest_bytes, self._fields(schema))) + self._flexible


# --- the fields of a struct -----------------------------------------------------------------------------


def _fill(name: str, read: _Read) -> _Fill:
    return lambda decoded, reader: setattr(decoded, name, read(reader))


def _fill_fixed(fields: list[_Field]) -> _Fill:
    """Neighbours of fixed sizes are read at once."""
    names = [field.name for field in fields]
    shape = struct.Struct(">" + "".join(_FIXED[field.type_str] for field in fields))

    def fill(decoded: Any, reader: ClassicReader) -> None:
        for name, value in zip(names, reader.unpack(shape, names[0]), strict=True):
            setattr(decoded, name, value)

    return fill


def _fill_tagged(known: Mapping[int, tuple[str, _Read]]) -> _Fill:
    """A tag that is not known is passed over, as KIP-482 wants it."""

    def fill(decoded: Any, reader: ClassicReader) -> None:
        # Nearly no struct has any, and a large commit has thousands of structs.
        position = reader.position
        if position < reader.end and reader.view[position] == 0:
            reader.position = position + 1
            return
        for tag, end in reader.tagged_fields():
            if tag in known:
                name, read = known[tag]
                inside = FlexibleReader(reader.view, reader.position, end)
                inside.rows_left = reader.rows_left
                setattr(decoded, name, read(inside))
                reader.rows_left = inside.rows_left
                if inside.position != end:
                    raise MalformedRequest(
                        f"tagged field {name} ends {end - inside.position} bytes early",
                        position=inside.position,
                    )

    return fill


# --- values ---------------------------------------------------------------------------------------------


def _read_length(reader: ClassicReader, what: str) -> int:
    length: int = reader.unpack(INT32, what)[0]
    return length


def _read_compact_length(reader: FlexibleReader, what: str) -> int:
    return reader.uvarint(what) - 1


def _array(
    read_length: Callable[[Any, str], int],
    read_element: _Read,
    smallest_bytes: int,
    name: str,
    nullable: bool,
) -> _Read:
    def read(reader: ClassicReader) -> list[Any] | None:
        start = reader.position
        count = read_length(reader, name)
        if nullable and count == _NULL:
            return None
        check_count(count, smallest_bytes, reader.end - reader.position, name, start)
        reader.rows_left -= count
        if reader.rows_left < 0:
            raise MalformedRequest(f"with {count} {name} it has too many rows", position=start)
        return [read_element(reader) for _ in range(count)]

    return read


def _bytes(read_length: Callable[[Any, str], int], name: str, nullable: bool) -> _Read:
    """Copies, so that a few bytes of a group's member do not keep a network buffer alive."""

    def read(reader: ClassicReader) -> bytes | None:
        length = read_length(reader, name)
        if nullable and length == _NULL:
            return None
        start = reader.take(length, name)
        return bytes(reader.view[start : reader.position])

    return read


def _nullable_struct(read_struct: _Read, name: str) -> _Read:
    """A byte comes first, negative for null (KIP-893)."""

    def read(reader: ClassicReader) -> Any:
        is_null = reader.view[reader.take(1, name)] >= 0x80
        return None if is_null else read_struct(reader)

    return read


def _uuid(raw: bytes) -> UUID | None:
    """None for the id of zeros, which means none; kafka-python's encoders write None as zeros."""
    return None if raw == _NO_ID else UUID(bytes=raw)


def _bit_numbers(bits: int) -> set[int] | None:
    """Which bits are set. None for the sign bit alone, which says that nobody asked."""
    numbers = {number for number in range(32) if bits >> number & 1}
    return None if numbers == {31} else numbers
