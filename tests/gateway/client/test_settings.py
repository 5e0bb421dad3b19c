"""A file of client settings under Kafka's names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from barbicel.cli.server import Server
from barbicel.disk import RealDisk
from barbicel.gateway.client.settings import (
    BadClientConfig,
    login_mechanism,
    parse_client_config,
    read_client_config,
    tls_context,
)
from tests.support.certificates import Authority


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("# comment\n! too\n\n  security.protocol = sasl_ssl ", {"security_protocol": "SASL_SSL"}),
        ("sasl.username=a\nsasl.password=b=c", {"sasl_plain_username": "a", "sasl_plain_password": "b=c"}),
        (
            r'sasl.jaas.config=org.x.ScramLoginModule required username="al" password="q\"\\x";',
            {"sasl_plain_username": "al", "sasl_plain_password": 'q"\\x'},
        ),
        ("ssl.keystore.location=/c.pem", {"ssl_certfile": "/c.pem", "ssl_keyfile": "/c.pem"}),
        ("ssl.endpoint.identification.algorithm=", {"ssl_check_hostname": False}),
        ("client.id: a=b\nsasl.username:c", {"client_id": "a=b", "sasl_plain_username": "c"}),
        (
            'sasl.jaas.config=org.x.PlainLoginModule required \\\n  username="al" \\\r\n\tpassword="b";'
            "\nclient.id=x",
            {"sasl_plain_username": "al", "sasl_plain_password": "b", "client_id": "x"},
        ),
        ("# no more of it \\\nclient.id=\\\n# an id\n", {"client_id": "# an id"}),
        ("sasl.password=a\\\\\nclient.id=x\\", {"sasl_plain_password": "a\\\\", "client_id": "x"}),
        ("ssl.truststore.type=PEM\ngroup.id=x\nrequest.timeout.ms=5", {"request_timeout_ms": 5}),
    ],
)
def test_what_is_understood(text: str, expected: dict[str, Any]) -> None:
    assert parse_client_config(text) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ssl.truststore.type=JKS", "can only be PEM"),
        ("ssl.truststore.lokation=/x", "ssl.truststore.lokation is not known"),
        ("just words", "line 1 is not name=value"),
        ("client.id=\\\n  x\njust \\\nwords", "line 3 is not name=value"),
        ("request.timeout.ms=soon", "request.timeout.ms is no number"),
        ("security.protocol=TLS", "security.protocol is none of PLAINTEXT"),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    with pytest.raises(BadClientConfig, match=problem):
        parse_client_config(text)


def test_a_password_is_never_repeated(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("sasl.password=hunter2\nsecurity.nonsense=hunter2\n")
    with pytest.raises(BadClientConfig) as caught:
        read_client_config(RealDisk(), str(file))
    assert "hunter2" not in str(caught.value)
    assert str(file) in str(caught.value)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(BadClientConfig, match="no text"):
        read_client_config(RealDisk(), str(file))


def test_tls_only_where_it_is_asked_for() -> None:
    assert tls_context({}) is None
    assert tls_context({"security_protocol": "SASL_PLAINTEXT"}) is None
    context = tls_context({"security_protocol": "SASL_SSL"})
    assert context is not None
    assert context.check_hostname


def test_files_that_cannot_be_used_are_named_with_their_setting(tmp_path: Path) -> None:
    good = Authority(tmp_path).issue("me")
    bad = tmp_path / "bad.pem"
    bad.write_text("no certificate")
    for text, problem in (
        (f"ssl.truststore.location={tmp_path}/no.pem", f"^{tmp_path}/no.pem: ssl.truststore.location cannot"),
        (f"ssl.truststore.location={bad}", f"^{bad}: ssl.truststore.location cannot be used"),
        ("ssl.truststore.location=/a\0b", r"^/a\\x00b: ssl.truststore.location cannot be used"),
        (f"ssl.keystore.location={bad}", f"^{bad}: ssl.keystore.location cannot be used"),
        (
            f"ssl.keystore.location={good}\nssl.keystore.key={bad}",
            f"^{good}, {bad}: ssl.keystore.location and ssl.keystore.key cannot be used",
        ),
    ):
        with pytest.raises(BadClientConfig, match=problem):
            tls_context(parse_client_config(f"security.protocol=SSL\n{text}"))


def test_nobody_is_asked_for_the_password_of_a_key(tmp_path: Path) -> None:
    key = load_pem_private_key(Authority(tmp_path).issue("me").read_bytes(), None)
    file = tmp_path / "encrypted.pem"
    file.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
        + (tmp_path / "me.pem").read_bytes().partition(b"-----END PRIVATE KEY-----\n")[2]
    )
    settings = parse_client_config(f"security.protocol=SSL\nssl.keystore.location={file}")
    with pytest.raises(BadClientConfig, match=r"the key is encrypted .*ssl.key.password"):
        tls_context(settings)
    with pytest.raises(BadClientConfig, match="the key is encrypted"):
        Server("127.0.0.1", 1, settings).producer()
    assert tls_context({**settings, "ssl_password": "secret"}) is not None


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, None),
        ({"security_protocol": "SSL", "sasl_mechanism": "nonsense"}, None),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": "a",
                "sasl_plain_password": "b",
            },
            "PLAIN",
        ),
    ],
)
def test_a_login_only_where_it_is_asked_for(settings: dict[str, Any], expected: str | None) -> None:
    assert login_mechanism(settings) == expected


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"sasl_mechanism": "GSSAPI"}, "sasl.mechanism is none of PLAIN"),
        ({"sasl_mechanism": None}, "sasl.mechanism is none of PLAIN"),
        ({"sasl_plain_username": ""}, "no sasl.username"),
        ({"sasl_plain_password": None}, "no sasl.password"),
    ],
)
def test_a_login_that_lacks_something_is_refused(changes: dict[str, Any], problem: str) -> None:
    whole = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "a",
        "sasl_plain_password": "b",
    }
    with pytest.raises(BadClientConfig, match=problem):
        login_mechanism({**whole, **changes})
