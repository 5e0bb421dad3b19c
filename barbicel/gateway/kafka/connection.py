"""One client's connection: frames in, answers out in the order of the requests.

Requests are served as they arrive and may be finished in any order; an answer waits for those before it.
Whoever sends faster than it is served, or does not read its answers, is not read from until that changes.
"""

from __future__ import annotations

import logging
import struct
from collections import deque
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer  # type: ignore[import-untyped]  # it has no types

from barbicel.codecs.kafka.headers import (
    decode_request_header,
    encode_response_header,
    has_flexible_response_header,
)
from barbicel.codecs.kafka.messages import is_flexible
from barbicel.codecs.kafka.wire import MalformedRequest
from barbicel.errors import BarbicelError
from barbicel.gateway.kafka.api import Address, Api, Call, Pieces
from barbicel.gateway.kafka.frames import BadFrame, FrameReader
from barbicel.gateway.kafka.table import UnsupportedRequest, api_for, frame_limit
from barbicel.gateway.twisted_types import Transport

if TYPE_CHECKING:
    from barbicel.gateway.kafka.server import KafkaServer

__all__ = ["KafkaConnection"]

_log = logging.getLogger(__name__)

LENGTH = struct.Struct(">i")
# What one client may have under way before it is not read from any more.
MAX_REQUESTS_UNDER_WAY = 100
MAX_BYTES_UNDER_WAY = 32 << 20
READ_BYTES = 256 << 10
SEND_BYTES = 1 << 20


class _Slot:
    """The place of one answer in the order of a connection."""

    __slots__ = ("answer", "call", "is_done", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.is_done = False
        self.answer: bytes | None = None
        self.call: Call | None = None


@implementer(IPushProducer)
class KafkaConnection(Protocol):
    """See the module. `server` knows what all connections share."""

    transport: Transport  # type: ignore[assignment]  # as zope's interface it is no type

    def __init__(self, server: KafkaServer, peer: Address) -> None:
        self._server = server
        self._frames = FrameReader(server.max_request_bytes, frame_limit)
        self._slots: deque[_Slot] = deque()
        self._bytes_under_way = 0
        self._is_full = False
        self._is_unread = False
        self._is_lost = False
        self.peer = peer
        # When something last arrived, for the server's sweep.
        self.active_at_s = 0.0

    @property
    def is_within_a_frame(self) -> bool:
        return self._frames.is_within_a_frame

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is owed: then the client is not idle."""
        return bool(self._slots)

    # --- Twisted's side -----------------------------------------------------------------------------

    def connectionMade(self) -> None:
        self.transport.setTcpNoDelay(True)
        # Larger reads and writes than the default: half the system calls for large batches.
        self.transport.bufferSize = READ_BYTES
        self.transport.SEND_LIMIT = SEND_BYTES
        self.transport.registerProducer(self, True)
        self._server.connected(self)

    def dataReceived(self, data: bytes) -> None:
        self.active_at_s = self._server.seconds()
        try:
            for frame in self._frames.receive(data):
                if self._is_lost:
                    return
                self._serve(frame)
        except (BadFrame, UnsupportedRequest, MalformedRequest) as error:
            self.close(str(error))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._is_lost = True
        self._server.disconnected(self)
        for slot in self._slots:
            if slot.call is not None and slot.call.on_lost is not None:
                slot.call.on_lost()
        self._server.release_bytes(self._bytes_under_way)
        self._slots.clear()
        self._bytes_under_way = 0

    def close(self, reason: str) -> None:
        """Kafka closes without a word where it cannot answer; the log says why."""
        if not self._is_lost:
            _log.warning("closing the connection of %s:%d: %s", *self.peer, reason)
            self._is_lost = True
            self.transport.abortConnection()

    # --- the requests -------------------------------------------------------------------------------

    def _serve(self, frame: bytearray) -> None:
        view = memoryview(frame)
        header, body_at = decode_request_header(view, _is_flexible)
        api, version = api_for(header.api_key, header.version)
        slot = _Slot(len(frame))
        self._slots.append(slot)
        self._bytes_under_way += slot.size
        self._server.take_bytes(slot.size)
        local = self.transport.getHost()
        call = slot.call = Call(
            self._server.broker, version, header.client_id, self.peer, Address(local.host, local.port)
        )
        head = encode_response_header(
            header.correlation_id, has_flexible_response_header(api.key, is_flexible(api.key, version))
        )
        try:
            request = api.decode_body(version, view[body_at:]) if version == header.version else None
            reply = api.respond(call, request)
        except MalformedRequest:
            raise
        except Exception as error:
            self._fail(api, error)
            return
        if isinstance(reply, Deferred):
            reply.addCallback(self._finish, slot, api, version, head)
            reply.addErrback(self._fail_later, api)
        else:
            self._finish(reply, slot, api, version, head)
        self._pause_if_full()

    def _fail_later(self, failure: Failure, api: Api) -> None:
        self._fail(api, failure.value)

    def _fail(self, api: Api, error: BaseException | None) -> None:
        """A fault of ours: nothing true can be answered, so the client is to try again."""
        if isinstance(error, BarbicelError):
            self.close(f"{api.name} failed: {error}")
        else:
            _log.error("%s of %s:%d failed", api.name, *self.peer, exc_info=error)
            self.close(f"{api.name} failed: {error!r}")

    def _finish(self, reply: Any, slot: _Slot, api: Api, version: int, head: bytes) -> None:
        if self._is_lost:
            return
        slot.is_done = True
        slot.call = None
        if reply is not None:
            pieces: Pieces = api.encode(reply, version)
            length = len(head) + sum(map(len, pieces))
            slot.answer = b"".join((LENGTH.pack(length), head, *pieces))
        self._send_what_is_ready()

    def _send_what_is_ready(self) -> None:
        answers = []
        while self._slots and self._slots[0].is_done:
            slot = self._slots.popleft()
            self._bytes_under_way -= slot.size
            self._server.release_bytes(slot.size)
            if slot.answer is not None:
                answers.append(slot.answer)
        if answers:
            self.transport.write(answers[0] if len(answers) == 1 else b"".join(answers))
        if self._is_full:
            self.resume_if_room()

    # --- back-pressure ------------------------------------------------------------------------------

    def _has_room(self) -> bool:
        return (
            len(self._slots) < MAX_REQUESTS_UNDER_WAY
            and self._bytes_under_way < MAX_BYTES_UNDER_WAY
            and self._server.has_room
        )

    def _pause_if_full(self) -> None:
        if not self._is_full and not self._has_room():
            self._is_full = True
            self._server.paused(self)
            self.transport.pauseProducing()

    def resume_if_room(self) -> None:
        """Called by the server too, when others made room."""
        if not self._is_full or not self._has_room() or self._is_lost:
            return
        self._is_full = False
        self._server.resumed(self)
        if not self._is_unread:
            self.transport.resumeProducing()

    def pauseProducing(self) -> None:
        """The client does not read its answers."""
        self._is_unread = True
        self.transport.pauseProducing()

    def resumeProducing(self) -> None:
        self._is_unread = False
        if not self._is_full and not self._is_lost:
            self.transport.resumeProducing()

    def stopProducing(self) -> None:
        pass


def _is_flexible(api_key: int, version: int) -> bool:
    """For a request header; an API that is not known is refused before this matters."""
    try:
        return is_flexible(api_key, version)
    except ValueError:
        raise UnsupportedRequest(f"API key {api_key} is not served") from None
