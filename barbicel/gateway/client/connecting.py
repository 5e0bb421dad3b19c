"""A socket to a gateway, with TLS if the settings ask for it; and what is said if there is none.

NoServer is worth another try, when a gateway is restarted. ServerRefused is not: it is there, and does not
want this client, or this client does not trust it.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from barbicel.errors import BarbicelError
from barbicel.gateway.client.settings import tls_context

__all__ = [
    "CONNECT_SECONDS",
    "NoServer",
    "ServerRefused",
    "address_text",
    "breaking",
    "connect",
]

CONNECT_SECONDS = 5.0
# It has hung up, which a server that is stopped does as well.
HUNG_UP = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
_TLS_HINT = "does it have TLS? --client-config names who vouches for it, and this client's certificate"


class NoServer(BarbicelError):
    """Nobody answers there."""


class ServerRefused(BarbicelError):
    """The server does not do what it was asked."""


def address_text(host: str, port: int) -> str:
    """As people and clients write it: an IPv6 address is in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def connect(host: str, port: int, settings: Mapping[str, Any], hint: str, kind: str) -> socket.socket:
    """Raises NoServer, ServerRefused, BadClientConfig. `kind` is what kind of server is looked for."""
    context = tls_context(settings)
    address = address_text(host, port)
    try:
        connection = socket.create_connection((host, port), CONNECT_SECONDS)
    except OSError as error:
        reason = error.strerror or str(error)
        raise NoServer(f"no {kind} server answers: {reason}", path=address, hint=hint) from error
    if context is not None:
        with breaking(address, hint):
            # If it fails the socket is closed with it.
            connection = context.wrap_socket(connection, server_hostname=host)
    return connection


@contextmanager
def breaking(address: str, hint: str) -> Iterator[None]:
    """A socket's errors as ours. With TLS 1.3 a client hears only when it reads that its certificate, or that
    it has none, is refused: so an alert is a refusal whenever it comes."""
    try:
        yield
    except OSError as error:
        if isinstance(error, ssl.SSLError) and not isinstance(error, HUNG_UP):
            raise ServerRefused(f"no TLS with this server: {error}", path=address, hint=_TLS_HINT) from error
        raise NoServer(f"the connection broke: {error}", path=address, hint=hint) from error
