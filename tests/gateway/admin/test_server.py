"""The listener: who is served, and what it does with requests that mean harm."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from barbicel.config.settings import Config
from barbicel.errors import BarbicelError, OffsetOutOfRange
from barbicel.gateway.admin.connection import REQUEST_SECONDS
from barbicel.gateway.admin.exchange import Answer, Asked, Refusal, as_json, parse_body
from barbicel.gateway.admin.routes import Routes
from barbicel.gateway.admin.server import HEADERS, AdminServer, ShowRefusal
from tests.gateway.admin.http import Operator

TOKEN = "a-token-of-some-length"
PEER: Any = IPv4Address("TCP", "127.0.0.1", 4711)
LOCAL = "Host: localhost:8080\r\n"


async def hello(asked: Asked) -> dict[str, Any]:
    return {"hello": dict(asked.names), "query": dict(asked.query)}


async def change(asked: Asked) -> Answer:
    return Answer(200, "text/plain", repr(parse_body(asked)).encode())


async def wait(asked: Asked) -> Answer:
    never: Deferred[Answer] = Deferred()
    return await never


async def fail_on_purpose(asked: Asked) -> Answer:
    raise {"disk": BarbicelError("no disk"), "range": OffsetOutOfRange(5, 1, 3, "p")}.get(
        asked.names["how"], ZeroDivisionError("a secret")
    )


async def show_refusal(asked: Asked, refusal: Refusal) -> Answer:
    if asked.path == "/fail/page":
        raise OSError("no template")
    return Answer(refusal.status, "text/html", f"<h1>{refusal.message}</h1>".encode())


class Listening:
    """A server without sockets, and clients of it."""

    def __init__(self, show: ShowRefusal | None = None, **settings: Any) -> None:
        routes = Routes()
        routes.add("GET", "/hello/<who>", as_json(hello))
        routes.add("POST", "/change", change)
        routes.add("GET", "/fail/<how>", fail_on_purpose)
        routes.add("GET", "/wait", wait)
        clock: Any = Clock()  # it has no types
        self.clock = clock
        self.server = AdminServer(Config(**settings), clock, routes, TOKEN, show)

    def connect(self) -> Client | None:
        connection = self.server.buildProtocol(PEER)
        return None if connection is None else Client(connection)


class Client:
    def __init__(self, connection: Any) -> None:
        self.connection = connection
        make: Any = StringTransport  # it has no types
        self.transport = make(hostAddress=PEER, peerAddress=PEER)
        self.transport.abortConnection = self.transport.loseConnection
        connection.makeConnection(self.transport)

    def send(self, data: bytes | str) -> str:
        """What came back since the last time."""
        self.connection.dataReceived(data if isinstance(data, bytes) else data.encode())
        answer: str = self.transport.value().decode()
        self.transport.clear()
        return answer

    @property
    def is_gone(self) -> bool:
        return bool(self.transport.disconnecting)


def connect(**settings: Any) -> Client:
    client = Listening(**settings).connect()
    assert client is not None
    return client


def status(answer: str) -> int:
    return int(answer.split(" ", 2)[1])


def test_a_request_is_served_whole_and_byte_by_byte_and_with_another_behind_it() -> None:
    request = f"GET /hello/a%2Fb?x=%C3%A4&y= HTTP/1.1\r\n{LOCAL}\r\n"
    whole = connect().send(request)
    assert whole.endswith('\r\n\r\n{"hello": {"who": "a/b"}, "query": {"x": "\\u00e4", "y": ""}}\n')
    slow = connect()
    assert "".join(slow.send(bytes([byte])) for byte in request.encode()) == whole
    assert connect().send(request * 3) == whole * 3


def test_every_answer_has_the_headers_that_keep_browsers_safe() -> None:
    client = connect()
    for path in ("/hello/you", "/nowhere", "/fail/now"):
        answer = client.send(f"GET {path} HTTP/1.1\r\n{LOCAL}\r\n")
        assert all(f"\r\n{name}: {value}\r\n" in answer for name, value in HEADERS.items())
        assert "unsafe-inline" not in answer


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", 200),
        ("LocalHost:8080", 200),
        ("127.0.0.1:8080", 200),
        ("[::1]:8080", 200),
        ("10.1.2.3", 200),
        ("barbicel.example:80", 200),
        ("[::1]", 200),
        ("[::1]:", 200),
        ("::1", 200),
        ("[::1]evil.example", 421),
        ("[::1]:80evil.example", 421),
        ("[::1", 421),
        ("[]", 421),
        (":80", 421),
        ("localhost:evil", 421),
        ("evil.example", 421),
        ("localhost.evil.example:8080", 421),
        ("127.0.0.1.evil.example", 421),
        ("", 421),
    ],
)
def test_only_known_names_are_answered(host: str, expected: int) -> None:
    client = connect(admin_allowed_hosts=("barbicel.example",))
    assert status(client.send(f"GET /hello/you HTTP/1.1\r\nHost: {host}\r\n\r\n")) == expected


def test_a_request_without_a_host_or_with_two_is_refused() -> None:
    assert status(connect().send("GET /hello/you HTTP/1.1\r\n\r\n")) == 421
    assert status(connect().send(f"GET /hello/you HTTP/1.1\r\n{LOCAL}Host: evil.example\r\n\r\n")) == 421


@pytest.mark.parametrize(
    ("authorization", "expected"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"bearer  {TOKEN}", 200),
        (f"Bearer {TOKEN}x", 401),
        (f"Bearer {TOKEN[:-1]}", 401),
        ("Bearer ", 401),
        (f"Basic {TOKEN}", 401),
        (TOKEN, 401),
        ("Bearer \xff", 401),
    ],
)
def test_a_change_needs_the_token(authorization: str, expected: int) -> None:
    head = f"POST /change HTTP/1.1\r\n{LOCAL}Authorization: {authorization}\r\nContent-Length: 2\r\n\r\n{{}}"
    assert status(connect().send(head.encode("latin-1"))) == expected


def test_no_method_but_reading_goes_without_the_token() -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "get", "X"):
        assert status(connect().send(f"{method} /hello/you HTTP/1.1\r\n{LOCAL}\r\n")) == 401


def test_head_is_get_without_a_body() -> None:
    answer = connect().send(f"HEAD /hello/you HTTP/1.1\r\n{LOCAL}\r\n")
    assert status(answer) == 200
    assert answer.endswith("\r\n\r\n")
    assert "Content-Length: 39\r\n" in answer


def test_errors_have_their_status_and_ours_say_nothing() -> None:
    client = connect()
    assert status(client.send(f"GET /nowhere HTTP/1.1\r\n{LOCAL}\r\n")) == 404
    assert status(client.send(f"GET /change HTTP/1.1\r\n{LOCAL}\r\n")) == 405
    assert status(client.send(f"GET /fail/range HTTP/1.1\r\n{LOCAL}\r\n")) == 404
    assert "503 Service Unavailable" in (answer := client.send(f"GET /fail/disk HTTP/1.1\r\n{LOCAL}\r\n"))
    assert "no disk" in answer
    answer = client.send(f"GET /fail/us HTTP/1.1\r\n{LOCAL}\r\n")
    assert status(answer) == 500
    assert "secret" not in answer


# --- errors for people ----------------------------------------------------------------------------------

HTML = "Accept: text/html,*/*;q=0.8\r\n"


def ask_with_pages(line: str, headers: str = LOCAL + HTML) -> str:
    client = Listening(show_refusal).connect()
    assert client is not None
    return client.send(f"{line} HTTP/1.1\r\n{headers}\r\n")


@pytest.mark.parametrize(
    ("line", "expected", "message"),
    [
        ("GET /nowhere", 404, "there is no such page"),
        ("GET /change", 405, "GET is not served here, only POST"),
        ("POST /change", 401, "this takes the token"),
        ("GET /fail/disk", 503, "no disk"),
        ("GET /fail/us", 500, "the server made a mistake"),
    ],
)
def test_people_get_a_page_and_tools_json(line: str, expected: int, message: str) -> None:
    page = ask_with_pages(line)
    assert status(page) == expected
    assert f"\r\n\r\n<h1>{message}" in page
    assert all(f"\r\n{name}: {value}\r\n" in page for name, value in HEADERS.items())
    for headers in (LOCAL, f"{LOCAL}Accept: */*\r\n", f"{LOCAL}Accept: application/json\r\n"):
        told = ask_with_pages(line, headers)
        assert status(told) == expected
        assert "\r\nContent-Type: application/json\r\n" in told
        assert f'\r\n\r\n{{"error": "{message}' in told


def test_what_is_accepted_may_be_said_in_two_headers() -> None:
    assert "<h1>" in ask_with_pages("GET /nowhere", f"{LOCAL}Accept: */*;q=0.1\r\n{HTML}")
    assert "<h1>" not in ask_with_pages("GET /nowhere", f"{LOCAL}Accept: application/json\r\n{HTML}")


def test_whoever_calls_the_server_by_another_name_gets_no_page() -> None:
    answer = ask_with_pages("GET /nowhere", f"Host: evil.example\r\n{HTML}")
    assert status(answer) == 421
    assert '{"error": ' in answer


def test_an_error_whose_page_fails_is_told_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    answer = ask_with_pages("GET /fail/page")
    assert status(answer) == 500
    assert '{"error": "the server made a mistake' in answer
    assert "no template" in caplog.text
    assert "no template" not in answer


@pytest.mark.parametrize("body", ["{", "[]", "1", "\xff", "[" * 100_000])
def test_a_body_that_is_no_json_object_is_refused(body: str) -> None:
    data = body.encode("latin-1")
    head = f"POST /change HTTP/1.1\r\n{LOCAL}Authorization: Bearer {TOKEN}\r\n"
    answer = connect().send(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
    assert status(answer) == 400


# --- limits ---------------------------------------------------------------------------------------------


def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes() -> None:
    client = connect(admin_max_request_bytes=1024)
    head = f"POST /change HTTP/1.1\r\n{LOCAL}Authorization: Bearer {TOKEN}\r\nExpect: 100-continue\r\n"
    answer = client.send(f"{head}Content-Length: 1025\r\n\r\n")
    assert status(answer) == 413
    assert "100 Continue" not in answer
    assert client.is_gone


def test_a_body_without_a_length_is_counted() -> None:
    client = connect(admin_max_request_bytes=1024)
    head = f"POST /change HTTP/1.1\r\n{LOCAL}Authorization: Bearer {TOKEN}\r\nTransfer-Encoding: chunked\r\n"
    assert client.send(f"{head}\r\n") == ""
    assert client.send(b"200\r\n" + b" " * 0x200 + b"\r\n") == ""
    assert not client.is_gone
    assert status(client.send(b"300\r\n" + b" " * 0x300 + b"\r\n0\r\n\r\n")) == 413
    assert client.is_gone


def test_a_body_up_to_the_limit_is_taken() -> None:
    client = connect(admin_max_request_bytes=1024)
    head = f"POST /change HTTP/1.1\r\n{LOCAL}Authorization: Bearer {TOKEN}\r\nContent-Length: 1024\r\n\r\n"
    answer = client.send(head.encode() + b"{}".ljust(1024))
    assert status(answer) == 200


def test_headers_without_an_end_are_refused() -> None:
    client = connect()
    client.send(f"GET /hello/you HTTP/1.1\r\n{LOCAL}")
    for number in range(400):
        if client.is_gone:  # a socket would not be read any more
            break
        client.send(f"x-{number}: {'y' * 100}\r\n")
    assert client.is_gone


def test_a_request_that_drips_is_cut_off_in_time() -> None:
    listening = Listening()
    client = listening.connect()
    assert client is not None
    for byte in f"GET /hello/you HTTP/1.1\r\n{LOCAL}".encode():
        listening.clock.advance(REQUEST_SECONDS / 100)
        client.send(bytes([byte]))
    assert not client.is_gone
    listening.clock.advance(REQUEST_SECONDS)
    assert client.is_gone


def test_a_connection_that_rests_between_requests_is_kept_for_a_while() -> None:
    listening = Listening()
    client = listening.connect()
    assert client is not None
    for _ in range(5):
        listening.clock.advance(REQUEST_SECONDS * 2)
        assert status(client.send(f"GET /hello/you HTTP/1.1\r\n{LOCAL}\r\n")) == 200
    listening.clock.advance(REQUEST_SECONDS * 10)
    assert client.is_gone


WAIT = f"GET /wait HTTP/1.1\r\n{LOCAL}\r\n"


def test_there_is_a_limit_of_connections() -> None:
    listening = Listening(admin_max_connections=2)
    first, second = listening.connect(), listening.connect()
    assert first is not None
    assert second is not None
    for client in (first, second):
        client.send(WAIT)
    assert listening.connect() is None
    first.connection.connectionLost()
    assert listening.connect() is not None


def test_whoever_has_rested_for_longest_makes_room() -> None:
    """Clients that do nothing must not keep out the probe that asks whether the server lives."""
    listening = Listening(admin_max_connections=3)
    clients = [listening.connect() for _ in range(3)]
    first, second, third = (client for client in clients if client is not None)
    assert status(first.send(f"GET /hello/you HTTP/1.1\r\n{LOCAL}\r\n")) == 200
    second.send(WAIT)
    third.send("GET /hello/you HTT")
    probe = listening.connect()
    assert probe is not None
    assert [client.is_gone for client in (first, second, third)] == [False, False, True]
    assert status(probe.send(f"GET /hello/you HTTP/1.1\r\n{LOCAL}\r\n")) == 200
    assert listening.connect() is not None
    assert [client.is_gone for client in (first, second, probe)] == [True, False, False]


def test_draining_closes_those_who_rest() -> None:
    listening = Listening()
    client = listening.connect()
    assert client is not None
    client.send(f"GET /hello/you HTTP/1.1\r\n{LOCAL}\r\n")
    drained = listening.server.drain()
    assert client.is_gone
    assert not drained.called
    client.connection.connectionLost()
    assert drained.called


# --- the real one ---------------------------------------------------------------------------------------


def test_a_real_server_is_alive_and_ready(operator: Operator) -> None:
    assert operator.get("/livez").text == "ok\n"
    assert operator.get("/readyz").text == "ok\n"
    assert operator.ask("GET", "/api/overview", headers={"Host": "evil.example"}).status == 421
    assert operator.ask("POST", "/api/topics", {}).status == 401
    assert operator.post("/api/topics", {}).status == 405
