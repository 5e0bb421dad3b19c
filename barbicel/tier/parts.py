"""Pieces of any size as parts of one size, and the MD5s that S3 builds its etags from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from barbicel.disk import Bytes
from barbicel.tier.given import Given

__all__ = ["Parts"]


class Parts:
    """An iterator of parts that all have `part_bytes`, but the last. Holds one part and one piece."""

    def __init__(self, pieces: Iterator[Bytes], part_bytes: int) -> None:
        self.size = 0
        self._parts = Given(_cut(pieces, part_bytes))
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._digests: list[bytes] = []

    def __iter__(self) -> Parts:
        return self

    def __next__(self) -> bytes:
        part = next(self._parts)
        self.size += len(part)
        self._md5.update(part)
        self._digests.append(hashlib.md5(part, usedforsecurity=False).digest())
        return part

    @property
    def error(self) -> BaseException | None:
        """What the pieces themselves have raised, if anything."""
        return self._parts.error

    @property
    def md5_hex(self) -> str:
        """Of all parts so far."""
        return self._md5.hexdigest()

    @property
    def etag(self) -> str:
        """Of the parts so far as one multipart upload, without quotes."""
        whole = hashlib.md5(b"".join(self._digests), usedforsecurity=False)
        return f"{whole.hexdigest()}-{len(self._digests)}"


def _cut(pieces: Iterator[Bytes], part_bytes: int) -> Iterator[bytes]:
    held: list[memoryview] = []
    held_bytes = 0
    for piece in pieces:
        view = memoryview(piece)
        while held_bytes + len(view) >= part_bytes:
            room = part_bytes - held_bytes
            yield b"".join((*held, view[:room]))
            held, held_bytes, view = [], 0, view[room:]
        if view:
            held.append(view)
            held_bytes += len(view)
    if held:
        yield b"".join(held)
