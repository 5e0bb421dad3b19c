"""Thousands of streams: one at rest has no open file, no mapping, and asks nothing of the disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from barbicel.disk import RealDisk
from barbicel.tier.manifest_log.settings import ManifestSettings
from barbicel.tier.manifest_log.stream import ManifestStream
from tests.tier.manifest_log.builders import Clock, tiered

STREAMS = 60


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def mappings() -> int:
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return sum(".mlog" in line for line in maps)


def open_all(root: Path, clock: Clock) -> list[ManifestStream]:
    return [
        ManifestStream.open(
            str(root / f"t-{number}"),
            stream_id=f"t-{number}",
            disk=RealDisk(),
            clock=clock,
            settings=ManifestSettings(chunk_capacity_bytes=16 << 10, rotation_period_ms=250),
        )
        for number in range(STREAMS)
    ]


def test_streams_at_rest_hold_nothing_open(tmp_path: Path) -> None:
    clock = Clock()
    before = open_files()
    streams = open_all(tmp_path, clock)
    assert open_files() == before
    for stream in streams:
        stream.append(*tiered(0))
    assert mappings() == STREAMS
    clock.now_ms += 250
    for stream in streams:
        stream.maintain()
    assert (open_files(), mappings()) == (before, 0)
    for stream in streams:
        stream.append(*tiered(100))
        stream.close()
    # Opened again, with a chunk that was not sealed: still nothing, until it is written to.
    streams = open_all(tmp_path, clock)
    assert (open_files(), mappings()) == (before, 0)
    assert all(len(stream.catalogue.segments) == 2 for stream in streams)
    streams[7].append(*tiered(200))
    assert mappings() == 1
    streams[7].close()
    assert (open_files(), mappings()) == (before, 0)


def test_the_codec_of_a_crc_is_not_loaded_with_the_package() -> None:
    """Whoever has no tier does not pay for it."""
    script = "import sys, barbicel.cli.main; print('anycrc' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert found.stdout.strip() == "False"
