"""Which address clients are told to connect to."""

from __future__ import annotations

from barbicel.gateway.kafka.api import Address, Call

__all__ = ["advertised_address"]


def advertised_address(call: Call) -> Address:
    """The setting, or else the address on which this client has reached us: that one works for it."""
    advertised = call.broker.config.advertised_listeners
    if advertised:
        return Address(advertised[0].host, advertised[0].port)
    return call.local
