"""The header in front of every request and every response; KIP-482 says which versions of it there are.

A request's key, version and correlation id lie in the first eight bytes of every frame, whatever comes
after them: `decode_request_start` finds them even where the version is unknown or the rest is damaged, so
that such a request can still be answered.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from barbicel.codecs.kafka.wire import (
    INT32,
    NO_TAGGED_FIELDS,
    FlexibleReader,
    MalformedRequest,
    new_tuple,
)

__all__ = [
    "CORRELATION_ID",
    "CORRELATION_ID_AT",
    "CORRELATION_ID_END",
    "RequestHeader",
    "RequestStart",
    "decode_request_header",
    "decode_request_start",
    "encode_response_header",
    "has_flexible_response_header",
]

API_VERSIONS = 18
REQUEST_START = struct.Struct(
    ">"
    "h"  # request_api_key
    "h"  # request_api_version
    "i"  # correlation_id
)
CORRELATION_ID_AT, CORRELATION_ID = 4, INT32
CORRELATION_ID_END = CORRELATION_ID_AT + CORRELATION_ID.size
# The client id has a classic length in both versions of the header, so that any broker can read it.
REQUEST_HEAD = struct.Struct(
    ">"
    "h"  # request_api_key
    "h"  # request_api_version
    "i"  # correlation_id
    "h"  # how many bytes client_id has, -1 is null
)


class RequestStart(NamedTuple):
    """What every request begins with, in every version of every header."""

    api_key: int
    version: int
    correlation_id: int


class RequestHeader(NamedTuple):
    """`client_id` is what the client calls itself; not all do."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None


def decode_request_start(frame: memoryview) -> RequestStart:
    """The first eight bytes of a frame; raises MalformedRequest only if there are fewer."""
    if len(frame) < REQUEST_START.size:
        raise MalformedRequest("the frame is too short for a request header", position=len(frame))
    return RequestStart(*REQUEST_START.unpack_from(frame))


def decode_request_header(
    frame: memoryview, is_flexible: Callable[[int, int], bool]
) -> tuple[RequestHeader, int]:
    """The header, and the position where the body begins.

    `is_flexible(api_key, version)` says whether a request of that kind has the header's version 2.
    """
    if len(frame) < REQUEST_HEAD.size:
        decode_request_start(frame)
        raise MalformedRequest("the frame ends before the client id", position=len(frame))
    api_key, version, correlation_id, length = REQUEST_HEAD.unpack_from(frame)
    client_id, position = None, REQUEST_HEAD.size
    if length != -1:
        position += length
        if not REQUEST_HEAD.size <= position <= len(frame):
            left = len(frame) - REQUEST_HEAD.size
            raise MalformedRequest(
                f"the client id has {length} bytes, {left} are left", position=REQUEST_START.size
            )
        client_id = str(frame[REQUEST_HEAD.size : position], "utf-8", "replace")
    if is_flexible(api_key, version):
        if position < len(frame) and not frame[position]:  # nearly always: no tagged fields
            position += 1
        else:
            reader = FlexibleReader(frame, position)
            reader.skip_tagged_fields()
            position = reader.position
    return new_tuple(RequestHeader, (api_key, version, correlation_id, client_id)), position


def has_flexible_response_header(api_key: int, is_flexible: bool) -> bool:
    """Whether the response to a request has header version 1.

    ApiVersions never has: its client does not know yet what the broker speaks (KIP-511).
    """
    return is_flexible and api_key != API_VERSIONS


def encode_response_header(correlation_id: int, flexible: bool) -> bytes:
    """Header version 1 if `flexible` (see has_flexible_response_header), else version 0."""
    start = INT32.pack(correlation_id)
    return start + NO_TAGGED_FIELDS if flexible else start
