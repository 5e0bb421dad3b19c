"""Checks of the machine itself: Python, its packages, open files, the clock, and Java for Spark."""

from __future__ import annotations

import ctypes
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from barbicel.cli.checks.finding import Finding, Level, Subject
from barbicel.cli.page import time_text
from barbicel.clock import wall_clock_ms

__all__ = [
    "check_clock",
    "check_java",
    "check_open_files",
    "check_packages",
    "check_python",
    "package_versions",
]

LEAST_PYTHON = (3, 11)
ENOUGH_FILES = 65_536
FEW_FILES = 1024
# Of adjtimex(2): the clock follows no other one.
TIME_ERROR = 5
TIMEX_BYTES = 512
AHEAD_MS = 60_000
# Versions that Spark 4 runs on.
JAVA_VERSIONS = (17, 21)
JAVA_SECONDS = 20
_REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+")
_JAVA = re.compile(r'version "(?:1\.)?([0-9]+)')


def check_python(_: Subject) -> Iterator[Finding]:
    text = sys.version.split()[0]
    if sys.version_info < LEAST_PYTHON:
        yield Finding(Level.FAULT, f"Python {text} is too old", "install Python 3.11 or newer")
    else:
        yield Finding(Level.OK, f"Python {text}")


def check_packages(_: Subject) -> Iterator[Finding]:
    missing = [name for name, found in package_versions().items() if found is None]
    if missing:
        names = ", ".join(missing)
        yield Finding(
            Level.FAULT, f"packages are missing: {names}", "install barbicel again, with its packages"
        )
    else:
        yield Finding(Level.OK, "all packages are there")


def package_versions() -> dict[str, str | None]:
    """What barbicel needs to run, and which version is there; None is what is not."""
    try:
        needed = [text for text in requires("barbicel") or () if "extra ==" not in text]
    except PackageNotFoundError:  # run from its sources
        needed = ["click", "cramjam", "kafka-python", "obstore", "rich", "twisted"]
    names = sorted(found[0] for text in needed if (found := _REQUIREMENT.match(text)))
    return {name: _version(name) for name in names}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def check_open_files(_: Subject) -> Iterator[Finding]:
    """The server raises its own limit to the hard one."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    advice = "raise the hard limit: ulimit -Hn, LimitNOFILE of systemd, --ulimit nofile of Docker"
    if most == resource.RLIM_INFINITY or most >= ENOUGH_FILES:
        yield Finding(Level.OK, "as many open files as are needed")
    elif most <= FEW_FILES:
        yield Finding(
            Level.WARNING, f"at most {most} open files: enough for about {most // 6} partitions", advice
        )
    else:
        yield Finding(Level.WARNING, f"at most {most} open files; a partition needs 3, a client 1", advice)


def check_clock(subject: Subject) -> Iterator[Finding]:
    now_ms = wall_clock_ms()
    newest_ms = _newest_ms(subject)
    if newest_ms > now_ms + AHEAD_MS:
        yield Finding(
            Level.FAULT,
            f"the clock says {time_text(now_ms)} UTC, and there is data of {time_text(newest_ms)}",
            "set the clock before the server starts: retention and timestamps follow it",
        )
    elif _is_clock_alone():
        yield Finding(
            Level.WARNING,
            "the clock follows no other one",
            "start a time service (chrony, systemd-timesyncd), unless the machine's host keeps the clock",
        )
    else:
        yield Finding(Level.OK, f"it is {time_text(now_ms)} UTC")


def _newest_ms(subject: Subject) -> int:
    layout = subject.layout
    paths = (layout.root, layout.cluster_file, layout.topics, layout.groups, layout.lock)
    return max((subject.disk.modified_ms(path) for path in paths if subject.disk.exists(path)), default=0)


def _is_clock_alone() -> bool:
    """False where the system does not say."""
    try:
        # The first field is what to change: zeros ask, and change nothing.
        state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(TIMEX_BYTES))
    except (OSError, AttributeError):
        return False
    return bool(state == TIME_ERROR)


def check_java(_: Subject) -> Iterator[Finding]:
    """Only Spark needs it, so nothing here is a fault."""
    try:
        done = subprocess.run(["java", "-version"], capture_output=True, timeout=JAVA_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        yield Finding(Level.OK, "there is no Java; only the Spark pipeline needs it")
        return
    found = _JAVA.search(done.stderr.decode("utf-8", "replace"))
    if found is None:
        yield Finding(
            Level.OK, "there is a java that does not say its version; only the Spark pipeline needs it"
        )
    elif int(found[1]) not in JAVA_VERSIONS:
        yield Finding(
            Level.WARNING,
            f"Java {found[1]}",
            "the Spark pipeline needs Java 17 or 21; nothing else needs Java",
        )
    else:
        yield Finding(Level.OK, f"Java {found[1]}")
