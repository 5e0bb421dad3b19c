"""The fault proxy itself, in front of a server of the standard library."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.support.fault_proxy import Fault, FaultProxy, Request

BODY = b"0123456789"


class Echo(BaseHTTPRequestHandler):
    """Answers with BODY, and tells in headers what has come."""

    protocol_version = "HTTP/1.1"
    bodies: list[bytes]

    def answer(self) -> None:
        self.bodies.append(self.rfile.read(int(self.headers.get("content-length") or 0)))
        self.send_response_only(200)
        self.send_header("Content-Length", str(len(BODY)))
        for name in ("If-Match", "If-None-Match", "Host"):
            self.send_header(f"Saw-{name}", self.headers.get(name) or "")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(BODY)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815 - the base class looks for these


@pytest.fixture
def bodies() -> list[bytes]:
    Echo.bodies = []
    return Echo.bodies


@pytest.fixture
def proxy(bodies: list[bytes]) -> Iterator[FaultProxy]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        with FaultProxy(server.server_address[1]) as proxy:
            yield proxy
        server.shutdown()
        thread.join()


def ask(
    proxy: FaultProxy, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=1)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body=body or None, headers=named)
        answer = connection.getresponse()
        return answer.status, answer.read(), dict(answer.getheaders())
    finally:
        connection.close()


def test_without_rules_everything_is_forwarded_as_it_is(proxy: FaultProxy, bodies: list[bytes]) -> None:
    for method in ("GET", "PUT", "POST", "DELETE"):
        status, body, headers = ask(proxy, method, "/a%20b?c=d", b"sent", If_Match="etag")
        assert (status, body, headers["Saw-If-Match"]) == (200, BODY, "etag")
        assert headers["Saw-Host"] == f"127.0.0.1:{proxy.port}"
    assert ask(proxy, "HEAD", "/a")[:2] == (200, b"")
    assert bodies == [b"sent"] * 4 + [b""]
    assert proxy.requests[0] == Request("GET", "/a%20b?c=d")


def test_a_connection_may_be_used_for_many_requests(proxy: FaultProxy) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=5)
    for _ in range(3):
        connection.request("GET", "/")
        assert connection.getresponse().read() == BODY
    connection.close()


@pytest.mark.parametrize("fault", [Fault.DROP_ANSWER, Fault.RESET, Fault.HANG, Fault.TRUNCATE, Fault.STALL])
def test_a_broken_exchange_is_an_error_for_the_client(
    proxy: FaultProxy, bodies: list[bytes], fault: Fault
) -> None:
    proxy.fail(fault)
    with pytest.raises((OSError, http.client.HTTPException)) as caught:
        ask(proxy, "PUT", "/", b"sent")
    assert isinstance(caught.value, ConnectionResetError) or fault is not Fault.RESET
    assert bodies == ([] if fault is Fault.RESET else [b"sent"])
    assert ask(proxy, "GET", "/")[1] == BODY


@pytest.mark.parametrize(
    ("fault", "seen"), [(Fault.UNAVAILABLE, []), (Fault.DONE_BUT_UNAVAILABLE, [b"sent"])]
)
def test_an_unavailable_server_may_have_done_it(
    proxy: FaultProxy, bodies: list[bytes], fault: Fault, seen: list[bytes]
) -> None:
    proxy.fail(fault)
    assert ask(proxy, "PUT", "/", b"sent")[0] == 503
    assert bodies == seen


def test_one_bit_is_flipped(proxy: FaultProxy) -> None:
    proxy.fail(Fault.FLIP)
    found = ask(proxy, "GET", "/")[1]
    assert [a ^ b for a, b in zip(found, BODY, strict=True)] == [0, 0, 0, 0, 0, 1, 0, 0, 0, 0]


def test_conditions_do_not_reach_the_server(proxy: FaultProxy) -> None:
    proxy.fail(Fault.IGNORE_CONDITIONS)
    headers = ask(proxy, "PUT", "/", If_Match="etag", If_None_Match="*")[2]
    assert (headers["Saw-If-Match"], headers["Saw-If-None-Match"]) == ("", "")


def test_a_rule_strikes_what_it_names_as_often_as_it_says(proxy: FaultProxy) -> None:
    proxy.fail(Fault.UNAVAILABLE, method="PUT", path="/a", after=1, times=2)
    asked = [("PUT", "/b"), ("GET", "/a"), ("PUT", "/a1"), ("PUT", "/a2"), ("PUT", "/x/a"), ("PUT", "/a")]
    assert [ask(proxy, method, path)[0] for method, path in asked] == [200, 200, 200, 503, 503, 200]
    proxy.fail(Fault.UNAVAILABLE, times=-1)
    assert [ask(proxy, "GET", "/")[0] for _ in range(3)] == [503] * 3
    proxy.heal()
    assert ask(proxy, "GET", "/")[0] == 200
