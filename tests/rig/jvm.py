"""How the rig starts Java: class paths, small heaps, and what the kernel says about a process."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["CLIENT_OPTIONS", "bound_to_this_process", "class_path", "java_command", "peak_rss_bytes"]

# Clients live for seconds: without the optimising compiler they start sooner and leave the cores alone.
CLIENT_OPTIONS = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)

# Asks Linux for SIGKILL when the parent ends (PR_SET_PDEATHSIG is 1), and becomes the command. It is a
# program of its own because code between fork and exec is not safe where there are threads.
_BIND = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() != int(sys.argv[1]):
    sys.exit("whoever started this has ended")
os.execvp(sys.argv[2], sys.argv[2:])
"""


def bound_to_this_process(command: Sequence[str]) -> list[str]:
    """The command, with an end: it is killed with the thread that starts it, however that ends."""
    return [sys.executable, "-ISc", _BIND, str(os.getpid()), *command]


def class_path(paths: Sequence[Path]) -> str:
    return os.pathsep.join(map(str, paths))


def java_command(
    paths: Sequence[Path], main: str, *arguments: str, options: Sequence[str] = CLIENT_OPTIONS
) -> list[str]:
    """What starts a main class on a class path."""
    return ["java", *options, "-cp", class_path(paths), main, *arguments]


def peak_rss_bytes(pid: int) -> int:
    """The most memory that a running process has had at once."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"process {pid} has ended")
