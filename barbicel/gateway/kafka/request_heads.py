"""The head of a request: what it asks for and how, and where its body begins.

Nearly all requests of a client begin alike, but for the correlation id. One that begins as the one before it
is not read again.
"""

from __future__ import annotations

from typing import NamedTuple

from barbicel.codecs.kafka.headers import (
    CORRELATION_ID_AT,
    CORRELATION_ID_END,
    decode_request_header,
    has_flexible_response_header,
)
from barbicel.codecs.kafka.messages import is_flexible
from barbicel.gateway.kafka.api import Api
from barbicel.gateway.kafka.table import UnsupportedRequest, api_for

__all__ = ["RequestHead", "RequestHeads"]

# A longer client id is not remembered: there may be thousands of connections.
MAX_KEPT_BYTES = 256


class RequestHead(NamedTuple):
    """All but the correlation id."""

    api: Api
    # In which the answer is; if that of the request is not known, the body cannot be read.
    version: int
    is_known_version: bool
    client_id: str | None
    body_at: int
    has_flexible_answer: bool


class RequestHeads:
    """Of one connection."""

    __slots__ = ("_after_id", "_before_id", "_last")

    def __init__(self) -> None:
        self._last: RequestHead | None = None
        # What the last one had around its correlation id.
        self._before_id = self._after_id = b""

    def read(self, frame: bytearray) -> RequestHead:
        """Raises MalformedRequest and UnsupportedRequest."""
        last = self._last
        if (
            last is not None
            and frame.startswith(self._before_id)
            and frame.startswith(self._after_id, CORRELATION_ID_END)
        ):
            return last
        head = _read(memoryview(frame))
        self._last = None
        if head.body_at <= MAX_KEPT_BYTES:
            self._last = head
            self._before_id = bytes(frame[:CORRELATION_ID_AT])
            self._after_id = bytes(frame[CORRELATION_ID_END : head.body_at])
        return head


def _read(frame: memoryview) -> RequestHead:
    header, body_at = decode_request_header(frame, _is_flexible)
    api, version = api_for(header.api_key, header.version)
    has_flexible_answer = has_flexible_response_header(api.key, is_flexible(api.key, version))
    is_known_version = version == header.version
    return RequestHead(api, version, is_known_version, header.client_id, body_at, has_flexible_answer)


def _is_flexible(api_key: int, version: int) -> bool:
    """An API that is not known is refused before this matters."""
    try:
        return is_flexible(api_key, version)
    except ValueError:
        raise UnsupportedRequest(f"API key {api_key} is not served") from None
