"""The sending side of a connection: what its client has yet to read, and how much that is.

The transport gets a little at a time, and the next when it has sent that. Where the bytes go to the kernel as
they are, it takes them from where they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barbicel.disk import Bytes
from barbicel.gateway.event_loop import Sending, sending
from barbicel.gateway.outbox import Outbox
from barbicel.gateway.twisted_types import Transport

__all__ = ["Sender"]

# More than the 1 MiB that most clients ask for with what stands around it, which would come in two turns
# otherwise.
SEND_BYTES = 5 << 18


class Sender:
    """`begin` it when the connection is up. `note` is told by how much what is unread grows, or shrinks."""

    __slots__ = (
        "_note",
        "_outbox",
        "_send",
        "_sending_bytes",
        "_transport",
        "is_paused",
        "sent_bytes",
        "unread_bytes",
    )

    def __init__(self, note: Callable[[int], None]) -> None:
        self._note = note
        self._outbox = Outbox()
        self._transport: Transport | None = None
        self._send: Sending | None = None
        # What the transport has of what is unread.
        self._sending_bytes = 0
        # Of answers: what the kernel, or TLS, has taken in all, and what it has not.
        self.sent_bytes = 0
        self.unread_bytes = 0
        # The client does not read its answers.
        self.is_paused = False

    def __bool__(self) -> bool:
        """Whether something waits for its turn."""
        return self._outbox.size_bytes > 0

    def begin(self, transport: Transport) -> None:
        transport.SEND_LIMIT = SEND_BYTES
        self._transport, self._send = transport, sending(transport)

    def put(self, answer: Sequence[Bytes]) -> None:
        self._outbox.put(answer)

    def write(self) -> None:
        """As much as the transport takes; what is left is written when it has sent that."""
        outbox = self._outbox
        while outbox.size_bytes and not self.is_paused:
            pieces = outbox.front(SEND_BYTES)
            sent_bytes = self._write_joined(pieces) if self._send is None else self._send(pieces)
            self.sent_bytes += sent_bytes
            outbox.drop(sent_bytes)
        if self.is_paused or self.unread_bytes:
            self._hold(self._outbox.size_bytes + self._sending_bytes)

    def _write_joined(self, pieces: Sequence[Bytes]) -> int:
        """With TLS."""
        assert self._transport is not None
        data = b"".join(pieces)
        # Whatever the kernel does not take at once is unread, and counts.
        buffer_bytes, self._transport.bufferSize = self._transport.bufferSize, 0
        self._transport.write(data)
        self._transport.bufferSize = buffer_bytes
        self._sending_bytes = len(data) if self.is_paused else 0
        return len(data)

    def resume(self) -> None:
        """The client has read what it was sent."""
        self.is_paused = False
        self._sending_bytes = 0
        self.write()

    def clear(self) -> None:
        self._outbox.clear()
        self._sending_bytes = 0
        self._hold(0)

    def _hold(self, size: int) -> None:
        grown_bytes, self.unread_bytes = size - self.unread_bytes, size
        self._note(grown_bytes)
