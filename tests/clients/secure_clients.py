"""Real clients with every way of TLS and SASL: send one record, or say why not."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from unittest.mock import patch

import confluent_kafka
from kafka import KafkaProducer
from kafka.errors import KafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider

from tests.clients.client import NewRecord, Producer, until
from tests.clients.java_client import JavaClient, _Relay
from tests.support.secure_gateway import SecureGateway

__all__ = [
    "CLIENTS",
    "Login",
    "Refused",
    "SecureJava",
    "logged",
    "send_with_confluent",
    "send_with_kafka_python",
]

ANSWER_S = 10.0
TOPIC = "secured"


class Refused(Exception):
    """What the client says to its user."""


class Login(NamedTuple):
    """How a client says who it is. `certificate` is a file with a key, `token` is for OAUTHBEARER."""

    protocol: str
    mechanism: str | None = None
    user: str = ""
    password: str = ""
    certificate: str | None = None
    token: str | None = None


def logged(gateway: SecureGateway, text: str) -> None:
    """Wait until it is in the server's log."""

    def look() -> bool:
        time.sleep(0.01)
        return text in gateway.log

    until(f"{text!r} in the log", look)


def send_with_confluent(gateway: SecureGateway, login: Login, topic: str = TOPIC) -> int:
    """The record's offset. Raises Refused."""
    errors: list[str] = []
    settings: dict[str, Any] = {
        "bootstrap.servers": gateway.bootstrap(login.protocol),
        "security.protocol": login.protocol,
        "log_level": 0,
        "error_cb": lambda error: errors.append(str(error)),
        "reconnect.backoff.ms": 1000,
    }
    if login.protocol.endswith("SSL"):
        settings["ssl.ca.location"] = str(gateway.authority.path)
    if login.certificate is not None:
        settings |= {
            "ssl.certificate.location": login.certificate,
            "ssl.key.location": login.certificate,
        }
    if login.mechanism is not None:
        settings["sasl.mechanism"] = login.mechanism
    if login.token is not None:
        settings["oauth_cb"] = lambda _: (login.token, time.time() + 600)
    elif login.mechanism is not None:
        settings |= {"sasl.username": login.user, "sasl.password": login.password}
    return _send_with_confluent(confluent_kafka.Producer(settings), topic, errors)


def _send_with_confluent(producer: confluent_kafka.Producer, topic: str, errors: list[str]) -> int:
    outcomes: list[tuple[Any, Any]] = []
    producer.produce(topic, b"x", on_delivery=lambda error, message: outcomes.append((error, message)))
    deadline = time.monotonic() + ANSWER_S
    while not outcomes and not errors and time.monotonic() < deadline:
        producer.poll(0.05)
    if outcomes and outcomes[0][0] is None:
        return int(outcomes[0][1].offset())
    producer.purge()
    raise Refused(" ".join([*errors, *(str(error) for error, _ in outcomes)]))


class _Token(AbstractTokenProvider):  # type: ignore[misc]  # it has no types
    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        return self._token


def send_with_kafka_python(gateway: SecureGateway, login: Login, topic: str = TOPIC) -> int:
    """The record's offset. Raises Refused."""
    settings: dict[str, Any] = {
        "bootstrap_servers": gateway.bootstrap(login.protocol),
        "security_protocol": login.protocol,
        "max_block_ms": int(ANSWER_S * 1000),
        "bootstrap_timeout_ms": 1500,
        "reconnect_backoff_ms": 500,
    }
    if login.protocol.endswith("SSL"):
        settings["ssl_cafile"] = str(gateway.authority.path)
    if login.certificate is not None:
        settings |= {"ssl_certfile": login.certificate, "ssl_keyfile": login.certificate}
    if login.mechanism is not None:
        settings["sasl_mechanism"] = login.mechanism
    if login.token is not None:
        settings["sasl_oauth_token_provider"] = _Token(login.token)
    elif login.mechanism is not None:
        settings |= {"sasl_plain_username": login.user, "sasl_plain_password": login.password}
    told = _Told()
    logging.getLogger("kafka.net").addHandler(told)
    try:
        with _closing_pairs():
            return _send_with_kafka_python(settings, topic)
    except KafkaError as error:
        # Why it could not begin it says in its log alone.
        refusal = f"{type(error).__name__}: {error} {told.text}"
    finally:
        logging.getLogger("kafka.net").removeHandler(told)
    raise Refused(refusal)


@contextmanager
def _closing_pairs() -> Iterator[None]:
    """A producer that could not begin leaves the sockets open by which it wakes itself."""
    made: list[socket.socket] = []
    real = socket.socketpair

    def noting(*arguments: Any) -> tuple[socket.socket, socket.socket]:
        pair = real(*arguments)
        made.extend(pair)
        return pair

    try:
        with patch("socket.socketpair", noting):
            yield
    except KafkaError:
        for one in made:
            one.close()
        raise


class _Told(logging.Handler):
    """What is logged."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text += f" {record.getMessage()}"


def _send_with_kafka_python(settings: dict[str, Any], topic: str) -> int:
    producer = KafkaProducer(**settings)
    try:
        return int(producer.send(topic, b"x").get(ANSWER_S).offset)
    finally:
        producer.close(timeout=0)


Send = Callable[..., int]
CLIENTS: Mapping[str, Send] = {"confluent-kafka": send_with_confluent, "kafka-python": send_with_kafka_python}

_MODULES = "org.apache.kafka.common.security"
_TOKEN_FROM_A_FILE = {
    "sasl.jaas.config": f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required;",
    "sasl.login.callback.handler.class": f"{_MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler",
}


class SecureJava(JavaClient):
    """Java's client; what it is told about security comes beside what it is told otherwise.

    It reads its token from a file of the directory, and what it logs is written there.
    """

    settings: Mapping[str, str] = MappingProxyType({})

    def __init__(self, jar_set: str, directory: Path) -> None:
        super().__init__(jar_set)
        self._token = directory / "token.jwt"
        self._log = directory / "java.log"

    @property
    def options(self) -> Sequence[str]:
        # Since 4.0 it reads no token but from where Java is told that it may.
        return (
            *super().options,
            f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self._token.as_uri()}",
            f"-Dorg.slf4j.simpleLogger.logFile={self._log}",
        )

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def settings_for(self, gateway: SecureGateway, login: Login) -> Mapping[str, str]:
        settings = _java_settings(gateway, login)
        if login.token is None:
            return settings
        self._token.write_text(login.token, encoding="ascii")
        return {**settings, "sasl.oauthbearer.token.endpoint.url": self._token.as_uri()}

    def send(self, gateway: SecureGateway, login: Login, topic: str = TOPIC) -> int:
        """The record's offset. Raises Refused."""
        self.settings = self.settings_for(gateway, login)
        try:
            with self.producer(gateway.bootstrap(login.protocol)) as producer:
                self.send_one(producer, topic)
                return producer.flush()[0]
        except AssertionError as error:
            raise Refused(str(error)) from error

    def send_one(self, producer: Producer, topic: str = TOPIC) -> None:
        producer.send(topic, 0, NewRecord(b"x"))

    @contextmanager
    def _open(self, kind: str, settings: Mapping[str, str]) -> Iterator[tuple[_Relay, str]]:
        limits = {"max.block.ms": "8000", "request.timeout.ms": "5000", "delivery.timeout.ms": "8000"}
        with super()._open(kind, {**settings, **limits, **self.settings}) as opened:
            yield opened


def _java_settings(gateway: SecureGateway, login: Login) -> dict[str, str]:
    settings = {"security.protocol": login.protocol}
    if login.protocol.endswith("SSL"):
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(gateway.authority.path)}
    if login.certificate is not None:
        settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": login.certificate}
    if login.mechanism is None:
        return settings
    settings["sasl.mechanism"] = login.mechanism
    if login.token is not None:
        return {**settings, **_TOKEN_FROM_A_FILE}
    module = "plain.PlainLoginModule" if login.mechanism == "PLAIN" else "scram.ScramLoginModule"
    settings["sasl.jaas.config"] = (
        f'{_MODULES}.{module} required username="{login.user}" password="{login.password}";'
    )
    return settings
