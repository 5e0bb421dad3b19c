"""Whether Spark can call back into this process, as a stream does for each of its batches.

py4j listens for that by select(2), which knows no file whose number is 1024 or more. With one of those the
listener ends, and the stream waits for it for ever.
"""

from __future__ import annotations

import socket

from barbicel.errors import BarbicelError

__all__ = ["check_callbacks"]

SELECT_FILES_MAX = 1024


def check_callbacks() -> None:
    """Raises BarbicelError if a socket that is opened now could not be waited for."""
    with socket.socket() as probe:
        if probe.fileno() >= SELECT_FILES_MAX:
            raise BarbicelError(
                f"this process has {SELECT_FILES_MAX} files open, and Spark could not call back into it",
                hint="run the job in a process of its own",
            )
