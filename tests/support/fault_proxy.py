"""A proxy in front of an HTTP server, which lets requests fail as networks and servers do.

    with FaultProxy(server.port) as proxy:
        proxy.fail(Fault.DROP_ANSWER, method="PUT", path="segment-")
        store = open_store(url, disk=disk, options={**server.options, "endpoint": proxy.endpoint})

A rule strikes the requests whose method is its method and whose path (with the query) contains its text,
`times` of them once `after` of them went well, -1 for all. The first rule that strikes rules. `requests` are
all that came, in order. Everything is forwarded as it is, signatures hold; a header that is stripped breaks
one, unless the server takes anonymous requests.
"""

from __future__ import annotations

import http.client
import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import NamedTuple, Self

__all__ = ["Fault", "FaultProxy", "Request"]

HOST = "127.0.0.1"
UPSTREAM_SECONDS = 60
CONDITIONS = ("if-match", "if-none-match")
# Told by the proxy itself, or of one connection only.
HOP_HEADERS = frozenset({"connection", "content-length", "keep-alive", "transfer-encoding"})


class Fault(Enum):
    """What becomes of a request."""

    DROP_ANSWER = "it is done, and the connection closed before the answer"
    HANG = "it is done, and no answer comes until the proxy is closed"
    RESET = "the connection is reset, nothing was done"
    UNAVAILABLE = "503, nothing was done"
    DONE_BUT_UNAVAILABLE = "it is done, and the answer is 503"
    TRUNCATE = "half of the body comes, then the connection is closed"
    STALL = "half of the body comes, then nothing until the proxy is closed"
    FLIP = "one bit in the middle of the body is another"
    IGNORE_CONDITIONS = "If-Match and If-None-Match do not reach the server"


class Request(NamedTuple):
    method: str
    path: str


class _Answer(NamedTuple):
    status: int
    headers: list[tuple[str, str]]
    body: bytes


@dataclass
class _Rule:
    fault: Fault
    method: str
    path: str
    times: int
    after: int

    def strikes(self, request: Request) -> bool:
        if self.method not in ("", request.method) or self.path not in request.path or self.times == 0:
            return False
        if self.after > 0:
            self.after -= 1
            return False
        self.times -= 1
        return True


class FaultProxy:
    """Serves from its first moment until it is closed, a thread a connection."""

    def __init__(self, upstream_port: int) -> None:
        self.requests: list[Request] = []
        # Those that the server has answered, whether or not its client heard of it.
        self.forwarded: list[Request] = []
        self.closing = threading.Event()
        self._upstream_port = upstream_port
        self._rules: list[_Rule] = []
        self._mutex = threading.Lock()
        self._server = _Server((HOST, 0), _Exchange)
        self._server.proxy = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"

    def fail(self, fault: Fault, *, method: str = "", path: str = "", times: int = 1, after: int = 0) -> None:
        with self._mutex:
            self._rules.append(_Rule(fault, method, path, times, after))

    def heal(self) -> None:
        """Forget all rules."""
        with self._mutex:
            self._rules.clear()

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    # For its connections.

    def fault_for(self, request: Request) -> Fault | None:
        with self._mutex:
            self.requests.append(request)
            return next((rule.fault for rule in self._rules if rule.strikes(request)), None)

    def forward(self, request: Request, headers: list[tuple[str, str]], body: bytes) -> _Answer:
        connection = http.client.HTTPConnection(HOST, self._upstream_port, timeout=UPSTREAM_SECONDS)
        try:
            connection.putrequest(*request, skip_host=True, skip_accept_encoding=True)
            for name, value in headers:
                connection.putheader(name, value)
            connection.endheaders(body or None)
            answer = connection.getresponse()
            body_of_answer = answer.read()
            with self._mutex:
                self.forwarded.append(request)
            return _Answer(answer.status, answer.getheaders(), body_of_answer)
        finally:
            connection.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    proxy: FaultProxy


class _Exchange(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class has that name
        pass

    def handle(self) -> None:
        with suppress(OSError):  # clients may go at any time
            super().handle()

    def exchange(self) -> None:
        request = Request(self.command, self.path)
        headers = self.headers.items()
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        fault = self.server.proxy.fault_for(request)
        if fault is Fault.IGNORE_CONDITIONS:
            headers = [(name, value) for name, value in headers if name.lower() not in CONDITIONS]
        if fault is Fault.RESET:
            self._reset()
        elif fault is Fault.UNAVAILABLE:
            self._answer(_UNAVAILABLE)
        else:
            self._answer_with(fault, self.server.proxy.forward(request, headers, body))

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = exchange  # noqa: N815 - the base class looks for these

    def _answer_with(self, fault: Fault | None, answer: _Answer) -> None:
        body = answer.body
        match fault:
            case Fault.DROP_ANSWER:
                self.close_connection = True
            case Fault.HANG:
                self.server.proxy.closing.wait()
                self.close_connection = True
            case Fault.DONE_BUT_UNAVAILABLE:
                self._answer(_UNAVAILABLE)
            case Fault.TRUNCATE:
                self._answer(answer, body[: len(body) // 2])
                self.close_connection = True
            case Fault.STALL:
                self._answer(answer, body[: len(body) // 2])
                self.server.proxy.closing.wait()
                self.close_connection = True
            case Fault.FLIP:
                middle = len(body) // 2
                self._answer(answer, body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1 :])
            case _:
                self._answer(answer)

    def _answer(self, answer: _Answer, body: bytes | None = None) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.headers:
            if name.lower() not in HOP_HEADERS:
                self.send_header(name, value)
        length = len(answer.body)
        if self.command == "HEAD":
            length = int(dict(answer.headers).get("Content-Length") or 0)
        if answer.status not in (204, 304):
            self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body if body is None else body)

    def _reset(self) -> None:
        # Lingering for no time means RST instead of FIN.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for side in (self.rfile, self.wfile, self.connection):
            side.close()
        raise ConnectionResetError


_UNAVAILABLE = _Answer(503, [("Content-Type", "application/xml")], b"<Error><Code>SlowDown</Code></Error>")
