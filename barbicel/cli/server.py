"""A running server by Kafka's protocol: how it is found, and what is said if it refuses or is not there."""

from __future__ import annotations

import functools
import logging
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import click
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError, for_code

from barbicel.cli.client_file import client_config_option, client_settings
from barbicel.cli.settings import config_option, loaded_config, parse_address, reachable_host
from barbicel.config.settings import Config
from barbicel.gateway.client.connecting import CONNECT_SECONDS, NoServer, ServerRefused, address_text
from barbicel.gateway.client.settings import tls_context

__all__ = [
    "NoServer",
    "Server",
    "ServerRefused",
    "asking",
    "configured_address",
    "refusal_text",
    "server_options",
]

BOOTSTRAP_MS = 10_000
_HINT = "does it run? --bootstrap HOST:PORT says where, and 'barbicel doctor' looks for what is wrong"

_LOGIN_HINT = "is that a Kafka port, and does it need a login or TLS? See --client-config"


_SERVER_OPTIONS = (
    click.option(
        "--bootstrap",
        "--bootstrap-server",
        "bootstrap",
        metavar="HOST:PORT",
        help="The running server, by its Kafka port; default: as its settings say.",
    ),
    client_config_option,
    config_option,
)


def server_options(command: Callable[..., None]) -> Callable[..., None]:
    """What every command takes that talks to a server; they become its `server`."""

    @functools.wraps(command)
    def serving(
        *arguments: Any, bootstrap: str | None, client_file: str | None, path: str | None, **rest: Any
    ) -> None:
        host, port = _kafka_address(bootstrap, path)
        command(*arguments, server=Server(host, port, client_settings(client_file)), **rest)

    for option in reversed(_SERVER_OPTIONS):
        serving = option(serving)
    return serving


def _kafka_address(bootstrap: str | None, path: str | None) -> tuple[str, int]:
    if bootstrap is None:
        return configured_address(loaded_config(path))
    if path is not None:
        # Kafka's own tools take a topic's settings by this name: no passing over them in silence.
        loaded_config(path)
    return parse_address("--bootstrap", bootstrap)


def configured_address(config: Config) -> tuple[str, int]:
    """Of the first listener: the one that the settings' author thought of first."""
    listener = config.listeners[0]
    return reachable_host(listener.host), listener.port


class Server(NamedTuple):
    """Where it is, and what kafka-python is given beside that."""

    host: str
    port: int
    settings: Mapping[str, Any]

    @property
    def address(self) -> str:
        return address_text(self.host, self.port)

    @contextmanager
    def admin(self) -> Iterator[Any]:
        with closing(self._client(KafkaAdminClient, {})) as admin:
            yield admin

    def producer(self, **settings: Any) -> Any:
        return self._client(KafkaProducer, settings)

    def consumer(self, **settings: Any) -> Any:
        return self._client(KafkaConsumer, settings)

    def _settings(self) -> dict[str, Any]:
        """The file's come last: it may say another time-out."""
        return {"bootstrap_servers": self.address, "bootstrap_timeout_ms": BOOTSTRAP_MS, **self.settings}

    def _client(self, kind: Any, settings: Mapping[str, Any]) -> Any:
        """Raises NoServer at once where nobody listens: the client itself would try for long. And raises
        BadClientConfig: the client itself would ask at the terminal for the password of a key."""
        tls_context(self.settings)
        try:
            socket.create_connection((self.host, self.port), CONNECT_SECONDS).close()
        except OSError as error:
            reason = error.strerror or str(error)
            raise NoServer(f"no server answers: {reason}", path=self.address, hint=_HINT) from error
        with asking(self), _hearing() as heard:
            try:
                return kind(**self._settings(), **settings)
            except KafkaTimeoutError as error:
                reason = f": {heard[-1]}" if heard else ""
                raise ServerRefused(
                    f"it does not let this client in{reason}", path=self.address, hint=_LOGIN_HINT
                ) from error


class _Hearing(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        # That it waits, that it has given up, and that the machine is slow.
        if not text.startswith(("Bootstrap ", "Task ")):
            self.heard.append(text.partition(" (backoff ")[0].rpartition("Connection lost: ")[2])


@contextmanager
def _hearing() -> Iterator[list[str]]:
    """What kafka-python logs while it connects: its error says only that it did not. Later nothing of it is
    shown: what is worth telling is told."""
    logger, handler = logging.getLogger("kafka"), _Hearing()
    logger.addHandler(logging.NullHandler())
    logger.addHandler(handler)
    try:
        yield handler.heard
    finally:
        logger.removeHandler(handler)


@contextmanager
def asking(server: Server) -> Iterator[None]:
    """kafka-python's errors as ours. Nothing may be printed inside: an output's error would look like one."""
    try:
        yield
    except KafkaError as error:
        raise ServerRefused(refusal_text(error), path=server.address) from error
    except OSError as error:
        raise NoServer(f"the connection broke: {error}", path=server.address, hint=_HINT) from error


def refusal_text(error: KafkaError | int, message: str | None = None) -> str:
    """What a server says for itself comes first; Kafka's name of the error is for those who search for it."""
    if isinstance(error, int):
        error = for_code(error)(message)
    name = type(error).__name__.removesuffix("Error")
    said = (
        message
        or (str(error.args[0]) if error.args and error.args[0] else "")
        or getattr(error, "description", "")
    )
    return f"{said} ({name})" if said else name
