"""Who runs where: a server on one core, whoever drives it on the others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["DRIVER", "SERVER", "pinned_to"]

_AVAILABLE = sorted(os.sched_getaffinity(0))
SERVER = frozenset(_AVAILABLE[:1])
# With a single core both have to share it.
DRIVER = frozenset(_AVAILABLE[1:]) or SERVER


@contextmanager
def pinned_to(cores: frozenset[int]) -> Iterator[None]:
    """What is started meanwhile stays there, with every thread that it will have."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
