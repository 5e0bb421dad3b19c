"""Sending without a socket: what a transport holds back counts as unread, and follows when there is room."""

from __future__ import annotations

from typing import Any, cast

from barbicel.gateway.sender import Sender


class Joining:
    """A transport that takes bytes, as with TLS, and has its producer pause when it cannot send them."""

    SEND_LIMIT = 0
    bufferSize = 1 << 16  # noqa: N815 - Twisted's name

    def __init__(self) -> None:
        self.sender = Sender(self._note)
        self.sender.begin(cast(Any, self))
        self.data = b""
        self.is_full = False
        self.unread_bytes = 0

    def _note(self, grown_bytes: int) -> None:
        self.unread_bytes += grown_bytes

    def write(self, data: bytes) -> None:
        assert self.bufferSize == 0
        self.data += data
        self.sender.is_paused = self.is_full


def test_answers_are_sent_in_order_and_nothing_is_unread() -> None:
    transport = Joining()
    transport.sender.put([b"one, ", memoryview(b"two")])
    transport.sender.write()
    assert transport.data == b"one, two"
    assert (transport.unread_bytes, transport.sender.unread_bytes, bool(transport.sender)) == (0, 0, False)
    assert transport.bufferSize == 1 << 16


def test_what_the_transport_and_the_sender_hold_is_unread() -> None:
    transport = Joining()
    transport.is_full = True
    transport.sender.put([b"first"])
    transport.sender.write()
    transport.sender.put([b"second"])
    transport.sender.write()
    assert transport.data == b"first"
    assert transport.unread_bytes == transport.sender.unread_bytes == len(b"firstsecond")
    transport.is_full = False
    transport.sender.resume()
    assert transport.data == b"firstsecond"
    assert transport.unread_bytes == 0


def test_nothing_is_unread_of_a_client_that_is_gone() -> None:
    transport = Joining()
    transport.is_full = True
    transport.sender.put([b"first"])
    transport.sender.write()
    transport.sender.clear()
    assert (transport.unread_bytes, bool(transport.sender)) == (0, False)
