"""Messages as a command's input has them: a line with or without a key in front, or a JSON object a line."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Any

from barbicel.cli.record_output import Record
from barbicel.errors import BarbicelError

__all__ = ["BadRecord", "parse_json_record", "parse_line_record"]


class BadRecord(BarbicelError):
    """A line that is no message."""


def parse_line_record(
    line: bytes, separator: bytes | None, key: bytes | None, headers: Sequence[tuple[str, bytes | None]]
) -> Record:
    """What stands before the first separator is the key; `key` is for lines without one."""
    if separator is None:
        return Record(key, line, headers)
    before, found, after = line.partition(separator)
    if not found:
        raise BadRecord(f"there is no {separator.decode('utf-8', 'backslashreplace')!r} in it")
    return Record(before, after, headers)


def parse_json_record(line: bytes, headers: Sequence[tuple[str, bytes | None]]) -> Record:
    """What `consume --format json` writes. `headers` come behind its own."""
    try:
        told = json.loads(line)
    except ValueError as error:
        raise BadRecord(f"this is no JSON: {error}") from None
    if not isinstance(told, dict):
        raise BadRecord("this is no JSON object")
    own = told.get("headers", [])
    if not isinstance(own, list) or not all(
        isinstance(one, dict) and isinstance(one.get("name"), str) for one in own
    ):
        raise BadRecord('headers are a list of {"name": …, "value": …}')
    given = [(one["name"], _bytes_of(one, "value")) for one in own]
    return Record(_bytes_of(told, "key"), _bytes_of(told, "value"), [*given, *headers])


def _bytes_of(told: dict[str, Any], name: str) -> bytes | None:
    packed, text = told.get(f"{name}_base64"), told.get(name)
    if isinstance(packed, str):
        try:
            return base64.b64decode(packed, validate=True)
        except binascii.Error as error:
            raise BadRecord(f"{name}_base64: {error}") from None
    if text is None or isinstance(text, str):
        return None if text is None else text.encode()
    return json.dumps(text).encode()
