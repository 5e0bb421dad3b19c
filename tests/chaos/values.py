"""The bytes of a value: whoever reads them knows who sent them where, and that none was changed."""

from __future__ import annotations

from tests.chaos.history import Stream, Value

__all__ = ["decode_value", "encode_value"]

# Sizes go around, so that batches and segments end anywhere.
SIZES = (120, 900, 2_500, 300, 5_000, 60, 1_700)
MAX_DIGITS = 20


def encode_value(value: Value, size: int | None = None) -> bytes:
    """The size follows from the sequence unless it is given."""
    stream, sequence = value
    wanted = SIZES[sequence % len(SIZES)] if size is None else size
    start = f"{stream.producer} {stream.partition} {sequence} {wanted} ".encode()
    return (start * (wanted // len(start) + 1))[: max(wanted, len(start))]


def decode_value(data: bytes | None) -> Value | None:
    """None for bytes that encode_value did not make."""
    data = data or b""
    parts = data.split(b" ", 4)
    if len(parts) < 5 or not all(part.isdigit() and len(part) < MAX_DIGITS for part in parts[1:4]):
        return None
    value = Value(Stream(parts[0].decode("utf-8", "replace"), int(parts[1])), int(parts[2]))
    size = int(parts[3])
    return value if size <= len(data) and encode_value(value, size) == data else None
