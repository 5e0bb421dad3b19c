"""Real clients over TLS, with certificates and with every SASL mechanism; and those that are refused."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from barbicel.gateway.draining import DRAIN_SECONDS
from tests.clients.client import until
from tests.clients.secure_clients import CLIENTS, Login, Refused, logged
from tests.support.certificates import Authority
from tests.support.secure_gateway import PASSWORDS, SecureGateway, running_secure_gateway

CERTIFICATE = Login("SSL", certificate="alice")
SCRAM = [
    Login(protocol, mechanism, user, PASSWORDS[user])
    for protocol in ("SASL_SSL", "SASL_PLAINTEXT")
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    for user in ("alice", "bob")
]
PLAIN = Login("SASL_SSL", "PLAIN", "alice", PASSWORDS["alice"])
GOOD = [Login("PLAINTEXT"), Login("SSL"), CERTIFICATE, PLAIN, *SCRAM]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureGateway]:
    with running_secure_gateway(tmp_path_factory.mktemp("secure")) as gateway:
        yield gateway


def shown(login: Login) -> str:
    return "-".join(filter(None, (login.protocol, login.mechanism, login.user, login.certificate)))


def with_certificate(gateway: SecureGateway, login: Login) -> Login:
    if login.certificate is None:
        return login
    return login._replace(certificate=str(gateway.authority.issue(login.certificate)))


def nothing_leaked(gateway: SecureGateway, *secrets: str) -> None:
    for secret in (*secrets, *PASSWORDS.values()):
        assert secret not in gateway.log
    assert "Traceback" not in gateway.log


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("login", GOOD, ids=shown)
def test_let_in(gateway: SecureGateway, client: str, login: Login) -> None:
    assert CLIENTS[client](gateway, with_certificate(gateway, login)) >= 0
    nothing_leaked(gateway)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_a_token(gateway: SecureGateway, client: str, algorithm: str) -> None:
    token = gateway.issuer.token("alice", algorithm)
    assert CLIENTS[client](gateway, Login("SASL_SSL", "OAUTHBEARER", token=token)) >= 0
    nothing_leaked(gateway, token)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("user", ["alice", "stranger"])
def test_a_wrong_password(gateway: SecureGateway, client: str, mechanism: str, user: str) -> None:
    with pytest.raises(Refused, match="(?i)authentication"):
        CLIENTS[client](gateway, Login("SASL_SSL", mechanism, user, "a wrong guess"))
    logged(gateway, "wrong password, or no such user")
    nothing_leaked(gateway, "a wrong guess")


@pytest.mark.parametrize("client", CLIENTS)
def test_an_expired_token(gateway: SecureGateway, client: str) -> None:
    token = gateway.issuer.token("alice", exp=int(time.time()) - 100)
    with pytest.raises(Refused):
        CLIENTS[client](gateway, Login("SASL_SSL", "OAUTHBEARER", token=token))
    nothing_leaked(gateway, token)


@pytest.mark.parametrize("client", CLIENTS)
def test_an_unsigned_token(gateway: SecureGateway, client: str) -> None:
    token = gateway.issuer.unsigned("alice")
    with pytest.raises(Refused):
        CLIENTS[client](gateway, Login("SASL_SSL", "OAUTHBEARER", token=token))
    nothing_leaked(gateway, token)


@pytest.mark.parametrize("client", CLIENTS)
def test_plain_passwords_are_not_taken_without_tls(gateway: SecureGateway, client: str) -> None:
    with pytest.raises(Refused, match="(?i)mechanism|SASL"):
        CLIENTS[client](gateway, PLAIN._replace(protocol="SASL_PLAINTEXT"))
    nothing_leaked(gateway)


# --- the wrong protocol -----------------------------------------------------------------------------------


def stranger(gateway: SecureGateway, protocol: str, data: bytes) -> bytes:
    """All that the server says to somebody who says this."""
    with socket.create_connection(("127.0.0.1", gateway.ports()[protocol]), 10) as connection:
        connection.sendall(data)
        said = b""
        try:
            while piece := connection.recv(4096):
                said += piece
        except ConnectionResetError:
            pass
        return said


def test_plain_on_a_port_with_tls(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running_secure_gateway(tmp_path_factory.mktemp("secure"), ("SSL",)) as gateway:
        said = stranger(gateway, "SSL", b"\x00\x00\x00\x14\x00\x12\x00\x00\x00\x00\x00\x01\x00\x02ab")
        assert len(said) <= 7  # an alert of TLS at most
        logged(gateway, "not let in: TLS: not TLS at all, on a port with TLS")


def test_http_on_a_port_with_tls(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running_secure_gateway(tmp_path_factory.mktemp("secure"), ("SASL_SSL",)) as gateway:
        assert len(stranger(gateway, "SASL_SSL", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")) <= 7
        logged(gateway, "not let in: TLS: an HTTP client, on a port with TLS")


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_tls_on_a_port_without(gateway: SecureGateway, protocol: str) -> None:
    context = ssl.create_default_context(cafile=str(gateway.authority.path))
    with (
        pytest.raises((ssl.SSLError, ConnectionError)),
        socket.create_connection(("127.0.0.1", gateway.ports()[protocol]), 10) as connection,
        context.wrap_socket(connection, server_hostname="127.0.0.1"),
    ):
        pass
    logged(gateway, "not Kafka's protocol: a TLS client, on a port without TLS")


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_http_on_a_port_without_tls(gateway: SecureGateway, protocol: str) -> None:
    assert stranger(gateway, protocol, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n") == b""
    logged(gateway, "not Kafka's protocol: an HTTP client")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_without_tls_at_a_port_with_it(gateway: SecureGateway, client: str) -> None:
    here = gateway.ports()
    with pytest.raises(Refused):
        CLIENTS[client](_at(gateway, {**here, "PLAINTEXT": here["SSL"]}), Login("PLAINTEXT"))


def _at(gateway: SecureGateway, ports: dict[str, int]) -> SecureGateway:
    class Elsewhere:
        authority = gateway.authority

        def bootstrap(self, protocol: str) -> str:
            return f"127.0.0.1:{ports[protocol]}"

    return Elsewhere()  # type: ignore[return-value]  # as far as a client looks at it


# --- certificates -----------------------------------------------------------------------------------------


def connect(gateway: SecureGateway, certificate: str | None, protocol: str = "SSL") -> str:
    """The name of the server's certificate. Raises what refuses the client, at the first read."""
    context = ssl.create_default_context(cafile=str(gateway.authority.path))
    if certificate is not None:
        context.load_cert_chain(certificate)
    with (
        socket.create_connection(("127.0.0.1", gateway.ports()[protocol]), 10) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        # ApiVersions, version 0.
        connection.sendall(b"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff")
        if not connection.recv(4096):
            raise ConnectionError("closed")
        shown = connection.getpeercert()
        assert shown is not None
        return dict(pair for row in shown["subject"] for pair in row)["commonName"]  # type: ignore[misc]


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureGateway]:
    with running_secure_gateway(
        tmp_path_factory.mktemp("strict"), ("SSL",), ssl_client_auth="required", ssl_reload_interval_ms="100"
    ) as gateway:
        yield gateway


def test_a_client_that_shows_no_certificate(strict: SecureGateway) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        connect(strict, None)
    logged(strict, "it shows no certificate, and ssl.client.auth is required")


def test_a_certificate_of_somebody_else(
    strict: SecureGateway, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Authority(tmp_path_factory.mktemp("other"))
    with pytest.raises((ssl.SSLError, ConnectionError)):
        connect(strict, str(other.issue("alice")))


def test_a_certificate_that_has_expired(strict: SecureGateway) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        connect(strict, str(strict.authority.issue("late", lifetime=timedelta(seconds=-1))))


def test_old_versions_of_tls_are_refused(strict: SecureGateway) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(str(strict.authority.path))
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with (
        socket.create_connection(("127.0.0.1", strict.ports()["SSL"]), 10) as plain,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        context.wrap_socket(plain, server_hostname="127.0.0.1")


def test_stopping_does_not_wait_for_clients_that_say_goodbye(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with running_secure_gateway(tmp_path_factory.mktemp("stopping"), ("SSL",)) as gateway:
        context = ssl.create_default_context(cafile=str(gateway.authority.path))
        with (
            socket.create_connection(("127.0.0.1", gateway.ports()["SSL"]), 10) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
            ThreadPoolExecutor(1) as thread,
        ):
            # ApiVersions, version 0; then whatever comes, up to the server's goodbye, which is answered.
            connection.sendall(b"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff")
            assert connection.recv(65536)
            stopped = thread.submit(gateway.process.stop)
            began = time.monotonic()
            while connection.recv(65536):
                pass
            connection.unwrap().close()
            assert stopped.result(30) == 0
            assert time.monotonic() - began < DRAIN_SECONDS


def test_certificates_are_replaced_without_a_restart(strict: SecureGateway) -> None:
    alice = str(strict.authority.issue("alice"))
    assert connect(strict, alice) == "gateway"
    strict.certificate.write_text("rubbish", encoding="ascii")
    logged(strict, "the new certificate cannot be used, the old one stays")
    assert connect(strict, alice) == "gateway"
    strict.authority.issue("renewed", file_name="gateway")
    until("the new certificate", lambda: connect(strict, alice) == "renewed")
    strict.authority.issue("gateway")
    until("the old certificate", lambda: connect(strict, alice) == "gateway")
    nothing_leaked(strict)
