"""By which names the server may be called.

A web page can have its own name lead to this machine, and would then count as this server's own page in a
browser. So a request is served only if it calls the server by an address or by a name that is known. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from ipaddress import ip_address

__all__ = ["is_host_allowed"]

# RFC 3986, 3.2.2 and 3.2.3. Nothing but a port is behind the address, or it would be another name.
_HOST = re.compile(r"(\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[^:\[\]]+))(:[0-9]*)?", re.ASCII)
ALWAYS = frozenset({"localhost"})


def is_host_allowed(host: str | None, names: Collection[str]) -> bool:
    """`host` is what the request says, with or without a port."""
    if host is None:
        return False
    name = _without_port(host.strip().lower())
    return name in ALWAYS or name in names or _is_address(name)


def _without_port(host: str) -> str:
    """Of what has another form all stays, which is no name then."""
    found = _HOST.fullmatch(host)
    return host if found is None else found["address"] or found["name"] or ""


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
