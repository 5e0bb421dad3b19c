"""Checks of the disk that a data directory lies on: its room, its file system, and how fast it syncs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from statistics import median

from barbicel.cli.amounts import bytes_text
from barbicel.cli.checks.finding import Finding, Level, Subject
from barbicel.disk import Disk, parent
from barbicel.errors import DiskError

__all__ = ["check_file_system", "check_space", "check_syncs"]

MOUNTS_FILE = "/proc/self/mounts"
MOUNTS_MAX_BYTES = 4 << 20
SYNCS = 32
SYNC_BYTES = 4096
SYNC_SECONDS = 2.0
SLOW_MS = 20.0
LOW_RATIO = 0.1
# File system → what is wrong with a log on it.
UNFIT = {
    "tmpfs": "lives in memory: all is gone after a restart of the machine",
    "ramfs": "lives in memory: all is gone after a restart of the machine",
    "overlay": "is a container's own layer: all is gone with the container, and it is slow",
    "nfs": "is on another machine: locks and syncs there are not what a log needs",
    "nfs4": "is on another machine: locks and syncs there are not what a log needs",
    "cifs": "is on another machine: locks and syncs there are not what a log needs",
    "9p": "is the host's, shared: syncs there may promise more than they keep",
}


def nearest(disk: Disk, path: str) -> str:
    """The directory itself, or the nearest above it that exists."""
    while not disk.exists(path) and parent(path) != path:
        path = parent(path)
    return path


def check_space(subject: Subject) -> Iterator[Finding]:
    place = nearest(subject.disk, subject.layout.root)
    total, usable = subject.disk.space(place)
    text = f"{bytes_text(usable)} free of {bytes_text(total)}"
    advice = "free some room, shorten the retention of topics, or move segments to an object store"
    if usable < subject.config.admin_min_free_bytes:
        yield Finding(Level.FAULT, f"the disk is full: {text}", advice)
    elif usable < max(total * LOW_RATIO, 2 * subject.config.log_segment_bytes):
        yield Finding(Level.WARNING, f"the disk is nearly full: {text}", advice)
    else:
        yield Finding(Level.OK, text)


def check_file_system(subject: Subject) -> Iterator[Finding]:
    place = nearest(subject.disk, subject.layout.root)
    try:
        kind = _file_system(subject.disk, place)
    except DiskError:
        return  # not on Linux
    if kind in UNFIT:
        advice = "put data.directory on a local disk: ext4 or xfs; in a container, on a volume"
        yield Finding(Level.WARNING, f"{place} is on {kind}, which {UNFIT[kind]}", advice)
    elif kind is not None:
        yield Finding(Level.OK, f"{place} is on {kind}")


def _file_system(disk: Disk, place: str) -> str | None:
    """Of the mount that is nearest above the place; of two on one place the later counts."""
    file = disk.open(MOUNTS_FILE, "read")
    try:
        text = file.pread(MOUNTS_MAX_BYTES, 0).decode("utf-8", "replace")
    finally:
        file.close()
    best, kind = "", None
    for line in text.splitlines():
        _, mount, found, *_ = line.split(" ")
        mount = mount.replace("\\040", " ")
        is_above = place == mount or place.startswith(f"{mount.rstrip('/')}/")
        if is_above and len(mount) >= len(best):
            best, kind = mount, found
    return kind


def check_syncs(subject: Subject) -> Iterator[Finding]:
    """Writes and syncs a small file where the server would, and removes it."""
    disk = subject.disk
    candidates = (subject.layout.temporaries, subject.layout.root)
    place = next((path for path in candidates if disk.exists(path)), nearest(disk, subject.layout.root))
    try:
        took_ms = _time_syncs(disk, f"{place}/doctor-{os.getpid()}.tmp")
    except DiskError as error:
        yield Finding(Level.FAULT, f"cannot write there: {error}", f"let the server's user write to {place}")
        return
    typical, worst = median(took_ms), max(took_ms)
    text = f"a sync takes {typical:.2f} ms, at most {worst:.1f} ms of {len(took_ms)}"
    if typical > SLOW_MS:
        advice = (
            "take a disk with a protected write cache, or set durability = write and read docs/durability.md"
        )
        yield Finding(Level.WARNING, f"{text}: every durable answer waits for one", advice)
    else:
        yield Finding(Level.OK, text)


def _time_syncs(disk: Disk, path: str) -> list[float]:
    took_ms: list[float] = []
    deadline_s = time.monotonic() + SYNC_SECONDS
    file = disk.open(path, "create")
    try:
        while len(took_ms) < SYNCS and (not took_ms or time.monotonic() < deadline_s):
            file.append([b"\0" * SYNC_BYTES])
            started_s = time.perf_counter()
            file.fdatasync()
            took_ms.append((time.perf_counter() - started_s) * 1000)
    finally:
        file.close()
        disk.unlink(path)
    return took_ms
