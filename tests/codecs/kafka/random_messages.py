"""Random messages of any API and version, made from the schema, and the same messages as kio sees them."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import io
import random
from itertools import groupby
from typing import Any, NamedTuple
from uuid import UUID

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from barbicel.codecs.kafka import messages
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import VERSIONS, Message

__all__ = ["CASES", "KINDS", "Case", "kio_reads", "kio_writes", "plain", "plain_like", "random_message"]


class Case(NamedTuple):
    """One side of one version of an API."""

    side: str
    api_key: int
    version: int

    @property
    def kind(self) -> Any:
        class_of = messages.request_class if self.side == "request" else messages.response_class
        return class_of(self.api_key)

    def __str__(self) -> str:
        return f"{self.kind.__name__}-{self.version}"

    def encode(self, message: Message) -> bytes:
        encode = messages.encode_request if self.side == "request" else messages.encode_response
        return encode(message, self.version)

    def decode(self, body: bytes) -> Message:
        decode = messages.decode_request if self.side == "request" else messages.decode_response
        return decode(self.api_key, self.version, memoryview(body))


CASES = [
    Case(side, api_key, version)
    for side in ("request", "response")
    for api_key, versions in VERSIONS.items()
    for version in versions
]

# The name of a class → the versions of it, ascending.
KINDS = {name: list(cases) for name, cases in groupby(CASES, lambda case: str(case.kind.__name__))}

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_TEXTS = ("", "t", "topic-1", "größe", "x" * 130)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_NOT_ASKED_FOR = -(2**31)
_MS = datetime.timedelta(milliseconds=1)


def random_message(case: Case, seed: int) -> Message:
    choose = random.Random(f"{case} {seed}")
    message: Message = case.kind(**_fields(case.kind._struct, case.version, choose))
    return message


def _fields(schema: Any, version: int, choose: random.Random) -> dict[str, object]:
    present = [field for field in schema.fields.values() if field.for_version_q(version)]
    # A tagged field that is left out has its default, which is not encoded.
    chosen = [field for field in present if not field.tagged_field_q(version) or choose.random() < 0.5]
    return {field.name: _value(field, version, choose) for field in chosen}


def _value(field: Any, version: int, choose: random.Random) -> object:
    if field.nullable_for_version_q(version) and not field.tagged_field_q(version) and choose.random() < 0.3:
        return None
    if field.is_array():
        return [_element(field.array_of, version, choose) for _ in range(choose.choice((0, 1, 2, 3)))]
    return _element(field, version, choose)


def _element(field: Any, version: int, choose: random.Random) -> object:
    if field.is_struct():
        return field.data_class(**_fields(field, version, choose))
    return _simple(field.name, field.type_str, choose)


def _simple(name: str, type_name: str, choose: random.Random) -> object:
    if name.endswith("error_code"):
        return choose.choice(list(ErrorCode)).value
    if name.endswith("_ms"):
        # kio makes times of these, which have an end.
        return choose.randrange(2**31 - 1)
    if type_name in _BITS:
        half = 1 << _BITS[type_name] - 1
        return choose.choice((-half, half - 1, choose.randrange(-half, half)))
    match type_name:
        case "uint16":
            return choose.randrange(1 << 16)
        case "float64":
            return choose.choice((0.0, -1.5, 1e300, choose.random()))
        case "bool":
            return choose.random() < 0.5
        case "string":
            return choose.choice(_TEXTS)
        case "uuid":
            return choose.choice((None, UUID(int=choose.getrandbits(128))))
        case "bitfield":
            return choose.choice((None, {1, 3}, {0, 30, 31}))
        case "bytes" | "records":
            return choose.randbytes(choose.choice((0, 1, 200)))
    raise AssertionError(f"{name} has the type {type_name}, which no schema had so far")


# --- kio ------------------------------------------------------------------------------------------------


def _kio_class(case: Case) -> Any:
    load = load_request_schema if case.side == "request" else load_response_schema
    return load(case.api_key, case.version)


def kio_reads(case: Case, body: bytes) -> tuple[Any, int]:
    """The message, and how many bytes it took."""
    entity, size = entity_reader(_kio_class(case))(body, 0)
    return entity, size


def kio_writes(case: Case, entity: Any) -> bytes:
    written = io.BytesIO()
    entity_writer(_kio_class(case))(written, entity)
    return written.getvalue()


# kio's name → kafka-python's.
_RENAMED = {
    "topic_authorized_operations": "authorized_operations",
    "cluster_authorized_operations": "authorized_operations",
}


def plain(theirs: Any) -> Any:
    """kio's message as dictionaries, lists and numbers."""
    if dataclasses.is_dataclass(theirs):
        return {field.name: plain(getattr(theirs, field.name)) for field in dataclasses.fields(theirs)}
    if isinstance(theirs, tuple):
        return [plain(element) for element in theirs]
    return _plain_simple(theirs)


def plain_like(ours: Any, theirs: Any) -> Any:
    """Our message in the same form, with kio's names for the fields."""
    if dataclasses.is_dataclass(theirs) and not isinstance(theirs, type):
        # A tagged struct that is absent: kio has one with the defaults instead.
        if ours is None:
            return plain(type(theirs)())
        names = [field.name for field in dataclasses.fields(theirs)]
        return {
            name: plain_like(getattr(ours, _our_name(ours, name)), getattr(theirs, name)) for name in names
        }
    if isinstance(theirs, tuple):
        return [plain_like(*pair) for pair in zip(ours, theirs, strict=True)]
    # kafka-python's form of a bit field that nobody asked for.
    return _NOT_ASKED_FOR if ours is None and theirs == _NOT_ASKED_FOR else _plain_simple(ours)


def _our_name(ours: Any, name: str) -> str:
    candidates = (name, f"{name}_ms", _RENAMED.get(name, name))
    return next(candidate for candidate in candidates if candidate in ours._struct.fields)


def _plain_simple(value: Any) -> Any:
    match value:
        case datetime.timedelta():
            return value // _MS
        case datetime.datetime():
            return (value - _EPOCH) // _MS
        case enum.Enum():
            return value.value
        case set():
            bits = sum(1 << number for number in value)
            return bits - (bits >> 31 << 32)
        case UUID(int=0):
            return None
    return value
