"""The operating system's limit of open files, raised as far as the server may raise it."""

from __future__ import annotations

import logging
import resource
from contextlib import suppress

__all__ = ["raise_open_file_limit"]

_log = logging.getLogger(__name__)

# What Linux allows a process unless it was told otherwise, for systems whose limit is no number.
ENOUGH = 1 << 20


def raise_open_file_limit() -> int:
    """The limit that is in force from now on."""
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if most == resource.RLIM_INFINITY else most
    if before != resource.RLIM_INFINITY and before < wanted:
        # Some systems refuse what they call allowed; then it stays as it is.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    now, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    now = ENOUGH if now == resource.RLIM_INFINITY else now
    _log.info("%d files may be open at once (ulimit -n was %d)", now, before)
    return now
