"""The peers: what the same bytes cost without a log."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence

from crc32c import crc32c

from barbicel.keratin.settings import LogSettings

__all__ = ["append_bare", "scan_bare", "touch_blocks"]

SCAN_BUFFER_BYTES = 1 << 20
PAGE_BYTES = 4096
TOUCH_BYTES = 256 << 20


def touch_blocks(directory: str, files: int) -> None:
    """Write files of 256 MiB and remove them.

    A thin virtual disk is several times slower where it was never written before: that would be measured
    instead of the program. Each file gets a directory, as a log does: ext4 places it by that.
    """
    data = os.urandom(SCAN_BUFFER_BYTES)
    for number in range(files):
        os.mkdir(f"{directory}/touch-{number}")
        with open(f"{directory}/touch-{number}/file", "wb", buffering=0) as file:
            for _ in range(TOUCH_BYTES // len(data)):
                file.write(data)
            os.fdatasync(file.fileno())
    for number in range(files):
        shutil.rmtree(f"{directory}/touch-{number}")


def append_bare(directory: str, sizes: Sequence[int], *, preallocated: bool) -> float:
    """Seconds for one pwrite and one fdatasync for each size, into a file in a new directory, removed after.

    With `preallocated` the file grows ahead of its content in the steps that a segment takes.
    """
    data = memoryview(os.urandom(max(sizes)))
    os.mkdir(directory)
    fd = os.open(f"{directory}/file", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        os.sync()
        position = allocated_bytes = 0
        start = time.perf_counter()
        for size in sizes:
            end = position + size
            if preallocated and end > allocated_bytes:
                allocated_bytes = _grown(end)
                os.posix_fallocate(fd, 0, allocated_bytes)
            os.pwrite(fd, data[:size], position)
            os.fdatasync(fd)
            position = end
        return time.perf_counter() - start
    finally:
        os.close(fd)
        shutil.rmtree(directory)


def _grown(needed_bytes: int) -> int:
    """ActiveSegment's rule, with the settings that a log has by default."""
    settings = LogSettings()
    ahead = max(settings.preallocate_min_bytes, min(needed_bytes, settings.preallocate_max_bytes))
    return -(-(needed_bytes + ahead) // PAGE_BYTES) * PAGE_BYTES


def scan_bare(path: str) -> float:
    """Seconds to read a file through one buffer and to put every byte through a CRC-32C."""
    buffer = memoryview(bytearray(SCAN_BUFFER_BYTES))
    start = time.perf_counter()
    with open(path, "rb", buffering=0) as file:
        while filled := file.readinto(buffer):
            crc32c(buffer[:filled])
    return time.perf_counter() - start
