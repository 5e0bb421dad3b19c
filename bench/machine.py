"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

__all__ = ["describe_machine"]


def describe_machine(data: Path) -> dict[str, str]:
    """Facts by name; the file system is the one that `data` lies on."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cores": f"{os.cpu_count()} ({_processor()})",
        "memory": f"{memory_bytes / (1 << 30):.1f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "file system": _file_system(data),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _file_system(path: Path) -> str:
    """The type of the mount that the path lies in: the one with the longest matching directory."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    holding = [mount for mount in mounts if path.resolve().is_relative_to(mount[1])]
    return max(holding, key=lambda mount: len(mount[1]))[2]
