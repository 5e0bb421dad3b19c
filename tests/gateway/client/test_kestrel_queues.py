"""Kestrel's protocol from the client's side: strange servers, logins, and where no password may go."""

from __future__ import annotations

import socket
from pathlib import Path
from threading import Thread

import pytest

from barbicel.gateway.client import kestrel_queues
from barbicel.gateway.client.connecting import NoServer, ServerRefused
from barbicel.gateway.client.kestrel_queues import KestrelServer, Queues, number_of
from tests.support.gateway import running_gateway

LOGIN = {"sasl_plain_username": "alice", "sasl_plain_password": "secret"}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"VALUE q 0 99999999999\r\n", ServerRefused),  # nothing of that size is waited for, or allocated
        (b"VALUE q 0 -1\r\n", ServerRefused),
        (b"VALUE q 0 5\r\nab", NoServer),
        (b"SERVER_ERROR no\r\n", ServerRefused),
        (b"", NoServer),
    ],
)
def test_a_strange_server_is_told_of(answer: bytes, error: type[Exception]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = KestrelServer("127.0.0.1", listener.getsockname()[1], {})

        def ask() -> None:
            with server.connected() as queues, pytest.raises(error):
                queues.peek("q")

        _answer_once(listener, b"VERSION 1\r\n" + answer, ask)


def test_a_login_is_memcacheds() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        settings = {"sasl_plain_username": "alice", "sasl_plain_password": "pässword"}
        server = KestrelServer("127.0.0.1", listener.getsockname()[1], settings)
        heard = _answer_once(listener, b"STORED\r\nEND\r\n", lambda: _peek(server))
    assert heard == "set barbicel.login 0 0 15\r\nalice pässword\r\nget q/peek\r\n".encode()


def _peek(server: KestrelServer) -> None:
    with server.connected() as queues:
        assert queues.peek("q") is None


def _answer_once(listener: socket.socket, answer: bytes, ask: object) -> bytes:
    """What was heard of one connection, which is answered at once."""
    heard: list[bytes] = []

    def serve() -> None:
        other, _ = listener.accept()
        with other:
            other.sendall(answer)
            other.shutdown(socket.SHUT_WR)
            while data := other.recv(4096):
                heard.append(data)

    thread = Thread(target=serve)
    thread.start()
    assert callable(ask)
    ask()
    thread.join(10)
    return b"".join(heard)


def test_a_server_that_wants_no_login_does_not_store_the_password(tmp_path: Path) -> None:
    with running_gateway(tmp_path) as gateway:
        server = KestrelServer(gateway.host, gateway.kestrel_port, LOGIN)
        with server.connected() as queues:
            queues.make("jobs")
            assert queues.names() == ["jobs"]


def test_no_password_goes_to_another_machine_in_clear_text(monkeypatch: pytest.MonkeyPatch) -> None:
    class Elsewhere(socket.socket):
        def getpeername(self) -> tuple[str, int]:
            return "192.0.2.7", 22133

    ours, other = socket.socketpair()
    elsewhere = Elsewhere(fileno=ours.detach())
    monkeypatch.setattr(socket, "create_connection", lambda *_: elsewhere)
    other.sendall(b"CLIENT_ERROR unauthenticated\r\n")
    with other:
        with pytest.raises(ServerRefused, match="wants a login .*without TLS"):
            KestrelServer("gateway", 22133, LOGIN).connect()
        assert other.recv(100) == b"version\r\n"


def test_no_item_goes_to_a_server_that_wants_a_login() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = KestrelServer("127.0.0.1", listener.getsockname()[1], {})

        def ask() -> None:
            with pytest.raises(ServerRefused, match="wants a login"), server.connected() as queues:
                queues.put("q", b"me secret", 0)

        assert _answer_once(listener, b"CLIENT_ERROR unauthenticated\r\n", ask) == b"version\r\n"


@pytest.mark.parametrize("line", [b"QUEUE q\r\n", b"\r\n", b"q" * 100])
def test_an_answer_without_end_is_refused(monkeypatch: pytest.MonkeyPatch, line: bytes) -> None:
    monkeypatch.setattr(kestrel_queues, "MAX_LINES_BYTES", 5000)
    monkeypatch.setattr(kestrel_queues, "MAX_LINE_BYTES", 3000)
    ours, other = socket.socketpair()
    with other, Queues(ours, "here") as queues:
        other.sendall(line * (6000 // len(line)))
        with pytest.raises(ServerRefused, match="too long"):
            queues.names()


def test_an_item_is_passed_over_where_a_queue_is_made() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = KestrelServer("127.0.0.1", listener.getsockname()[1], {})
        answer = b"VERSION 1\r\nVALUE q 0 100000\r\n%b\r\nEND\r\nVERSION 1\r\n" % bytes(100_000)

        def ask() -> None:
            with server.connected() as queues:
                queues.make("q")
                queues.greet()

        assert _answer_once(listener, answer, ask) == b"version\r\nget q/peek\r\nversion\r\n"


@pytest.mark.parametrize("text", ["many", "", "1.5", "9" * 5000, "\xb2"])
def test_numbers_that_are_none_are_refused(text: str) -> None:
    assert number_of({"items": "-5"}, "items") == -5
    assert number_of({}, "items") == 0
    with pytest.raises(ServerRefused, match="items is .* no number"):
        number_of({"items": text}, "items")
