"""A running server by Kestrel's memcache protocol: one connection that waits for each answer.

An item's length is told before it comes, by a server that is not trusted more than any other peer: what is
longer than any item may be is refused, and not read. Nor are lines without end.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any, NamedTuple

from barbicel.closing import Closing
from barbicel.gateway.client.answers import Answers, seconds_for
from barbicel.gateway.client.connecting import ServerRefused, address_text, breaking, connect

__all__ = ["KestrelServer", "Queues", "number_of"]

MAX_LINE_BYTES = 1 << 20
MAX_ITEM_BYTES = 1 << 30
# Of an answer of many lines that are kept: more than a hundred thousand queues need.
MAX_LINES_BYTES = 64 << 20
# Of one whose lines are passed over.
MAX_PASSED_BYTES = 1 << 30
# No queue can be called so. A server that wants no login refuses it, and does not store the password.
LOGIN_KEY = "barbicel.login"
CLUSTER_ID = "STAT cluster_id "
LOGIN_REFUSED = "CLIENT_ERROR authentication failure"
LOGIN_WANTED = "CLIENT_ERROR unauthenticated"
_NUMBER = re.compile(r"-?[0-9]{1,20}", re.ASCII)
_HINT = (
    "does it run, is kestrel.enable on? --kestrel says where it is, --client-config whether it wants TLS or a"
    " login"
)
_LOGIN_HINT = "see --client-config; to another machine no password goes without TLS"


def number_of(stats: Mapping[str, str], name: str) -> int:
    """One of a queue's numbers; 0 if the server does not tell it. Raises ServerRefused."""
    text = stats.get(name, "0")
    if not _NUMBER.fullmatch(text):
        raise ServerRefused(f"the server says that {name} is {text[:100]!r}, which is no number")
    return int(text)


class KestrelServer(NamedTuple):
    """Where it is, and how to log in there."""

    host: str
    port: int
    settings: Mapping[str, Any]

    @property
    def address(self) -> str:
        return address_text(self.host, self.port)

    @contextmanager
    def connected(self) -> Iterator[Queues]:
        """As connect, for a while."""
        with self.connect() as queues:
            yield queues

    def connect(self) -> Queues:
        """On return it is one that answers, and serves this client. Raises NoServer, ServerRefused,
        BadClientConfig."""
        user, password = (self.settings.get(f"sasl_plain_{one}", "") for one in ("username", "password"))
        queues = self._connect()
        try:
            # Kafka's SCRAM keeps a password from those who listen; this login does not.
            if user and queues.is_private:
                if queues.log_in(user, password):
                    return queues
                # It has refused a strange name, and hangs up on those who use such.
                queues.close()
                queues = self._connect()
            # A server that wants a login takes the first `set` for one: no item may be that.
            queues.greet()
        except BaseException:
            queues.close()
            raise
        return queues

    def _connect(self) -> Queues:
        return Queues(connect(self.host, self.port, self.settings, _HINT, "Kestrel"), self.address)


class Queues(Closing):
    """Raises NoServer if the connection breaks, and ServerRefused for answers that are no answer."""

    def __init__(self, connection: socket.socket, address: str) -> None:
        self._socket = connection
        self._address = address
        self._answers = Answers(connection)

    def close(self) -> None:
        self._socket.close()

    @property
    def is_private(self) -> bool:
        """Nobody on the way can read it."""
        if isinstance(self._socket, ssl.SSLSocket):
            return True
        with breaking(self._address, _HINT):
            return ip_address(self._socket.getpeername()[0]).is_loopback

    def log_in(self, user: str, password: str) -> bool:
        """As memcached has it with -Y: a set, whose value says who it is. False if the server does not want
        to know. Raises ServerRefused."""
        answer = self._store(LOGIN_KEY, f"{user} {password}".encode(), 0)
        if answer == LOGIN_REFUSED:
            what = "the login was refused on the Kestrel port"
            raise ServerRefused(what, path=self._address, hint=_LOGIN_HINT)
        return answer == "STORED"

    def greet(self) -> None:
        """On return it is one that answers."""
        self._send(b"version\r\n")
        answer = self._line()
        if not answer.startswith("VERSION"):
            raise ServerRefused(f"{answer[:100]!r} is no answer", path=self._address)

    def cluster_id(self) -> str | None:
        """What the server's Kafka side calls itself; None of one that has none, as Kestrel."""
        self._send(b"stats\r\n")
        found = None
        for line in self._lines(MAX_PASSED_BYTES):
            if line.startswith(CLUSTER_ID):
                found = line.removeprefix(CLUSTER_ID)
        return found

    def names(self) -> list[str]:
        self._send(b"list_queues\r\n")
        return [line.partition(" ")[2] for line in self._lines(MAX_LINES_BYTES)]

    def stats(self, *names: str) -> dict[str, dict[str, str]]:
        """Of the queues that are named, or of all."""
        self._send(" ".join(("dump_stats", *names)).encode("latin-1") + b"\r\n")
        found: dict[str, dict[str, str]] = {}
        current: dict[str, str] = {}
        for line in self._lines(MAX_LINES_BYTES):
            if line.startswith("queue '"):
                current = found.setdefault(line[len("queue '") : line.rindex("'")], {})
            elif "=" in line:
                name, _, value = line.strip().partition("=")
                current[name] = value
        return found

    def put(self, name: str, data: bytes, expiry_s: int) -> None:
        answer = self._store(name, data, expiry_s)
        if answer == "NOT_STORED":
            raise ServerRefused(
                f"queue {name}: not stored", path=self._address, hint="it is full, or the item is too large"
            )
        self._expect(answer, "STORED", name)

    def _store(self, name: str, data: bytes, expiry_s: int) -> str:
        head = f"set {name} 0 {expiry_s} {len(data)}\r\n".encode("latin-1")
        self._send(b"%b%b\r\n" % (head, data))
        return self._line()

    def open_item(self, name: str, wait_ms: int) -> bytes | None:
        """The item is handed out again unless it is closed on this connection."""
        return self._get(f"{name}/t={wait_ms}/open" if wait_ms else f"{name}/open", wait_ms)

    def close_item(self, name: str) -> None:
        self._get(f"{name}/close")

    def peek(self, name: str) -> bytes | None:
        return self._get(f"{name}/peek")

    def make(self, name: str) -> None:
        """On return there is a queue of this name. Of its first item nothing is kept, however large it is."""
        size = self._begin_get(f"{name}/peek")
        if size is not None:
            for _ in self._pieces(size + len("\r\n")):
                pass
            self._expect(self._line(), "END", name)

    def flush(self, name: str) -> None:
        self._send(f"flush {name}\r\n".encode("latin-1"))
        self._expect(self._line(), "END", name)

    def delete(self, name: str) -> None:
        self._send(f"delete {name}\r\n".encode("latin-1"))
        self._expect(self._line(), "DELETED", name)

    # --- the wire -----------------------------------------------------------------------------------

    def _get(self, key: str, wait_ms: int = 0) -> bytes | None:
        size = self._begin_get(key, wait_ms)
        if size is None:
            return None
        data = b"".join(self._pieces(size + len("\r\n")))[:-2]
        self._expect(self._line(), "END", key)
        return data

    def _begin_get(self, key: str, wait_ms: int = 0) -> int | None:
        """How large the item is that comes now."""
        self._send(f"get {key}\r\n".encode("latin-1"), wait_ms)
        answer = self._line()
        if not answer.startswith("VALUE "):
            self._expect(answer, "END", key.partition("/")[0])
            return None
        length = answer.rpartition(" ")[2]
        if not length.isdecimal() or int(length) > MAX_ITEM_BYTES:
            raise ServerRefused(f"{answer[:100]!r} is no answer", path=self._address)
        return int(length)

    def _expect(self, answer: str, wanted: str, name: str) -> None:
        if answer != wanted:
            raise ServerRefused(
                f"queue {name}: the server answered {answer[:200]}",
                path=self._address,
                hint="the server's log says why",
            )

    def _lines(self, limit_bytes: int) -> Iterator[str]:
        while (line := self._line()) != "END":
            limit_bytes -= len(line) + len("\r\n")
            if limit_bytes < 0:
                raise ServerRefused("its answer is too long", path=self._address)
            if line.startswith(("ERROR", "CLIENT_ERROR", "SERVER_ERROR")):
                raise ServerRefused(f"the server answered {line[:200]}", path=self._address)
            yield line

    def _send(self, data: bytes, wait_ms: int = 0) -> None:
        with breaking(self._address, _HINT):
            self._socket.settimeout(seconds_for(len(data)))
            self._socket.sendall(data)
            self._answers.begin(wait_ms / 1000)

    def _line(self) -> str:
        with breaking(self._address, _HINT):
            line = self._answers.line(MAX_LINE_BYTES)
        if not line.endswith(b"\n"):
            raise ServerRefused("its answer is too long", path=self._address)
        text = line.rstrip(b"\r\n").decode("latin-1")
        if text == LOGIN_WANTED:
            raise ServerRefused("the Kestrel port wants a login", path=self._address, hint=_LOGIN_HINT)
        return text

    def _pieces(self, size: int) -> Iterator[bytes]:
        with breaking(self._address, _HINT):
            yield from self._answers.pieces(size)
