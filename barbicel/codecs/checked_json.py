"""Small files of JSON that people can read, in exactly one form: the same values are always the same bytes.

So a file that was changed anywhere is noticed, by its CRC-32C or because it is not what would have been
written. topic_file.py and access_file.py say what is in them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from crc32c import crc32c

from barbicel.errors import CorruptFile, UnknownVersion

__all__ = ["FORMAT", "MAX_FILE_BYTES", "decode_object", "encode_object", "typed", "whole"]

FORMAT = 1
MAX_FILE_BYTES = 1 << 20

_Value = TypeVar("_Value")


def encode_object(content: Mapping[str, Any]) -> bytes:
    """A line a field, and behind them the sum of all."""
    # A line a field. json's own indentation is ten times slower, which counts with 10,000 topics.
    lines = [f'  "{name}": {_text(value)}' for name, value in {**content, "crc32c": _sum(content)}.items()]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("ascii")


def _sum(content: Mapping[str, Any]) -> str:
    """Over the content without white space and with sorted keys, so that other programs can check it."""
    return f"{crc32c(_canonical(content).encode('ascii')):08x}"


_text = json.JSONEncoder().encode
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def decode_object(data: bytes, max_bytes: int = MAX_FILE_BYTES) -> dict[str, Any]:
    """The content behind a good CRC, of a version that is known. Raises CorruptFile, UnknownVersion."""
    if len(data) > max_bytes:
        raise CorruptFile(f"larger than {max_bytes} bytes")
    try:
        content = typed(json.loads(data.decode("ascii")), dict)
        found = content.pop("crc32c", None)
        expected = _sum(content)
    except (TypeError, ValueError, RecursionError):
        raise CorruptFile("this is no JSON object, or a part of one") from None
    if found != expected:
        raise CorruptFile(f"the crc32c is {found!r}, that of the content is {expected!r}")
    if content.get("format") != FORMAT:
        raise UnknownVersion(f"format {content.get('format')!r} is not known, only {FORMAT} is")
    return content


def typed(value: object, wanted: type[_Value]) -> _Value:
    """The value, if it is of that type. Raises TypeError."""
    # True is an int to Python, not to JSON.
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise TypeError(f"{value!r} should be of type {wanted.__name__}")
    return value


def whole(value: _Value, is_same: bool) -> _Value:
    """The value of a file that is, to the byte, what would have been written. Raises CorruptFile."""
    if not is_same:
        raise CorruptFile("the content is sound, but this is not how it is written")
    return value
