"""What is served where: a table of routes, to which other parts add theirs before the server starts.

Patterns are those of addresses.py. What changes something is never a GET: the server asks for the token by
the method alone, so no route can forget to.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote

from barbicel.gateway.admin.addresses import parse_address
from barbicel.gateway.admin.exchange import Answer, Asked, Refusal

__all__ = ["READING", "Respond", "Route", "Routes"]

# Methods that change nothing.
READING = frozenset({"GET", "HEAD"})

Respond: TypeAlias = Callable[[Asked], Awaitable[Answer]]


class Route(NamedTuple):
    """`respond` runs in the reactor's thread and must not wait there."""

    method: str
    pattern: str
    respond: Respond


class Routes:
    def __init__(self) -> None:
        self._routes: list[Route] = []

    def add(self, method: str, pattern: str, respond: Respond) -> None:
        """`method` is GET, or another one for what changes something."""
        self._routes.append(Route(method, pattern, respond))

    def __iter__(self) -> Iterator[Route]:
        return iter(self._routes)

    def find(self, asked: Asked) -> tuple[Route, Asked]:
        """Who responds, and the request with its names. Raises Refusal.

        A path is split before it is decoded: names may have slashes.
        """
        segments = [unquote(segment) for segment in asked.path.split("/")]
        method = "GET" if asked.method == "HEAD" else asked.method
        others: set[str] = set()
        for route in self._routes:
            names = parse_address(route.pattern, segments, asked.query)
            if names is not None:
                if route.method == method:
                    return route, replace(asked, names=names)
                others.add(route.method)
        if others:
            raise Refusal(405, f"{asked.method} is not served here, only {', '.join(sorted(others))}")
        raise Refusal(404, "there is no such page")
