"""Answers straight into the socket, as far as the kernel takes them at once.

Twisted's own write waits for the reactor to say that the socket is writable, which takes two system calls
and another dispatch for every answer: for small answers that is more than everything else together. What the
kernel does not take at once goes that way, with its back-pressure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.tcp import Connection as TcpConnection

__all__ = ["writing_to"]


def writing_to(transport: Any) -> Callable[[bytes], None]:
    """How to write to a transport."""
    if isinstance(transport, TcpConnection) and not transport.TLS:
        return _StraightWrite(transport).write
    write: Callable[[bytes], None] = transport.write
    return write


class _StraightWrite:
    __slots__ = ("_send", "_transport")

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._send = transport.getHandle().send

    def write(self, data: bytes) -> None:
        transport = self._transport
        # What is buffered comes first. There is no public way to ask for it.
        if transport.dataBuffer or transport._tempDataBuffer or not transport.connected:
            transport.write(data)
            return
        try:
            sent = self._send(data)
        except OSError:
            # The kernel's buffer is full, or the connection is gone, which the transport finds out.
            sent = 0
        if sent < len(data):
            transport.write(data[sent:] if sent else data)
