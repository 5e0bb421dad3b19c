"""Numbers, times and bytes as people read them. Pure: what is now is given."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

__all__ = [
    "render_bytes",
    "render_count",
    "render_duration",
    "render_hex",
    "render_pretty",
    "render_rate",
    "render_time",
]

UNKNOWN = "\u2013"
_BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
# Seconds of each unit, the longest first.
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
HEX_COLUMNS = 16
INDENT = "  "
# JSON that is nested hundreds of times becomes hundreds of times as long: it stays as it is.
MAX_PRETTY_TIMES = 8
MAX_PRETTY_SHORT = 4096


def render_bytes(size: float | None) -> str:
    if size is None:
        return UNKNOWN
    for unit in _BYTES:
        if abs(size) < 1000 or unit == _BYTES[-1]:
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.3g} {unit}"


def render_count(number: float | None) -> str:
    """With thin spaces between thousands, which do not break."""
    if number is None:
        return UNKNOWN
    return f"{number:,.0f}".replace(",", "\u202f")


def render_rate(number: float | None) -> str:
    if number is None:
        return UNKNOWN
    return f"{number:.1f}" if 0 < number < 10 else render_count(number)


def render_duration(seconds: float | None) -> str:
    """The two largest units: "3 d 4 h"; below a second in milliseconds."""
    if seconds is None:
        return UNKNOWN
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    left, parts = int(seconds), []
    for length, unit in _UNITS:
        if left >= length:
            parts.append(f"{left // length} {unit}")
        left %= length
    return " ".join(parts[:2])


def render_time(time_ms: int | None) -> str:
    """UTC, to the millisecond; what no calendar has stays a number."""
    if time_ms is None or time_ms < 0:
        return UNKNOWN
    try:
        time = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(time_ms)
    return f"{time:%Y-%m-%d %H:%M:%S}.{time_ms % 1000:03d}"


def render_hex(digits: str) -> str:
    """Sixteen bytes a line, as numbers and as letters."""
    data = bytes.fromhex(digits)
    lines = []
    for position in range(0, len(data), HEX_COLUMNS):
        row = data[position : position + HEX_COLUMNS]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{position:08x}  {row.hex(' '):<{HEX_COLUMNS * 3}} {letters}")
    return "\n".join(lines)


def render_pretty(text: str) -> str:
    """JSON with a line for each member; anything else as it is, and what would become far too long.

    Only space is added and taken away: numbers and repeated names stay as they were written.
    """
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    return _indent(text, MAX_PRETTY_TIMES * len(text) + MAX_PRETTY_SHORT)


def _indent(text: str, max_chars: int) -> str:
    """Of JSON that is known to be sound. The text itself if that is longer than `max_chars`."""
    made: list[str] = []
    for piece in _pieces(text):
        made.append(piece)
        max_chars -= len(piece)
        if max_chars < 0:
            return text
    return "".join(made)


def _pieces(text: str) -> Iterator[str]:
    depth, position, piece = 0, 0, ""
    while position < len(text):
        letter = text[position]
        end = _end_of_string(text, position) if letter == '"' else position + 1
        if letter in "{[":
            is_empty = text[end:].lstrip()[:1] in ("}", "]")
            depth += 1
            piece = letter if is_empty else f"{letter}\n{INDENT * depth}"
        elif letter in "}]":
            depth -= 1
            piece = letter if piece in ("{", "[") else f"\n{INDENT * depth}{letter}"
        elif letter == ",":
            piece = f",\n{INDENT * depth}"
        elif letter == ":":
            piece = ": "
        elif not letter.isspace():
            piece = text[position:end]
        if not letter.isspace():
            yield piece
        position = end


def _end_of_string(text: str, position: int) -> int:
    position += 1
    while text[position] != '"':
        position += 2 if text[position] == "\\" else 1
    return position + 1
