"""What commands read: the lines of a file or of the standard input, or all of it. Never all of it at once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import click

from barbicel.disk import RealDisk

__all__ = ["input_lines", "whole_input"]

CHUNK_BYTES = 1 << 18
# No server takes a larger message, so no line has to be larger.
MAX_BYTES = 256 << 20


def input_lines(path: str | None, passed: Callable[[int], None] = lambda _: None) -> Iterator[bytes]:
    """Without their ends; the last one may have none. `passed` is told how many bytes were read.

    Raises click.UsageError at a line that is too long, DiskError if the file cannot be read.
    """
    rest: list[bytes] = []
    rest_bytes = 0
    for chunk in _chunks(path):
        passed(len(chunk))
        *lines, last = chunk.split(b"\n")
        for line in lines:
            yield b"".join((*rest, line)).removesuffix(b"\r")
            rest, rest_bytes = [], 0
        rest.append(last)
        rest_bytes += len(last)
        if rest_bytes > MAX_BYTES:
            raise click.UsageError(f"a line has more than {MAX_BYTES} bytes")
    if rest_bytes:
        yield b"".join(rest)


def whole_input(path: str | None) -> Iterator[bytes]:
    """All of it as one."""
    pieces, size = [], 0
    for chunk in _chunks(path):
        pieces.append(chunk)
        size += len(chunk)
        if size > MAX_BYTES:
            raise click.UsageError(f"the input has more than {MAX_BYTES} bytes")
    yield b"".join(pieces)


def _chunks(path: str | None) -> Iterator[bytes]:
    if path is None:
        # As much as there is: whoever types wants each line to go at once.
        stream: Any = sys.stdin.buffer
        while chunk := stream.read1(CHUNK_BYTES):
            yield chunk
        return
    file = RealDisk().open(path, "read")
    try:
        position = 0
        while chunk := file.pread(CHUNK_BYTES, position):
            position += len(chunk)
            yield chunk
    finally:
        file.close()
