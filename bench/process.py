"""What the kernel says about this process."""

from __future__ import annotations

from pathlib import Path

__all__ = ["read_status"]


def read_status(name: str) -> int:
    """A number of /proc/self/status; sizes are in KiB.

    For a peak ask for VmHWM and not for ru_maxrss, which a process inherits from the one that started it.
    """
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise LookupError(name)
