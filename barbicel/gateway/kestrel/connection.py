"""One client's connection: requests in, answers out in the order of the requests.

A run of requests of one kind is under way together, so that a client which sends a thousand sets waits for
one write and not for a thousand; a request of another kind begins when all before it are answered, so that
it sees what they did. What is answered in one turn of the reactor leaves in one write.

What one client can make the server hold is bounded: whoever sends faster than it is served, or does not
read its answers, is not read from until that changes.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from twisted.internet.interfaces import IHalfCloseableProtocol, IPushProducer
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from barbicel.errors import BarbicelError
from barbicel.gateway.kestrel.dialect import Address, Dialect
from barbicel.gateway.kestrel.serving import Kind, Plan, Serving
from barbicel.gateway.kestrel.session import Session
from barbicel.gateway.sender import Sender
from barbicel.gateway.twisted_types import Timer, Transport
from barbicel.kestrel_compat.names import BadQueueName

if TYPE_CHECKING:
    from barbicel.gateway.kestrel.login import LoginGate
    from barbicel.gateway.kestrel.server import KestrelServer

__all__ = ["Connection"]

_log = logging.getLogger(__name__)

# What one client may have under way before no more of its requests are served.
MAX_REQUESTS_UNDER_WAY = 1000
MAX_BYTES_UNDER_WAY = 32 << 20
# How large an answer is thought to be before the first has come.
LIKELY_ANSWER_BYTES = 1 << 20
READ_BYTES = 128 << 10
# The budget of all connections hears of changes from this size on: those of small requests even out.
LEAST_CHANGE_BYTES = 1 << 10
# Answers are written when there are so many, even in the middle of a turn.
SEND_BYTES = 1 << 20
# An answer of this size gains nothing by being sent with others.
LARGE_BYTES = 64 << 10


@implementer(IPushProducer, IHalfCloseableProtocol)
class Connection(Protocol):
    """See the module. `server` knows what all connections share."""

    transport: Transport  # type: ignore[assignment]  # as zope's interface it is no type

    def __init__(self, server: KestrelServer, peer: Address, dialect: Dialect) -> None:
        self._server = server
        self.shared = server.shared
        self.session = Session()
        self.peer = peer
        self._dialect = dialect
        self._reader = dialect.new_reader(server.shared)
        self._plan_of = dialect.plan_of
        # Where clients have to say who they are, see login.py.
        self.gate: LoginGate | None = None
        self.is_stranger = False
        self._login_deadline: Timer | None = None
        # Those under way, all of one kind; and the request that waits for them.
        self._slots: deque[Serving] = deque()
        self._kind = Kind.ALONE
        self._kept: Any = None
        self._kept_bytes = 0
        # Answers that are to be written next.
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._largest_answer_bytes = LIKELY_ANSWER_BYTES
        self._bytes_under_way = self._held_bytes = 0
        self._sender = Sender(self._note_unread)
        self._is_serving = False
        self._is_due = False
        # There are requests that may not be served yet.
        self._is_blocked = False
        self._is_read_from = True
        # The client sends no more. What it has sent is still served.
        self._has_sent_all = False
        # No more is served; then, no more is done at all.
        self._is_ending = self._is_over = False
        self._has_reported = False
        # For the server's sweep: when something last arrived, and when its request began.
        self.active_at_s = self.request_since_s = 0.0

    @property
    def is_within_a_request(self) -> bool:
        """Whether a request has begun whose rest has not arrived."""
        return not self._is_blocked and self._reader.is_within_a_request

    @property
    def held_bytes(self) -> int:
        return self._reader.held_bytes

    @property
    def unread_bytes(self) -> int:
        return self._sender.unread_bytes

    @property
    def is_unread(self) -> bool:
        """The client does not read its answers."""
        return self._sender.is_paused

    @property
    def is_busy(self) -> bool:
        """An answer is owed, or items are lent: then the client is not idle."""
        return bool(self._slots) or self.session.has_open_reads

    @property
    def is_paused(self) -> bool:
        """Nothing is read, so that the client cannot be blamed for silence."""
        return not self._is_read_from

    @property
    def is_reading(self) -> bool:
        return not self.is_unread and not self._out

    @property
    def is_leaving(self) -> bool:
        """Only what was written has to be read by the client."""
        return self._is_over

    # --- Twisted's side -----------------------------------------------------------------------------

    def connectionMade(self) -> None:
        self.transport.setTcpNoDelay(True)
        self.transport.bufferSize = READ_BYTES
        self._sender.begin(self.transport)
        self.transport.registerProducer(self, True)
        self._server.connected(self)
        if self.gate is not None:
            self._login_deadline = self.gate.watch(self)

    def begin_as_stranger(self, plan_of: Callable[[Any], Plan], max_item_bytes: int, gate: LoginGate) -> None:
        """Requests are served as `plan_of` says, until it is let in."""
        self._plan_of, self.gate, self.is_stranger = plan_of, gate, True
        self._reader = self._dialect.new_reader(
            self.shared, lambda limit: min(limit, max_item_bytes) if self.is_stranger else limit
        )

    def let_in(self) -> None:
        self._plan_of, self.is_stranger = self._dialect.plan_of, False
        self._end_login_deadline()

    def _end_login_deadline(self) -> None:
        if self._login_deadline is not None and self._login_deadline.active():
            self._login_deadline.cancel()
        self._login_deadline = None

    def dataReceived(self, data: bytes) -> None:
        if self._is_ending:
            return
        self.active_at_s = self.shared.seconds()
        if not self._reader.is_within_a_request:
            self.request_since_s = self.active_at_s
        self.shared.counters.bytes_read += len(data)
        self._reader.feed(data)
        self.go_on()

    def readConnectionLost(self) -> None:
        """The client sends no more, and perhaps still reads. What is here is served, above all noreply sets,
        of which it hears nothing. But it waits no more for items: it may be gone."""
        self._has_sent_all = True
        for serving in list(self._slots):
            serving.evict()
        self.go_on()

    def writeConnectionLost(self) -> None:
        """Only of a connection that this end has closed by half, which is never done."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._is_ending = self._is_over = True
        self._end_login_deadline()
        slots, self._slots = self._slots, deque()
        # Before its open reads go back, or they would go to one of its own waiters.
        for serving in slots:
            serving.lose()
            if serving.answer is not None:
                serving.answer = b""  # nobody reads it, and it may be large
        self._out.clear()
        self.shared.queues.end(self.session)
        self._kept = None
        self._server.disconnected(self)
        self._server.budget.change(-self._held_bytes)
        self._held_bytes = 0
        self._sender.clear()

    def close(self, reason: str) -> None:
        """Without a word; the log says why."""
        self._server.notes.tell_end(self.peer, reason)
        self._is_ending = self._is_over = True
        self._sender.clear()
        self.transport.abortConnection()

    def drain(self) -> None:
        """Serve no more, and close as soon as all is answered that is under way."""
        self._is_ending = True
        for serving in list(self._slots):
            serving.evict()
        self.go_on()

    # --- the requests -------------------------------------------------------------------------------

    def go_on(self) -> None:
        """Serve what is here as far as there is room, then read on, or pause. The server calls it too."""
        if self._is_serving or self._is_over:
            return
        self._is_serving = True
        try:
            self._serve_what_may_be()
        finally:
            self._is_serving = False
        self._send()
        if self.is_leaving:
            return
        if self._kind is Kind.ALONE and self._slots:
            self._slots[0].resume()
        self._account()
        if self._has_sent_all:
            self._close_if_all_is_served()
        elif self._is_blocked or not self._is_read_from or self._server.budget.is_full:
            self._read_or_pause()

    def _close_if_all_is_served(self) -> None:
        if not self._slots and not self._is_blocked and not self._is_ending:
            self._is_ending = True
            self._send()

    def _serve_what_may_be(self) -> None:
        slots, next_request, plan_of = self._slots, self._reader.next_request, self._plan_of
        self._is_blocked = True
        while self._has_room():
            request, self._kept = self._kept, None
            if request is None and (request := next_request()) is None:
                self._is_blocked = False
                return
            self.request_since_s = self.active_at_s
            kind, serving_class = plan_of(request)
            if slots and self._must_wait(kind, request):
                self._kept, self._kept_bytes = request, serving_class.size_of(request)
                return
            self._kind = kind
            serving = serving_class(self)
            slots.append(serving)
            try:
                serving.serve(request)
            except Exception as error:
                self._refuse(serving, error)
            self._bytes_under_way += serving.size_bytes
            if self._has_sent_all and serving.is_waiting:
                serving.evict()
            if slots[0].answer is not None:
                self._collect()

    def _has_room(self) -> bool:
        if self._out_bytes >= SEND_BYTES:
            self._send()
        return not (
            self.is_unread
            or self._is_ending
            or len(self._slots) >= MAX_REQUESTS_UNDER_WAY
            or self._bytes_under_way >= MAX_BYTES_UNDER_WAY
        )

    def _must_wait(self, kind: Kind, request: Any) -> bool:
        """For the answers of those under way."""
        if kind is not self._kind or kind is Kind.ALONE:
            return True
        if kind is Kind.SETS or kind is Kind.CLOSES:
            return False
        under_way = len(self._slots)
        if self._slots[-1].is_waiting or under_way * self._largest_answer_bytes >= MAX_BYTES_UNDER_WAY:
            return True
        # Those under way may not be counted as open yet.
        most = self.shared.config.kestrel_max_open_transactions
        return kind is Kind.OPENS and self.session.open_count(request.queue) + under_way >= most

    def _refuse(self, serving: Serving, error: Exception) -> None:
        if isinstance(error, BadQueueName):
            serving.refuse_name(error)
        else:
            serving.is_last = not isinstance(error, BarbicelError)
            serving.fail(error)

    def report(self, error: BaseException) -> None:
        """Once a connection: a client repeats what it does wrong, and a full disk stays full."""
        if self._has_reported:
            return
        self._has_reported = True
        is_ours = not isinstance(error, BarbicelError)
        _log.log(
            logging.ERROR if is_ours else logging.WARNING,
            "a request of %s:%d failed: %s",
            *self.peer,
            error,
            exc_info=error if is_ours else None,
        )

    # --- the answers --------------------------------------------------------------------------------

    def answered(self, serving: Serving) -> None:
        if self._is_over:
            serving.answer = b""  # nobody reads it, and it may be large
            return
        if serving.is_last:
            self._is_ending = True
        if self._slots and self._slots[0] is serving:
            if not self._is_serving and serving.answer is not None and len(serving.answer) >= LARGE_BYTES:
                # At once: those of a turn, to many clients, would be too much to hold together.
                self._collect()
                self._send()
            self._flush_soon()

    def send_part(self, data: bytes) -> None:
        if not self._is_over:
            self._out.append(data)
            self._out_bytes += len(data)
            self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._is_due and not self._is_serving:
            self._is_due = True
            self._server.flush_soon(self)

    def flush(self) -> None:
        """The turn is over: send what it has brought."""
        self._is_due = False
        if self._is_over:
            return
        self._collect()
        is_plain = self._is_read_from and not self._has_sent_all
        if self._is_blocked or self._is_ending or self._kind is Kind.ALONE or not is_plain:
            self.go_on()
        else:  # there is nothing else to do, as for most clients
            self._send()
            self._account()

    def _collect(self) -> None:
        """Take the answers that nothing before them holds up."""
        slots, out = self._slots, self._out
        largest = 0
        while slots and (answer := slots[0].answer) is not None:
            serving = slots.popleft()
            self._bytes_under_way -= serving.size_bytes
            out.append(answer)
            size = len(answer)
            if size >= LARGE_BYTES:
                # It and the waiter that calls it have each other, and would be found with this much later.
                serving.answer = b""
            self._out_bytes += size
            if size > largest:
                largest = size
        # Halved, so that one large item does not count for ever.
        self._largest_answer_bytes = max(largest, self._largest_answer_bytes >> 1)

    def _send(self) -> None:
        if self._out:
            self.shared.counters.bytes_written += self._out_bytes
            self._sender.put(self._out)
            self._out.clear()
            self._out_bytes = 0
            self._sender.write()
        if self._is_ending and not self._slots and not self._sender and not self._is_over:
            self._is_over = True
            self.transport.unregisterProducer()
            self.transport.loseConnection()

    def _note_unread(self, grown_bytes: int) -> None:
        if grown_bytes:
            self._server.unread.change(self, grown_bytes)

    # --- back-pressure ------------------------------------------------------------------------------

    def _account(self) -> None:
        kept_bytes = 0 if self._kept is None else self._kept_bytes
        held_bytes = self._reader.held_bytes + self._bytes_under_way + kept_bytes
        change = held_bytes - self._held_bytes
        if change and (change >= LEAST_CHANGE_BYTES or change <= -LEAST_CHANGE_BYTES or not held_bytes):
            self._held_bytes = held_bytes
            self._server.budget.change(change)

    def _may_read(self) -> bool:
        if self.is_unread or self._is_ending:
            return False
        # A little is read ahead, or reading would stop and go with every run of requests.
        is_kept_back = self._is_blocked and self._reader.held_bytes >= READ_BYTES
        return not is_kept_back and self._server.budget.may_read(self)

    def _read_or_pause(self) -> None:
        if self._has_sent_all:
            return
        may_read = self._may_read()
        if may_read and not self._is_read_from:
            self._is_read_from = True
            self.active_at_s = self.request_since_s = self.shared.seconds()
            self.transport.resumeProducing()
        elif self._is_read_from and not may_read:
            self._is_read_from = False
            self.transport.pauseProducing()

    def pauseProducing(self) -> None:
        """The client does not read its answers."""
        self._sender.is_paused = True
        if not self._is_over:
            self._read_or_pause()

    def resumeProducing(self) -> None:
        """It has read them all."""
        self.active_at_s = self.shared.seconds()
        self._sender.resume()
        self.go_on()

    def stopProducing(self) -> None:
        """The connection is lost; connectionLost follows."""
