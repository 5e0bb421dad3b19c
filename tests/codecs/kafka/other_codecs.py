"""Produce and Fetch as two other codecs write and read them, kafka-python and kio.

A message is a dictionary with the names of Kafka's schema: numbers, text, bytes (ids too), None, and lists
or dictionaries of the like. A field that the version does not have is absent, and so is a tagged struct
that was not sent.
"""

from __future__ import annotations

import dataclasses
import io
import typing
import warnings
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

with warnings.catch_warnings():
    # kafka-python reads its schemas by functions that Python 3.11 deprecates and 3.13 does not.
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka.protocol.consumer import FetchRequest, FetchResponse
    from kafka.protocol.producer import ProduceRequest, ProduceResponse

__all__ = ["FETCH", "NO_ID", "PRODUCE", "Codec", "KafkaPython", "Kio", "Message"]

Message = dict[str, Any]

PRODUCE = 0
FETCH = 1
NO_ID = bytes(16)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
TAGGED_STRUCTS = ("current_leader", "diverging_epoch", "snapshot_id")


class Codec(typing.Protocol):
    def write_request(self, api_key: int, version: int, message: Message) -> bytes: ...

    def read_response(self, api_key: int, version: int, body: bytes) -> Message: ...


class KafkaPython:
    REQUESTS: typing.ClassVar[dict[int, Any]] = {PRODUCE: ProduceRequest, FETCH: FetchRequest}
    RESPONSES: typing.ClassVar[dict[int, Any]] = {PRODUCE: ProduceResponse, FETCH: FetchResponse}

    def write_request(self, api_key: int, version: int, message: Message) -> bytes:
        return bytes(self._build(self.REQUESTS[api_key], version, message).encode(version=version))

    def _build(self, kind: Any, version: int, message: Message) -> Any:
        values = {name: self._value(kind, name, version, value) for name, value in message.items()}
        return kind(version=version, **values)

    def _value(self, kind: Any, name: str, version: int, value: Any) -> Any:
        field = kind._struct.fields[name]
        if field.is_struct():
            return self._build(field.data_class, version, value)
        if field.is_struct_array():
            return [self._build(field.data_class, version, element) for element in value]
        return UUID(bytes=value) if name.endswith("_id") and isinstance(value, bytes) else value

    def read_response(self, api_key: int, version: int, body: bytes) -> Message:
        kind = self.RESPONSES[api_key]
        flexible = kind.flexible_version_q(version)
        decode = kind._struct.compiled_decode_from(
            version, compact=flexible, tagged=flexible, data_class=kind
        )
        decoded, position = decode(memoryview(body), 0)
        assert position == len(body)
        return _without_absent_structs(decoded.to_dict(json=False))


class Kio:
    def write_request(self, api_key: int, version: int, message: Message) -> bytes:
        kind = load_request_schema(api_key, version)
        written = io.BytesIO()
        entity_writer(kind)(written, self._build(kind, message))
        return written.getvalue()

    def _build(self, kind: Any, message: Message) -> Any:
        hints = typing.get_type_hints(kind)
        return kind(**dict(self._field(hints, name, value) for name, value in message.items()))

    def _field(self, hints: dict[str, Any], name: str, value: Any) -> tuple[str, Any]:
        if name.endswith("_ms"):
            return name.removesuffix("_ms"), value * MILLISECOND
        if name.endswith("_id") and isinstance(value, bytes):
            return name, None if value == NO_ID else UUID(bytes=value)
        if isinstance(value, dict):
            return name, self._build(hints[name], value)
        if isinstance(value, list):
            element = typing.get_args(hints[name])[0]
            return name, tuple(self._build(element, v) if isinstance(v, dict) else v for v in value)
        return name, value

    def read_response(self, api_key: int, version: int, body: bytes) -> Message:
        entity, size = entity_reader(load_response_schema(api_key, version))(body, 0)
        assert size == len(body)
        message = self._message(entity)
        assert isinstance(message, dict)
        return message

    def _message(self, value: Any) -> Any:
        if dataclasses.is_dataclass(value):
            fields = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
            return _without_absent_structs(dict(self._plain(name, inner) for name, inner in fields))
        return [self._message(element) for element in value] if isinstance(value, tuple) else value

    def _plain(self, name: str, value: Any) -> tuple[str, Any]:
        if name == "log_append_time":
            return "log_append_time_ms", -1 if value is None else (value - EPOCH) // MILLISECOND
        if isinstance(value, timedelta):
            return f"{name}_ms", value // MILLISECOND
        if isinstance(value, ErrorCode):
            return name, int(value)
        return name, self._message(value)


def _without_absent_structs(message: Message) -> Message:
    """Both codecs have their own way to say that a tagged field was not there."""
    kept = {name: _plain(name, value) for name, value in message.items()}
    for name in TAGGED_STRUCTS:
        if name in kept and (kept[name] is None or set(kept[name].values()) == {-1}):
            del kept[name]
    return kept


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return _without_absent_structs(value)
    if isinstance(value, list):
        return [_plain(name, element) for element in value]
    if isinstance(value, memoryview):
        return bytes(value)
    if name == "topic_id":
        return NO_ID if value is None else value.bytes if isinstance(value, UUID) else value
    return value
