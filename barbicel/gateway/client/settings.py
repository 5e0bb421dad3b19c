"""A file of client settings under Kafka's names, as Kafka's own tools take it.

What concerns security and is not understood is refused: whoever asks for a thing that is passed over would be
less safe than they think. Everything else that a client's file may have is not a command's business.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from barbicel.disk import Disk, read_file
from barbicel.errors import BarbicelError

__all__ = [
    "BadClientConfig",
    "login_mechanism",
    "parse_client_config",
    "read_client_config",
    "tls_context",
]

MAX_FILE_BYTES = 1 << 20
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
# Those that need no more than a name and a password.
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SECURITY = ("security.", "sasl.", "ssl.")
JAAS = "sasl.jaas.config"
_PROPERTY = re.compile(r"([^=:]*)[=:](.*)", re.DOTALL)
_JAAS_VALUE = re.compile(r'\b(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')


class BadClientConfig(BarbicelError):
    """A file of client settings that cannot be used. Its values are never repeated."""


def _protocol(text: str) -> str:
    """kafka-python takes any other word for PLAINTEXT."""
    if text.upper() not in PROTOCOLS:
        raise ValueError(f"none of {', '.join(PROTOCOLS)}")
    return text.upper()


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise ValueError("no number")
    return int(text)


# Kafka's name → kafka-python's, and what makes the one's value the other's.
_NAMES: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "client.id": ("client_id", str),
    "request.timeout.ms": ("request_timeout_ms", _whole),
    "default.api.timeout.ms": ("bootstrap_timeout_ms", _whole),
    "security.protocol": ("security_protocol", _protocol),
    "sasl.mechanism": ("sasl_mechanism", str),
    "sasl.username": ("sasl_plain_username", str),
    "sasl.password": ("sasl_plain_password", str),
    "ssl.truststore.location": ("ssl_cafile", str),
    "ssl.keystore.location": ("ssl_certfile", str),
    "ssl.keystore.key": ("ssl_keyfile", str),
    "ssl.key.password": ("ssl_password", str),
    "ssl.endpoint.identification.algorithm": ("ssl_check_hostname", bool),
}
# Said only so that Java's clients know it: PEM is all there is.
_PEM_ONLY = ("ssl.truststore.type", "ssl.keystore.type")


def read_client_config(disk: Disk, path: str) -> Mapping[str, Any]:
    """What kafka-python is given. Raises BadClientConfig, DiskError."""
    data = read_file(disk, path, MAX_FILE_BYTES + 1)
    try:
        if len(data) > MAX_FILE_BYTES:
            raise BadClientConfig("too large for a file of client settings")
        return parse_client_config(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise BadClientConfig("this is no text", path=path) from None
    except BadClientConfig as error:
        raise BadClientConfig(error.message, path=path, hint=error.hint) from None


def parse_client_config(text: str) -> dict[str, Any]:
    properties = dict(_properties(text))
    found: dict[str, Any] = {}
    for name, value in properties.items():
        if name in _NAMES:
            own_name, understand = _NAMES[name]
            found[own_name] = _understood(name, value, understand)
        elif name in _PEM_ONLY and value.upper() != "PEM":
            raise BadClientConfig(f"{name} can only be PEM")
        elif name.startswith(SECURITY) and name not in (JAAS, *_PEM_ONLY):
            raise BadClientConfig(
                f"{name} is not known", hint=f"known are {', '.join(sorted(_NAMES))}, {JAAS}"
            )
    for name, value in _JAAS_VALUE.findall(properties.get(JAAS, "")):
        found[f"sasl_plain_{name}"] = re.sub(r"\\(.)", r"\1", value)
    if "ssl_certfile" in found:
        found.setdefault("ssl_keyfile", found["ssl_certfile"])
    return found


def _understood(name: str, value: str, understand: Callable[[str], Any]) -> Any:
    try:
        return understand(value)
    except ValueError as error:
        raise BadClientConfig(f"{name} is {error}") from None


def _properties(text: str) -> Iterator[tuple[str, str]]:
    for number, line in _joined_lines(text):
        found = _PROPERTY.fullmatch(line)
        if found is None:
            raise BadClientConfig(f"line {number} is not name=value")
        yield found[1].strip(), found[2].strip()


def _joined_lines(text: str) -> Iterator[tuple[int, str]]:
    """As Java reads them: a line whose last backslash is not itself escaped goes on in the next one."""
    first, begun = 0, None
    for number, line in enumerate(text.splitlines(), 1):
        line = line.lstrip()
        if begun is None:
            if not line or line.startswith(("#", "!")):
                continue
            first, begun = number, ""
        begun += line
        if (len(begun) - len(begun.rstrip("\\"))) % 2:
            begun = begun[:-1]
            continue
        yield first, begun
        begun = None
    if begun is not None:
        yield first, begun


def tls_context(settings: Mapping[str, Any]) -> ssl.SSLContext | None:
    """For a socket of our own; None if the settings ask for no TLS. Raises BadClientConfig."""
    if "SSL" not in settings.get("security_protocol", "PLAINTEXT").split("_"):
        return None
    with _using(settings, "ssl.truststore.location"):
        context = ssl.create_default_context(cafile=settings.get("ssl_cafile"))
    context.check_hostname = settings.get("ssl_check_hostname", True)
    if "ssl_certfile" in settings:
        with _using(settings, "ssl.keystore.location", "ssl.keystore.key"):
            context.load_cert_chain(
                settings["ssl_certfile"],
                settings["ssl_keyfile"],
                settings.get("ssl_password") or _no_password,
            )
    return context


def _no_password() -> str:
    """OpenSSL asks for it, and would ask at the terminal without this."""
    raise BadClientConfig("the key is encrypted", hint="ssl.key.password is its password")


@contextmanager
def _using(settings: Mapping[str, Any], *names: str) -> Iterator[None]:
    """Files that the settings name. OpenSSL does not say which of them it cannot use."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        # What only has its default was not said.
        files = {settings.get(_NAMES[name][0]): name for name in reversed(names)}
        raise BadClientConfig(
            f"{' and '.join(reversed(files.values()))} cannot be used: {reason}",
            path=", ".join(repr(file)[1:-1] for file in reversed(files)),
        ) from error


def login_mechanism(settings: Mapping[str, Any]) -> str | None:
    """None if the settings ask for no login. Raises BadClientConfig if something is missing for one."""
    if "SASL" not in settings.get("security_protocol", "PLAINTEXT").split("_"):
        return None
    mechanism = settings.get("sasl_mechanism")
    if mechanism not in MECHANISMS:
        raise BadClientConfig(f"sasl.mechanism is none of {', '.join(MECHANISMS)}")
    for name in ("username", "password"):
        if not settings.get(f"sasl_plain_{name}"):
            raise BadClientConfig(f"there is no sasl.{name}", hint=f"or {JAAS} with one")
    return str(mechanism)
