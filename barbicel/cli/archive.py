"""A .tar.gz in memory: names and contents to bytes. No I/O, and the same bytes for the same contents."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from tarfile import TarInfo

__all__ = ["encode_archive"]

BLOCK_BYTES = 512
PERMISSIONS = 0o600


def encode_archive(directory: str, files: Mapping[str, bytes], modified_ms: int) -> bytes:
    """All files lie in one directory, so that unpacking them leaves no mess."""
    blocks = []
    for name, data in files.items():
        head = TarInfo(f"{directory}/{name}")
        head.size, head.mtime, head.mode = len(data), modified_ms // 1000, PERMISSIONS
        blocks += [head.tobuf(), data, b"\0" * (-len(data) % BLOCK_BYTES)]
    blocks.append(b"\0" * (2 * BLOCK_BYTES))
    return gzip.compress(b"".join(blocks), mtime=modified_ms // 1000)
