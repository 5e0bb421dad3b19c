"""Who asks: people with a browser, whose errors are pages, or tools, whose errors are JSON; but the page of
something that is not there says so as a page to anybody. Pure."""

from __future__ import annotations

import re

from barbicel.gateway.admin.exchange import JSON, Asked

__all__ = ["is_for_people"]

# RFC 9110, 12.4.2.
_QUALITY = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?", re.ASCII)


def is_for_people(asked: Asked) -> bool:
    """Browsers name text/html when they open a page. Scripts of pages, and curl, take anything."""
    if asked.section == "api":
        return False
    qualities = _parse_accept(asked.accept)
    return qualities.get("text/html", 0.0) > qualities.get(JSON, 0.0)


def _parse_accept(accept: str) -> dict[str, float]:
    """How much each type is wanted that is named. No type that is looked for here has a quoted comma."""
    qualities: dict[str, float] = {}
    for wanted in accept.lower().split(","):
        kind, *parameters = [part.strip() for part in wanted.split(";")]
        written = [part.removeprefix("q=") for part in parameters if part.startswith("q=")]
        qualities[kind] = _parse_quality(written[0]) if written else 1.0
    return qualities


def _parse_quality(text: str) -> float:
    """What is no quality asks for nothing."""
    return float(text) if _QUALITY.fullmatch(text) else 0.0
