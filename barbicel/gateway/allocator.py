"""How the C library's allocator is to treat a server's buffers.

By itself glibc maps every large buffer anew and gives it back when it is freed: each megabyte that is read
for a fetch costs 256 page faults, more than reading it does. And every thread gets a heap of its own, each
of which grows to what its thread has once needed. A server frees such buffers to take the next ones at once,
and Python lets one thread at a time allocate. So: one heap, and what is freed stays for the next, up to a
bound.
"""

from __future__ import annotations

import ctypes

__all__ = ["keep_large_buffers"]

# mallopt(3): parameter → value.
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
M_ARENA_MAX = -8
OPTIONS = (
    (M_ARENA_MAX, 1),
    # The largest that it takes.
    (M_MMAP_THRESHOLD, 32 << 20),
    # What may lie at the end of the heap unused.
    (M_TRIM_THRESHOLD, 64 << 20),
)


def keep_large_buffers() -> None:
    """To be called once, before there are threads. Where the C library is not glibc nothing happens."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option, value in OPTIONS:
            mallopt(option, value)
