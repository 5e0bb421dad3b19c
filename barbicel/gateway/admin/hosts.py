"""By which names the server may be called.

A web page can have its own name lead to this machine, and would then count as this server's own page in a
browser. So a request is served only if it calls the server by an address or by a name that is known. Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import ip_address

__all__ = ["is_host_allowed"]

ALWAYS = frozenset({"localhost"})


def is_host_allowed(host: str | None, names: Collection[str]) -> bool:
    """`host` is what the request says, with or without a port."""
    if host is None:
        return False
    name = _without_port(host.strip().lower())
    return name in ALWAYS or name in names or _is_address(name)


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
