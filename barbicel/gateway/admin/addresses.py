"""Addresses of what is served: names put into the pattern of a route, and taken out of a path again.

A pattern is a path whose segments in <angle brackets> are names. Browsers resolve segments that are `.` or
`..` before they ask, percent-encoded or not (URL Standard, "double-dot URL path segment"). So a name may
stand in the query, and its segment is empty then: /groups/?name=.. is the group `..`. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlencode

__all__ = ["parse_address", "render_address"]

# As segments of a path no server gets to see them.
RESOLVED_BY_BROWSERS = frozenset({".", ".."})


def render_address(pattern: str, **fields: str | int) -> str:
    """The address of the pattern with these names. Fields that it has no name for make the query."""
    segments, query = [], dict(fields)
    for segment in pattern.split("/"):
        name = _name_of(segment)
        if name is not None and fields[name] in RESOLVED_BY_BROWSERS:
            segments.append("")
        else:
            segments.append(segment if name is None else quote(str(query.pop(name)), safe=""))
    path = "/".join(segments)
    return f"{path}?{urlencode(query)}" if query else path


def parse_address(pattern: str, segments: Sequence[str], query: Mapping[str, str]) -> dict[str, str] | None:
    """What stands for each name of the pattern; None if the path is another one. `segments` are decoded."""
    wanted = pattern.split("/")
    if len(wanted) != len(segments):
        return None
    names: dict[str, str] = {}
    for part, segment in zip(wanted, segments, strict=True):
        name = _name_of(part)
        if name is not None:
            names[name] = segment or query.get(name, "")
        elif part != segment:
            return None
    return names


def _name_of(segment: str) -> str | None:
    return segment[1:-1] if segment.startswith("<") else None
