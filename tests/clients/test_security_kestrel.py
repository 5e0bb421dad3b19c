"""Kestrel's clients over TLS, and as memcached's -Y has it: first say who you are."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from pymemcache.client.base import Client

from tests.clients.client import until
from tests.support.secure_gateway import PASSWORDS, SecureGateway, running_secure_gateway

TIMEOUT_S = 10.0
TOO_LATE_MS = 1500


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureGateway]:
    with running_secure_gateway(
        tmp_path_factory.mktemp("kestrel"),
        ("PLAINTEXT",),
        kestrel_ssl_enable="true",
        kestrel_auth_enable="true",
        ssl_client_auth="none",
        sasl_server_authentication_timeout_ms=str(TOO_LATE_MS),
    ) as gateway:
        yield gateway


def context(gateway: SecureGateway) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(gateway.authority.path))


@contextmanager
def connected(gateway: SecureGateway) -> Iterator[ssl.SSLSocket]:
    address = ("127.0.0.1", gateway.process.kestrel_port)
    with (
        socket.create_connection(address, TIMEOUT_S) as plain,
        context(gateway).wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        yield connection


def say(connection: ssl.SSLSocket, data: bytes) -> bytes:
    """The answer, as far as it comes at once."""
    connection.sendall(data)
    return connection.recv(4096)


def login(user: str, password: str, key: str = "auth") -> bytes:
    value = f"{user} {password}".encode()
    return b"set %b 0 0 %d\r\n%b\r\n" % (key.encode(), len(value), value)


def logged(gateway: SecureGateway, text: str) -> None:
    def look() -> bool:
        time.sleep(0.01)
        return text in gateway.log

    until(f"{text!r} in the log", look)


def test_whoever_has_logged_in_is_served(gateway: SecureGateway) -> None:
    with connected(gateway) as connection:
        assert say(connection, login("alice", PASSWORDS["alice"])) == b"STORED\r\n"
        assert say(connection, b"set q 0 0 5\r\nhello\r\n") == b"STORED\r\n"
        assert say(connection, b"get q\r\n") == b"VALUE q 0 5\r\nhello\r\nEND\r\n"
        # And larger values than a login has.
        assert say(connection, b"set q 0 0 5000\r\n" + b"x" * 5000 + b"\r\n") == b"STORED\r\n"
        assert say(connection, b"delete q\r\n") == b"DELETED\r\n"
        time.sleep(TOO_LATE_MS / 1000)
        assert say(connection, b"get auth\r\n") == b"END\r\n"  # a login is not an item
    assert PASSWORDS["alice"] not in gateway.log


def test_pymemcache(gateway: SecureGateway) -> None:
    client = Client(
        ("127.0.0.1", gateway.process.kestrel_port),
        tls_context=context(gateway),
        timeout=TIMEOUT_S,
        default_noreply=False,
    )
    try:
        assert client.set("any", f"bob {PASSWORDS['bob']}")
        assert client.set("of-bob", b"one")
        assert client.get("of-bob") == b"one"
    finally:
        client.close()


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", "wrong"), ("alice", "")])
def test_a_wrong_password(gateway: SecureGateway, user: str, password: str) -> None:
    with connected(gateway) as connection:
        assert say(connection, login(user, password)) == b"CLIENT_ERROR authentication failure\r\n"
        assert connection.recv(1) == b""
    logged(gateway, "not let in:")


@pytest.mark.parametrize(
    "command", [b"get q\r\n", b"stats\r\n", b"flush_all\r\n", b"version\r\n", b"nonsense\r\n"]
)
def test_nothing_else_is_served_before(gateway: SecureGateway, command: bytes) -> None:
    with connected(gateway) as connection:
        assert say(connection, command) == b"CLIENT_ERROR unauthenticated\r\n"
        assert connection.recv(1) == b""


def test_what_stands_behind_a_failed_login_is_not_served(gateway: SecureGateway) -> None:
    with connected(gateway) as connection:
        said = say(connection, login("alice", "wrong") + b"set sneaked 0 0 1\r\nx\r\n")
        assert said == b"CLIENT_ERROR authentication failure\r\n"
    with connected(gateway) as connection:
        said = say(connection, login("alice", PASSWORDS["alice"]))
        assert say(connection, b"get sneaked\r\n") == b"END\r\n"


def test_what_stands_behind_a_good_one_is(gateway: SecureGateway) -> None:
    with connected(gateway) as connection:
        connection.sendall(login("alice", PASSWORDS["alice"]) + b"get nothing\r\n")
        said = b""
        while not said.endswith(b"END\r\n"):
            said += connection.recv(4096)
        assert said == b"STORED\r\nEND\r\n"


def test_a_stranger_cannot_send_much(gateway: SecureGateway) -> None:
    with connected(gateway) as connection:
        said = say(connection, b"set x 0 0 3000\r\n" + b"a b" * 1000 + b"\r\n")
        assert said == b"CLIENT_ERROR authentication failure\r\n"


def test_a_stranger_has_not_long(gateway: SecureGateway) -> None:
    with connected(gateway) as connection, suppress(ConnectionResetError, ssl.SSLError):
        assert connection.recv(1) == b""
    logged(gateway, "it has not said in time who it is")


def test_a_handshake_that_does_not_come(gateway: SecureGateway) -> None:
    address = ("127.0.0.1", gateway.process.kestrel_port)
    with socket.create_connection(address, TIMEOUT_S) as connection, suppress(ConnectionResetError):
        assert connection.recv(1) == b""


def test_plain_on_a_port_with_tls(gateway: SecureGateway) -> None:
    with socket.create_connection(("127.0.0.1", gateway.process.kestrel_port), TIMEOUT_S) as connection:
        connection.sendall(b"stats\r\n")
        said = b""
        try:
            while piece := connection.recv(4096):
                said += piece
        except ConnectionResetError:
            pass
    assert len(said) <= 7  # an alert of TLS at most
    assert b"STAT" not in said
