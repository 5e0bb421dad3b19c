"""Where the server listens and what it tells clients about that: Kafka's `PROTOCOL://host:port`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from barbicel.config.values import Rule, ValueType

__all__ = ["Listener", "Listeners"]

# What the server speaks: with and without TLS, with and without asking who the client is.
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
# Addresses that mean every interface. They are no address that a client could connect to.
EVERY_INTERFACE = frozenset({"", "0.0.0.0", "::"})

_LISTENER = re.compile(
    r"(?P<protocol>[A-Za-z_]+)://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]*):(?P<port>[0-9]{1,5})",
    re.ASCII,
)


class Listener(NamedTuple):
    """One address. An empty host is every interface; port 0 lets the system choose one."""

    protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.protocol}://{self.address}"

    @property
    def address(self) -> str:
        """As a page's has it, also of IPv6."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def has_tls(self) -> bool:
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("SASL_")

    @classmethod
    def parse(cls, text: str) -> Listener:
        found = _LISTENER.fullmatch(text.strip())
        if found is None:
            raise ValueError("a listener is PROTOCOL://host:port")
        return cls(found["protocol"].upper(), found["host"].strip("[]"), int(found["port"]))


@dataclass(frozen=True)
class Listeners(Rule):
    """One listener a protocol. Advertised ones may be none, and need a host and a port to connect to."""

    advertised: bool = False

    type = ValueType.LIST

    @property
    def allowed(self) -> str:
        if self.advertised:
            return (
                "PROTOCOL://host:port with a host and a port that clients can connect to,"
                " once for a protocol, or nothing"
            )
        return f"PROTOCOL://host:port, once for each of {', '.join(PROTOCOLS)} at most"

    def parse(self, text: str) -> tuple[Listener, ...]:
        try:
            return self.check(tuple(Listener.parse(part) for part in text.split(",") if part.strip()))
        except ValueError:
            raise self.refuse() from None

    def check(self, value: object) -> tuple[Listener, ...]:
        if not isinstance(value, tuple) or not all(map(self._is_good, value)):
            raise self.refuse()
        if len({listener.protocol for listener in value}) < len(value):
            raise self.refuse()
        if not value and not self.advertised:
            raise self.refuse()
        return value

    def _is_good(self, listener: object) -> bool:
        if not isinstance(listener, Listener) or listener.protocol not in PROTOCOLS:
            return False
        if self.advertised and (listener.host in EVERY_INTERFACE or listener.port == 0):
            return False
        return 0 <= listener.port <= 0xFFFF

    def render(self, value: Any) -> str:
        return ",".join(map(str, value))
