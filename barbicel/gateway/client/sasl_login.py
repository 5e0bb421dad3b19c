"""A login by SaslHandshake and SaslAuthenticate, with the mechanisms that kafka-python has.

What is refused is told with the server's words. No message has a password, or anything made of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kafka.net.sasl import get_sasl_mechanism

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.messages import SaslAuthenticateRequest, SaslHandshakeRequest
from barbicel.gateway.client.connecting import ServerRefused
from barbicel.gateway.client.settings import login_mechanism

if TYPE_CHECKING:
    from barbicel.gateway.client.kafka_connection import KafkaConnection

__all__ = ["log_in"]

# The first that says: what follows is SaslAuthenticate. The last of the classic encoding.
HANDSHAKE_VERSION = 1
# The first that says for how long a login counts. The last of the classic encoding.
AUTHENTICATE_VERSION = 1
# As Java's client has it, from RFC 7677.
MIN_ITERATIONS = 4096
# Of a number that kafka-python takes.
MAX_DIGITS = 7
_HINT = "see --client-config"


def log_in(connection: KafkaConnection, settings: Mapping[str, Any]) -> int:
    """For how many ms it counts, 0 is for ever. Nothing is done if the settings ask for no login.

    Raises NoServer, ServerRefused, BadClientConfig.
    """
    name = login_mechanism(settings)
    if name is None:
        return 0
    _agree(connection, name)
    lifetime_ms = 0
    with _understanding(connection, name):
        mechanism = get_sasl_mechanism(name)(**settings)
        while not mechanism.is_done():
            request = SaslAuthenticateRequest(auth_bytes=mechanism.auth_bytes())
            answer = connection.ask(request, AUTHENTICATE_VERSION)
            if answer.error_code != ErrorCode.NONE:
                reason = (answer.error_message or f"error {answer.error_code}")[:200]
                raise ServerRefused(f"the login was refused: {reason}", path=connection.address, hint=_HINT)
            _check_iterations(connection, name, answer.auth_bytes)
            mechanism.receive(answer.auth_bytes)
            lifetime_ms = answer.session_lifetime_ms
        if not mechanism.is_authenticated():
            raise ValueError
    return lifetime_ms


def _agree(connection: KafkaConnection, name: str) -> None:
    answer = connection.ask(SaslHandshakeRequest(mechanism=name), HANDSHAKE_VERSION)
    if answer.error_code == ErrorCode.NONE and name in answer.mechanisms:
        return
    offered = ", ".join(answer.mechanisms)[:200]
    what = f"it does not take {name}, but {offered}" if offered else "it wants no login"
    raise ServerRefused(what, path=connection.address, hint=_HINT)


def _check_iterations(connection: KafkaConnection, name: str, said: bytes) -> None:
    """kafka-python takes few as well, and who has this client's proof can then try passwords fast."""
    counts = (
        [one[2:] for one in said.split(b",") if one.startswith(b"i=")] if name.startswith("SCRAM-") else ()
    )
    if not all(one.isdigit() and int(one[:MAX_DIGITS]) >= MIN_ITERATIONS for one in counts):
        what = f"it wants fewer iterations of {name} than {MIN_ITERATIONS}"
        raise ServerRefused(what, path=connection.address, hint="is that the server it should be?")


@contextmanager
def _understanding(connection: KafkaConnection, name: str) -> Iterator[None]:
    """What kafka-python raises for a server that does not keep to the mechanism, or does not prove in the end
    that it knows the password, too."""
    try:
        yield
    except (ValueError, KeyError) as error:
        raise ServerRefused(
            f"its answers are not those of {name}: it does not know this user's password",
            path=connection.address,
        ) from error
