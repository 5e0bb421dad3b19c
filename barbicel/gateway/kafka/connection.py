"""One client's connection: frames in, answers out in the order of the requests.

Requests are served as they arrive and may be finished in any order; an answer waits for those before it.
Whoever sends faster than it is served, or does not read its answers, is neither served nor read from until
that changes: what one client can make the server hold is bounded. Whoever sends many requests at once is
served a few at a time, in turns with the others.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IHandshakeListener, IPushProducer
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from barbicel.codecs.kafka.headers import CORRELATION_ID, CORRELATION_ID_AT, encode_response_header
from barbicel.codecs.kafka.wire import MalformedRequest
from barbicel.errors import BarbicelError
from barbicel.gateway.access.authentication import NotAdmitted
from barbicel.gateway.kafka.api import Address, Call, Later, Pieces, Reply
from barbicel.gateway.kafka.fetch import fetched_bytes
from barbicel.gateway.kafka.frames import LENGTH, SMALLEST_FRAME_BYTES, BadFrame, FrameReader
from barbicel.gateway.kafka.request_heads import RequestHeads
from barbicel.gateway.kafka.sasl_authenticate import TOKEN
from barbicel.gateway.kafka.slot import Slot
from barbicel.gateway.kafka.table import ANY_REQUEST_BYTES, UnsupportedRequest, frame_limit
from barbicel.gateway.sender import Sender
from barbicel.gateway.twisted_types import Timer, Transport

if TYPE_CHECKING:
    from barbicel.gateway.kafka.server import KafkaServer
    from barbicel.gateway.kafka.session import Session

__all__ = ["LITTLE_BYTES", "KafkaConnection"]

_log = logging.getLogger(__name__)

PRODUCE, FETCH = 0, 1
# What a request of it begins with.
PRODUCE_KEY = bytes(2)
# What one client may have under way before no more of its requests are served.
MAX_REQUESTS_UNDER_WAY = 100
MAX_BYTES_UNDER_WAY = 32 << 20
READ_BYTES = 256 << 10
# A request that is not about records and is longer than this is not read in the reactor's thread.
LONG_BODY_BYTES = 32 << 10
# Of an answer that is not there yet; whether something is the latter takes Python long to tell.
NOT_YET = Later, Deferred
# How long a client that is refused has to read why.
READING_SECONDS = 0.2
# How long whoever is sent away has to take what is left, once it was sent.
LEAVING_SECONDS = 5.0
# And until then, if an answer does not get ready, or nobody reads it.
ENDING_SECONDS = 30.0
# How much is read at a time while all connections together hold more than they should. One that holds less
# is read from all the same.
LITTLE_BYTES = 64 << 10


@implementer(IPushProducer, IHandshakeListener)
class KafkaConnection(Protocol):
    """See the module. `server` knows what all connections share."""

    transport: Transport  # type: ignore[assignment]  # as zope's interface it is no type

    def __init__(self, server: KafkaServer, peer: Address, session: Session | None = None) -> None:
        self._server = server
        self._session = session
        # For as long as it is not known who the client is; then while it is muted.
        self._deadline: Timer | None = None
        self._frames = FrameReader(server.max_request_bytes, frame_limit, ANY_REQUEST_BYTES)
        self._heads = RequestHeads()
        self._slots: deque[Slot] = deque()
        self._bytes_under_way = 0
        self._sender = Sender(lambda grown_bytes: server.note_unread(self, grown_bytes))
        # Of what arrived and is not answered.
        self._held_bytes = 0
        self._is_serving = False
        self._waits_for_turn = False
        self._is_reading = True
        self._is_draining = self._is_refused = self._is_muted = False
        self._muted_until_s = 0.0
        self._is_lost = False
        self._local = Address("", 0)
        self.peer = peer
        # For the server's sweep: when something last arrived, when its frame began or was let go on, and what
        # has arrived of it since.
        self.active_at_s = self.frame_since_s = 0.0
        self.frame_bytes = 0

    @property
    def is_within_a_frame(self) -> bool:
        return self._frames.is_within_a_frame

    @property
    def holds_much(self) -> bool:
        """Of what the client has sent and was not answered yet."""
        return self._held_bytes >= LITTLE_BYTES

    @property
    def is_kept_back(self) -> bool:
        """More has arrived behind a request that has to be answered first."""
        frames, slots = self._frames, self._slots
        return frames.has_returned or bool(slots and slots[-1].is_alone and frames.is_within_a_frame)

    @property
    def unread_bytes(self) -> int:
        """Of answers, as far as the kernel does not have them."""
        return self._sender.unread_bytes

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is owed: then the client is not idle."""
        return bool(self._slots)

    @property
    def is_paused(self) -> bool:
        """Nothing is read, so that the client cannot be blamed for silence."""
        return not self._is_reading

    # --- Twisted's side -----------------------------------------------------------------------------

    def connectionMade(self) -> None:
        self.transport.setTcpNoDelay(True)
        # Larger reads and writes than the default: half the system calls for large batches.
        self._fit_buffer()
        self._sender.begin(self.transport)
        self.transport.registerProducer(self, True)
        local = self.transport.getHost()
        self._local = Address(local.host, local.port)
        self._server.connected(self)
        if self._session is not None:
            self._begin_session(self._session)

    def _begin_session(self, session: Session) -> None:
        config = session.access.config
        session.opened, session.end = self._session_opened, self._end
        self._frames.max_bytes = min(self._server.max_request_bytes, config.sasl_server_max_receive_size)
        self._frames.limit_name = "sasl.server.max.receive.size"
        self._frames.smallest_bytes = 0  # of a bare token
        self._set_deadline(
            config.sasl_server_authentication_timeout_ms / 1000,
            lambda: self.close("it has not said in time who it is"),
        )
        session.begin()

    def _session_opened(self) -> None:
        self._cancel_deadline()
        self._frames.max_bytes = self._server.max_request_bytes
        self._frames.limit_name = "socket.request.max.bytes"
        self._frames.smallest_bytes = SMALLEST_FRAME_BYTES

    def handshakeCompleted(self) -> None:
        """TLS is established."""
        if self._session is not None:
            try:
                self._session.begin_encrypted(self.transport)
            except BarbicelError as error:
                self.close(str(error))

    def _set_deadline(self, seconds: float, late: Callable[[], None]) -> None:
        self._cancel_deadline()
        self._deadline = self._server.call_later(seconds, late)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()
        self._deadline = None

    def dataReceived(self, data: bytes) -> None:
        if self._is_lost:
            return
        size = len(data)
        self.active_at_s = self._server.seconds()
        if not self._frames.is_within_a_frame:
            self._begin_frame()
        self.frame_bytes += size
        self._held_bytes += size
        self._server.take_bytes(size)
        self._fit_buffer()
        self._frames.feed(data)
        self.go_on()

    def _begin_frame(self) -> None:
        self.frame_since_s, self.frame_bytes = self.active_at_s, 0

    def _fit_buffer(self) -> None:
        """What is read at a time."""
        self.transport.bufferSize = READ_BYTES if self._server.has_room else LITTLE_BYTES

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._deadline is not None:
            self._cancel_deadline()
        self._is_lost = True
        slots, self._slots = self._slots, deque()
        for slot in slots:
            _stop_waiting(slot)
        self._server.disconnected(self)
        self._sender.clear()
        self._server.release_bytes(self._held_bytes)
        self._held_bytes = self._bytes_under_way = 0

    def close(self, reason: str) -> None:
        """Kafka closes without a word where it cannot answer; the log says why."""
        if not self._is_lost:
            self._server.broker.notes.tell_end(self.peer, reason)
            self._is_lost = True
            self._sender.clear()
            self.transport.abortConnection()

    def _close_behind_answers(self, reason: str, slot: Slot | None = None) -> None:
        """The same, once all is answered that came before, or before the slot. As with Kafka, who serves one
        request of a connection after the other, the client is to hear what was stored."""
        if self._is_lost or (slot is not None and not self._drop_from(slot)):
            return
        if not (self._slots or self._sender or self._sender.sent_bytes):
            self.close(reason)
            return
        self._server.broker.notes.tell_end(self.peer, reason)
        self._set_deadline(ENDING_SECONDS, self.transport.abortConnection)
        self.drain()

    def _drop_from(self, slot: Slot) -> bool:
        """Forget it and all behind it. Not if that was done already, for one before it."""
        if slot not in self._slots:
            return False
        dropped = None
        while dropped is not slot:
            dropped = self._slots.pop()
            _stop_waiting(dropped)
        return True

    def _end(self, reason: str) -> None:
        """The client is sent away when it has its answer."""
        if not self._is_lost:
            # Who is not let in comes back again and again.
            text = f"not let in: {reason}"
            self._server.broker.notes.tell(self.peer, text, logging.WARNING, by_host=True)
            self._cancel_deadline()
            self._is_draining = self._is_refused = True

    def drain(self) -> None:
        """Serve no more, and close as soon as all is answered that is under way."""
        self._is_draining = True
        self._read_or_pause()
        self._close_if_drained()

    def _close_if_drained(self) -> None:
        # Nothing can be sent before what the first one waits for.
        if self._is_lost or self._sender or (self._slots and not self._slots[0].is_only_waiting):
            return
        self._is_lost = True
        self.transport.unregisterProducer()
        if self._is_refused:
            # Some clients find the end before the answer that stands in front of it.
            self._set_deadline(READING_SECONDS, self._send_away)
        else:
            self._send_away()

    def _send_away(self) -> None:
        """Whoever does not even read why does not keep the connection."""
        self._set_deadline(LEAVING_SECONDS, self.transport.abortConnection)
        self.transport.loseConnection()

    # --- the requests -------------------------------------------------------------------------------

    def go_on(self) -> None:
        """Serve what is here as far as there is room, then read on, or pause. The server calls it too."""
        # If it serves already, an answer within the loop made room, and the loop sees that.
        if self._is_serving or self._waits_for_turn:
            return
        self._is_serving = True
        try:
            self._serve_a_turn()
        except (BadFrame, UnsupportedRequest, MalformedRequest, NotAdmitted) as error:
            self._close_behind_answers(str(error))
        finally:
            self._is_serving = False
        self._read_or_pause()

    def _serve_a_turn(self) -> None:
        turns = self._server.turns
        end_s = turns.end_of_turn_s()
        while self._may_serve() and (frame := self._frames.next_frame()) is not None:
            if self._is_behind_produce(frame):
                self._frames.put_back(frame)
                return
            self._serve(frame)
            self._begin_frame()
            if not self._frames.is_within_a_frame:
                return
            if turns.is_over(end_s):
                self._waits_for_turn = True
                turns.wait(self)
                return

    def _is_behind_produce(self, frame: bytearray) -> bool:
        """Whoever asks behind what it has produced is to find it, also if it wants no answer to that. (Kafka
        serves one request of a connection at a time.)"""
        if not self._slots or frame.startswith(PRODUCE_KEY):
            return False
        return any(slot.api.key == PRODUCE and not slot.is_done for slot in self._slots)

    def take_turn(self) -> None:
        self._waits_for_turn = False
        self.go_on()

    def _serve(self, frame: bytearray) -> None:
        session = self._session
        size = len(frame) + LENGTH.size
        if session is not None and session.is_raw:
            self._respond(Slot(TOKEN, self._call(0, None), b"", size), memoryview(frame), True)
            return
        head = self._heads.read(frame)
        if session is not None:
            session.admit(head.api)
        (correlation_id,) = CORRELATION_ID.unpack_from(frame, CORRELATION_ID_AT)
        answer_head = encode_response_header(correlation_id, head.has_flexible_answer)
        slot = Slot(head.api, self._call(head.version, head.client_id), answer_head, size)
        self._respond(slot, memoryview(frame)[head.body_at :], head.is_known_version)

    def _call(self, version: int, client_id: str | None) -> Call:
        server, sent_bytes = self._server, self._sender.sent_bytes
        peer, local, session = self.peer, self._local, self._session
        return Call(server.broker, version, client_id, peer, local, server.answers, session, sent_bytes)

    def _respond(self, slot: Slot, body: memoryview, is_known_version: bool) -> None:
        api, call = slot.api, slot.call
        if call.session is not None:
            call.session.begin_request()
        self._slots.append(slot)
        self._bytes_under_way += slot.size
        try:
            if api.decode is None and len(body) >= LONG_BODY_BYTES and is_known_version:
                reply: Reply = self._respond_later(slot, body)
            else:
                request = api.decode_body(call.version, body) if is_known_version else None
                reply = api.respond(call, request)
            if not isinstance(reply, NOT_YET):
                self._finish(reply, slot)
                return
        except Exception as error:
            self._fail(error, slot)
            return
        if call.session is not None:
            call.session.put_off_request()
        if isinstance(reply, Later):
            reply.then = partial(self._finish_later, reply, slot)
        else:
            reply.addCallback(self._finish, slot)
            reply.addErrback(lambda failure: self._fail(failure.value, slot))

    def _finish_later(self, reply: Later, slot: Slot) -> None:
        try:
            self._finish(reply.outcome(), slot)
        except Exception as error:
            self._fail(error, slot)

    def _respond_later(self, slot: Slot, body: memoryview) -> Deferred[Any]:
        """Tens of thousands of rows take a tenth of a second to read: that is done in a thread."""
        api, call = slot.api, slot.call
        slot.is_alone = True  # or what is behind it would overtake it
        decoding = call.broker.work_long(partial(api.decode_body, call.version, body))
        # Who is gone by then does not begin to wait for anything.
        return decoding.addCallback(lambda request: None if self._is_lost else api.respond(call, request))

    def _fail(self, error: BaseException | None, slot: Slot) -> None:
        """Nothing true can be answered, so the client is to try again."""
        name = slot.api.name
        if isinstance(error, MalformedRequest):
            self._close_behind_answers(str(error), slot)
        elif isinstance(error, BarbicelError):
            self._close_behind_answers(f"{name} failed: {error}", slot)
        else:  # a fault of ours
            _log.error("%s of %s:%d failed", name, *self.peer, exc_info=error)
            self.close(f"{name} failed: {error!r}")

    def _finish(self, reply: Any, slot: Slot) -> None:
        if self._is_lost:
            return
        throttle_ms = 0
        session = self._session
        if session is not None and session.access.quota_book is not None:
            throttle_ms = self._throttle_ms(session, reply, slot)
        if reply is not None:
            pieces: Pieces = (
                slot.api.encode_throttled(reply, slot.call.version, throttle_ms)
                if throttle_ms
                else slot.api.encode(reply, slot.call.version)
            )
            length = len(slot.head) + sum(map(len, pieces))
            slot.answer = (LENGTH.pack(length) + slot.head, *pieces)
        slot.is_done = True
        if throttle_ms and not self._is_draining:  # nothing more is served there
            self._mute(throttle_ms)
        self._send_what_is_ready()

    # --- quotas -------------------------------------------------------------------------------------

    def _throttle_ms(self, session: Session, reply: Any, slot: Slot) -> int:
        """How long the client has to wait, whatever it asks for next (KIP-219)."""
        answer_bytes = fetched_bytes(reply) if slot.api.key == FETCH else 0
        sent_bytes = slot.size if slot.api.key == PRODUCE else 0
        return session.throttle_ms(slot.call.client_id or "", sent_bytes, answer_bytes)

    def _mute(self, throttle_ms: int) -> None:
        """Nothing is served or read until the time is over: of several under way, the longest."""
        until_s = self._server.seconds() + throttle_ms / 1000
        if until_s > self._muted_until_s:
            self._is_muted, self._muted_until_s = True, until_s
            self._set_deadline(throttle_ms / 1000, self._unmute)
            self._read_or_pause()

    def _unmute(self) -> None:
        self._is_muted = False
        self.go_on()

    def _send_what_is_ready(self) -> None:
        size = 0
        while self._slots and self._slots[0].is_done:
            slot = self._slots.popleft()
            size += slot.size
            self._sender.put(slot.answer)
        self._bytes_under_way -= size
        self._held_bytes -= size
        # Of a group of appends several may be this client's: then their answers leave together.
        if not (self._slots and self._server.broker.when_answered(self._send_together)):
            self._send()
        if size:
            self._server.release_bytes(size)
        # Nothing may have changed: all that has arrived is served, and more is awaited.
        if not self._is_reading or self._frames.is_within_a_frame:
            self.go_on()

    def _send_together(self) -> None:
        if self._is_lost:
            return
        try:
            self._send()
        except Exception as error:  # a fault of ours; what was sent of it is not known
            _log.exception("answers to %s:%d could not be sent", *self.peer)
            self.close(f"its answers could not be sent: {error!r}")

    def _send(self) -> None:
        self._sender.write()
        if self._is_draining:
            self._close_if_drained()

    # --- back-pressure ------------------------------------------------------------------------------

    def _has_room(self) -> bool:
        return not (
            self._is_lost
            or self._sender.is_paused
            or self._is_draining
            or self._waits_for_turn
            or self._is_muted
            or len(self._slots) >= MAX_REQUESTS_UNDER_WAY
            or self._bytes_under_way >= MAX_BYTES_UNDER_WAY
        )

    def _may_serve(self) -> bool:
        return not (self._slots and self._slots[-1].is_alone) and self._has_room()

    def _read_or_pause(self) -> None:
        """Behind a fetch clients rarely send anything, so reading is not stopped before they do."""
        if self._is_lost:
            return
        may_read = self._has_room() and not self.is_kept_back and self._server.may_read(self)
        if may_read and not self._is_reading:
            self._is_reading = True
            self.active_at_s = self._server.seconds()
            self._begin_frame()
            self.transport.resumeProducing()
        elif self._is_reading and not may_read:
            self._is_reading = False
            self.transport.pauseProducing()

    def pauseProducing(self) -> None:
        """The client does not read its answers."""
        self._sender.is_paused = True
        self._read_or_pause()

    def resumeProducing(self) -> None:
        """It has read what it was sent."""
        self.active_at_s = self._server.seconds()
        self._sender.resume()
        self.go_on()
        if self._is_draining:
            self._close_if_drained()

    def stopProducing(self) -> None:
        """The connection is lost; connectionLost follows."""


def _stop_waiting(slot: Slot) -> None:
    """Nobody will be there for the answer."""
    if slot.is_only_waiting and slot.call.on_lost is not None:
        slot.call.on_lost()
