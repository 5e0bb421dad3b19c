"""Which address clients are told to connect to."""

from __future__ import annotations

from barbicel.gateway.kafka.api import Address, Call

__all__ = ["advertised_address"]

PLAINTEXT = "PLAINTEXT"


def advertised_address(call: Call) -> Address:
    """The setting for its protocol, or else where this client has reached us: that works for it."""
    advertised = call.broker.config.advertised_listeners
    if advertised:
        protocol = PLAINTEXT if call.session is None else call.session.listener.protocol
        for listener in advertised:
            if listener.protocol == protocol:
                return Address(listener.host, listener.port)
    return call.local
