"""Runs the driver: the C program, compiled when it is first needed, or the Python one without a compiler."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from bench.kestrel.cores import DRIVER, pinned_to
from bench.kestrel.job import Job, Result, render_options
from bench.rounds import OUT, ROOT

__all__ = [
    "DriveFailed",
    "build_driver",
    "driver_command",
    "finish_driver",
    "finish_drivers",
    "run_driver",
    "start_driver",
]

SOURCE = Path(__file__).with_name("driver.c")
COMPILERS = ("cc", "gcc", "clang")
IN_PYTHON = (sys.executable, "-m", "bench.kestrel.python_driver")


class DriveFailed(RuntimeError):
    """A reply was not what it had to be, or the driver could not do its job."""


@cache
def driver_command() -> Sequence[str]:
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    return IN_PYTHON if compiler is None else (str(build_driver(compiler)),)


def build_driver(compiler: str) -> Path:
    """Named for its source, so that an old one is never run; another process may build it meanwhile."""
    built = OUT / f"kestrel-driver-{zlib.crc32(SOURCE.read_bytes()):08x}"
    if not built.exists():
        OUT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=OUT) as directory:
            unfinished = Path(directory, built.name)
            subprocess.run(
                [compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-o", unfinished, SOURCE], check=True
            )
            os.replace(unfinished, built)
    return built


def start_driver(job: Job, command: Sequence[str] | None = None) -> subprocess.Popen[str]:
    job = replace(job, host=socket.gethostbyname(job.host))
    with pinned_to(DRIVER):
        return subprocess.Popen(
            [*(command or driver_command()), *render_options(job)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )


def finish_driver(driver: subprocess.Popen[str]) -> Result:
    """Raises DriveFailed if a single reply was wrong."""
    out, complaint = driver.communicate()
    if driver.returncode != 0:
        raise DriveFailed(f"the driver has failed: {complaint.strip()}")
    result = Result(**json.loads(out))
    if result.errors:
        raise DriveFailed(f"{result.errors} errors, the first one: {result.first_error}")
    return result


def finish_drivers(*drivers: subprocess.Popen[str]) -> list[Result]:
    """If one has failed, the others have nothing to wait for."""
    try:
        return [finish_driver(driver) for driver in drivers]
    finally:
        for driver in drivers:
            driver.kill()
            driver.communicate()


def run_driver(job: Job, command: Sequence[str] | None = None) -> Result:
    return finish_driver(start_driver(job, command))
