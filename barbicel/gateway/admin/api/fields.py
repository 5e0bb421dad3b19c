"""The bytes of a key, a value or a header as plain data: text where they are text, hex where they are not.

What is large is cut, and says so. The same the other way round, for what is published. Pure.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any

from barbicel.gateway.admin.exchange import Refusal

__all__ = ["MAX_SHOWN_BYTES", "decode_field", "encode_field"]

MAX_SHOWN_BYTES = 64 << 10
# Beside what can be printed.
_LAYOUT = str.maketrans("", "", "\t\n\r")


def encode_field(data: bytes | None, max_bytes: int = MAX_SHOWN_BYTES) -> dict[str, Any] | None:
    """None is a null, which is not the same as nothing."""
    if data is None:
        return None
    shown = data[:max_bytes]
    row: dict[str, Any] = {"size_bytes": len(data), "is_cut": len(shown) < len(data)}
    text = _text(shown, is_cut=row["is_cut"])
    if text is None:
        return {**row, "encoding": "hex", "data": shown.hex()}
    return {**row, "encoding": "utf-8", "data": text}


def _text(data: bytes, *, is_cut: bool) -> str | None:
    """None if people could not read it."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        # A cut may have gone through the last character.
        if not is_cut or len(data) - error.start > 3:
            return None
        text = data[: error.start].decode()
    return text if text.translate(_LAYOUT).isprintable() else None


_DECODERS: Mapping[str, Callable[[str], bytes]] = {
    "utf-8": str.encode,
    "hex": bytes.fromhex,
    "base64": lambda text: base64.b64decode(text, validate=True),
}


def decode_field(body: Mapping[str, Any], name: str) -> bytes | None:
    """A field of a request's body, whose `encoding` holds for all. Raises Refusal."""
    given, encoding = body.get(name), body.get("encoding", "utf-8")
    if given is None:
        return None
    if not isinstance(given, str):
        raise Refusal(400, f"{name} is no text")
    if not isinstance(encoding, str) or encoding not in _DECODERS:
        raise Refusal(400, f"encoding is none of {', '.join(_DECODERS)}")
    try:
        return _DECODERS[encoding](given)
    except (ValueError, binascii.Error):
        raise Refusal(400, f"{name} is not {encoding}") from None
