"""Java's client over TLS, with a certificate, with passwords and with tokens; and refused.

It reads what a token claims, and sends an expired one all the same: the server refuses it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import admin as confluent_admin

from tests.clients.secure_clients import Login, Refused, SecureJava, logged
from tests.rig.skipping import skip_without_rig
from tests.support.secure_gateway import PASSWORDS, SecureGateway, running_secure_gateway
from tests.support.tokens import Issuer

# Its types are too narrow for what it takes.
theirs: Any = confluent_admin


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureGateway]:
    with running_secure_gateway(tmp_path_factory.mktemp("secure")) as gateway:
        yield gateway


@pytest.fixture(scope="module", params=["clients-4", "clients-3.9"])
def java(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureJava]:
    client = SecureJava(request.param, tmp_path_factory.mktemp("java"))
    with skip_without_rig(), client.running():
        yield client


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_without_a_name(java: SecureJava, gateway: SecureGateway, protocol: str) -> None:
    assert java.send(gateway, Login(protocol)) >= 0


def test_a_certificate(java: SecureJava, gateway: SecureGateway) -> None:
    certificate = str(gateway.authority.issue("alice"))
    assert java.send(gateway, Login("SSL", certificate=certificate)) >= 0


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_password(java: SecureJava, gateway: SecureGateway, mechanism: str) -> None:
    assert java.send(gateway, Login("SASL_SSL", mechanism, "alice", PASSWORDS["alice"])) >= 0


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password(java: SecureJava, gateway: SecureGateway, mechanism: str) -> None:
    refusal = f"SaslAuthenticationException.*invalid credentials with SASL mechanism {mechanism}"
    with pytest.raises(Refused, match=refusal):
        java.send(gateway, Login("SASL_SSL", mechanism, "alice", "a wrong guess"))
    assert "a wrong guess" not in gateway.log


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_a_token(java: SecureJava, gateway: SecureGateway, algorithm: str) -> None:
    token = gateway.issuer.token("alice", algorithm)
    assert java.send(gateway, Login("SASL_SSL", "OAUTHBEARER", token=token)) >= 0
    assert token not in gateway.log + java.log


def expired(gateway: SecureGateway, directory: Path) -> str:
    now = int(time.time())
    return gateway.issuer.token("alice", iat=now - 200, exp=now - 100)


def forged(gateway: SecureGateway, directory: Path) -> str:
    """It names a key of the real issuer, and is signed with another."""
    return Issuer(directory).token("alice")


@pytest.mark.parametrize(
    ("bad", "reason"), [(expired, "Signature has expired"), (forged, "Signature verification failed")]
)
def test_a_token_that_does_not_count(
    java: SecureJava, tmp_path: Path, bad: Callable[[SecureGateway, Path], str], reason: str
) -> None:
    # A server of its own: of a machine that is refused again soon, the log does not say why.
    with running_secure_gateway(tmp_path / "gateway", ("SASL_SSL",)) as gateway:
        token = bad(gateway, tmp_path)
        refusal = "SaslAuthenticationException.*invalid credentials with SASL mechanism OAUTHBEARER"
        with pytest.raises(Refused, match=refusal) as refused:
            java.send(gateway, Login("SASL_SSL", "OAUTHBEARER", token=token))
        logged(gateway, f"not let in: OAUTHBEARER: the token is refused: {reason}")
        assert "failed authentication" in java.log
        assert token not in gateway.log + java.log + str(refused.value)


def test_plain_at_a_port_without_tls(java: SecureJava, gateway: SecureGateway) -> None:
    login = Login("SASL_PLAINTEXT", "PLAIN", "alice", PASSWORDS["alice"])
    with pytest.raises(Refused, match="UnsupportedSaslMechanismException"):
        java.send(gateway, login)


def test_allowed_and_revoked(java: SecureJava, tmp_path: Path) -> None:
    rule = theirs.AclBinding(
        *(theirs.ResourceType.TOPIC, "orders", theirs.ResourcePatternType.LITERAL, "User:alice", "*"),
        *(theirs.AclOperation.ALL, theirs.AclPermissionType.ALLOW),
    )
    every = theirs.AclBindingFilter(
        *(theirs.ResourceType.ANY, None, theirs.ResourcePatternType.ANY, None, None),
        *(theirs.AclOperation.ANY, theirs.AclPermissionType.ANY),
    )
    alice = Login("SASL_SSL", "SCRAM-SHA-512", "alice", PASSWORDS["alice"])
    settings = {"authorizer_class_name": "StandardAuthorizer", "super_users": "User:admin"}
    with running_secure_gateway(tmp_path, ("SASL_SSL",), **settings) as gateway:
        admin = theirs.AdminClient(
            {
                "bootstrap.servers": gateway.bootstrap("SASL_SSL"),
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": str(gateway.authority.path),
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.username": "admin",
                "sasl.password": PASSWORDS["admin"],
            }
        )
        with pytest.raises(Refused, match="TopicAuthorizationException"):
            java.send(gateway, alice, "orders")
        admin.create_acls([rule])[rule].result()
        assert java.send(gateway, alice, "orders") == 0
        assert admin.delete_acls([every])[every].result() == [rule]
        with pytest.raises(Refused, match="TopicAuthorizationException"):
            java.send(gateway, alice, "orders")
        logged(gateway, "User:alice may not DESCRIBE TOPIC orders")


def send_to(java: SecureJava, gateway: SecureGateway, login: Login, port: str) -> None:
    """To a port for another protocol."""
    java.settings = java.settings_for(gateway, login)
    with java.producer(gateway.bootstrap(port)) as producer:
        java.send_one(producer)
        producer.flush()


@pytest.mark.parametrize(
    ("spoken", "port", "reason"),
    [
        ("PLAINTEXT", "SSL", "not TLS at all, on a port with TLS"),
        ("SSL", "PLAINTEXT", "a TLS client, on a port without TLS"),
    ],
)
def test_the_wrong_protocol_for_a_port(
    java: SecureJava, tmp_path: Path, spoken: str, port: str, reason: str
) -> None:
    """Java's client cannot know more than that the connection ends; the server's log says why."""
    with running_secure_gateway(tmp_path, ("SSL", "PLAINTEXT")) as gateway:
        with pytest.raises(AssertionError, match="TimeoutException|SslAuthenticationException"):
            send_to(java, gateway, Login(spoken), port)
        logged(gateway, reason)


def test_sessions_go_on_when_the_client_says_again_who_it_is(
    java: SecureJava, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """KIP-368: the session holds for two seconds, and the producer is used for five."""
    directory = tmp_path_factory.mktemp("short")
    with running_secure_gateway(directory, ("SASL_SSL",), connections_max_reauth_ms="2000") as short:
        java.settings = java.settings_for(short, Login("SASL_SSL", "SCRAM-SHA-512", "bob", PASSWORDS["bob"]))
        with java.producer(short.bootstrap("SASL_SSL")) as producer:
            deadline, stored = time.monotonic() + 5.0, 0
            while time.monotonic() < deadline:
                java.send_one(producer)
                stored += 1
                assert len(producer.flush()) == stored
        assert "is over" not in short.log
