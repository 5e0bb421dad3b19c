"""Twisted without OpenSSL: its TCP and its reactors import that wherever it is installed, which takes a tenth
of a second that a server without TLS need not wait for.

One with TLS imports it when it opens its certificates, and puts it around connections itself: see
access/tls.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["without_tls"]

LIBRARY = "OpenSSL"


@contextmanager
def without_tls() -> Iterator[None]:
    """What is imported within this does not find it, unless it was imported before."""
    if LIBRARY in sys.modules:
        yield
        return
    modules: dict[str, Any] = sys.modules
    modules[LIBRARY] = None  # which makes importing it fail
    try:
        yield
    finally:
        del modules[LIBRARY]
