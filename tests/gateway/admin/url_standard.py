"""What browsers make of an address before they ask for it (https://url.spec.whatwg.org/#path-state)."""

from __future__ import annotations

__all__ = ["resolve"]

SINGLE_DOT = frozenset({".", "%2e"})
DOUBLE_DOT = frozenset({"..", ".%2e", "%2e.", "%2e%2e"})


def resolve(address: str) -> str:
    """Of an address that begins with a slash."""
    path, mark, query = address.partition("?")
    segments = path.split("/")[1:]
    left: list[str] = []
    for number, segment in enumerate(segments, 1):
        if segment.lower() in DOUBLE_DOT:
            del left[-1:]
        if segment.lower() not in SINGLE_DOT | DOUBLE_DOT:
            left.append(segment)
        elif number == len(segments):
            left.append("")
    return "/" + "/".join(left) + mark + query
