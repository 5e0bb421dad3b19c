"""Messages on the standard output: as they are, as JSON, or in hex, one a line.

As they are means the bytes themselves: whatever a producer wrote, a terminal's escape codes too, unless it is
a terminal that they go to. A format is a function from a message to a line; it does no I/O.
"""

from __future__ import annotations

import base64
import functools
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import click

from barbicel.cli.plain import plain

__all__ = ["FORMATS", "Format", "ItemOutput", "Record", "format_option", "headers_of", "json_bytes"]


class Record(NamedTuple):
    """`place` is what a JSON line tells beside the contents: topic, partition, offset and so on."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    place: Mapping[str, Any] = {}


Format: TypeAlias = Callable[[Record, bool], bytes]


def _value_line(record: Record, with_headers: bool) -> bytes:
    heads = b"".join(b"%b=%b\t" % (name.encode(), value or b"") for name, value in record.headers)
    return (heads if with_headers else b"") + (record.value or b"")


def _hex_line(record: Record, with_headers: bool) -> bytes:
    heads = b"".join(
        b"%b=%b\t" % (name.encode(), (value or b"").hex().encode()) for name, value in record.headers
    )
    return (heads if with_headers else b"") + (record.value or b"").hex().encode()


def _json_line(record: Record, with_headers: bool) -> bytes:
    """Headers are in it anyway. `produce --format json` reads what this writes."""
    if record.key is None and "queue" in record.place:
        return json.dumps({**record.place, **json_bytes("value", record.value)}).encode()
    told = {
        **record.place,
        **json_bytes("key", record.key),
        **json_bytes("value", record.value),
        "headers": [{"name": name, **json_bytes("value", value)} for name, value in record.headers],
    }
    return json.dumps(told).encode()


FORMATS: Mapping[str, Format] = {"value": _value_line, "json": _json_line, "hex": _hex_line}


def json_bytes(name: str, data: bytes | None) -> dict[str, str | None]:
    """As text if it is text, and in base64 under another name if it is not."""
    try:
        return {name: None if data is None else data.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data or b"").decode("ascii")}


def headers_of(pairs: Sequence[tuple[str, bytes | None]] | None) -> list[tuple[str, bytes | None]]:
    return [(str(name), None if value is None else bytes(value)) for name, value in pairs or ()]


def format_option(command: Callable[..., None]) -> Callable[..., None]:
    """`form`, a key of FORMATS; --json is short for one of them, as every command has it."""

    @functools.wraps(command)
    def formatting(*arguments: Any, form: str, as_json: bool, **rest: Any) -> None:
        command(*arguments, form="json" if as_json else form, **rest)

    short = click.option("--json", "as_json", is_flag=True, help="--format json: an object a line.")
    choice = click.option(
        "--format",
        "form",
        type=click.Choice(list(FORMATS)),
        default="value",
        show_default=True,
        help="What a line is: the bytes as they are, a JSON object, or hex.",
    )
    return choice(short(formatting))


class ItemOutput:
    """Messages on the standard output. What could not be written raises OSError."""

    def __init__(self, form: Format, with_headers: bool = False) -> None:
        self._form = form
        self._with_headers = with_headers
        self._is_terminal = sys.stdout.isatty()
        self._stream = sys.stdout.buffer

    def write_item(self, queue: str, item: bytes) -> None:
        """On return whoever reads the output has it."""
        self.write(Record(None, item, (), {"queue": queue}))
        self.flush()

    def write(self, record: Record) -> None:
        """What is not flushed may not have been written yet."""
        line = self._form(record, self._with_headers)
        if self._is_terminal:
            line = plain(line.decode("utf-8", "backslashreplace")).encode("utf-8", "backslashreplace")
        self._stream.write(line + b"\n")

    def flush(self) -> None:
        self._stream.flush()
