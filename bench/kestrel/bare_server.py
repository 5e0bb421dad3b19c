"""The peer: a Twisted protocol that reads sets and gets and answers them, and does nothing else.

`python -m bench.kestrel.bare_server ITEM_BYTES` prints the port that it listens on. Every set is STORED
nowhere; every get brings the same item of that size.
"""

from __future__ import annotations

import sys
from typing import Any

from twisted.internet import reactor as installed
from twisted.internet.protocol import Factory, Protocol

__all__ = ["BareProtocol"]

STORED = b"STORED\r\n"
SET = ord("s")
BACKLOG = 1024


class BareProtocol(Protocol):
    """Well-formed requests only: `set <queue> <flags> <expiry> <bytes>` and `get <queue>`, ended by CRLF."""

    # Twisted's interfaces say less than it has.
    transport: Any

    def __init__(self, item_bytes: int) -> None:
        self._item_bytes = item_bytes
        self._rest = b""
        self._values: dict[bytes, bytes] = {}

    def dataReceived(self, data: bytes) -> None:  # noqa: N802, Twisted's name
        data = self._rest + data
        replies = []
        position = 0
        while (line_end := data.find(b"\r\n", position)) >= 0:
            if data[position] == SET:
                item_bytes = int(data[data.rfind(b" ", position, line_end) + 1 : line_end])
                end = line_end + 2 + item_bytes + 2
                if end > len(data):
                    break
                replies.append(STORED)
            else:
                end = line_end + 2
                replies.append(self._value(data[position + len(b"get ") : line_end]))
            position = end
        self._rest = data[position:]
        if replies:
            self.transport.write(b"".join(replies))

    def _value(self, queue: bytes) -> bytes:
        """Rendered once for a queue."""
        if queue not in self._values:
            head = b"VALUE %b 0 %d\r\n" % (queue, self._item_bytes)
            self._values[queue] = head + b"x" * self._item_bytes + b"\r\nEND\r\n"
        return self._values[queue]


class _BareFactory(Factory):
    noisy = False

    def __init__(self, item_bytes: int) -> None:
        self._item_bytes = item_bytes

    def buildProtocol(self, addr: object) -> BareProtocol:  # noqa: N802, Twisted's name
        return BareProtocol(self._item_bytes)


def main() -> None:
    reactor: Any = installed
    port = reactor.listenTCP(0, _BareFactory(int(sys.argv[1])), BACKLOG, "127.0.0.1")
    print(port.getHost().port, flush=True)
    reactor.run()


if __name__ == "__main__":
    main()
