"""The data of a `set` that came in pieces. Nothing is allocated for what was only announced."""

from __future__ import annotations

from barbicel.kestrel_compat.memcache.lines import DataHeader
from barbicel.kestrel_compat.memcache.requests import Bad, Set

__all__ = ["END_BYTES", "Body"]

# Meant to be CRLF; Kestrel does not look at them.
END_BYTES = 2


class Body:
    """Takes the bytes after a header until it is whole; without `keeps` they are counted and dropped."""

    __slots__ = ("_data", "_header", "_left_bytes")

    def __init__(self, header: DataHeader, keeps: bool) -> None:
        self._header = header
        self._left_bytes = header.data_bytes + END_BYTES
        self._data = bytearray() if keeps else None

    def take(self, buffer: bytes, position: int) -> int:
        """Where in the buffer the rest begins: at its end, unless the body is whole."""
        end = min(len(buffer), position + self._left_bytes)
        data_end = min(end, position + self._left_bytes - END_BYTES)
        if self._data is not None and data_end > position:
            self._data += buffer[position:data_end]
        self._left_bytes -= end - position
        return end

    @property
    def is_whole(self) -> bool:
        return not self._left_bytes

    @property
    def held_bytes(self) -> int:
        return 0 if self._data is None else len(self._data)

    def request(self) -> Set | Bad:
        return self._header.request(None if self._data is None else bytes(self._data))
