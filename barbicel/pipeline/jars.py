"""The jars of Spark's Kafka connector: which they are, where this machine has them, and how they come there.

`pom.xml` names them, `pom.sha256` has the checksum of each. A directory of the cache appears under its name
only when all jars are there and are the pinned ones; it is named for both files, so that other pins have
another one. No registry is named here: Maven has its own settings for that.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from hashlib import sha256
from os import getpid
from pathlib import PurePosixPath
from typing import NamedTuple

from barbicel.disk import Disk, parent, read_file, remove_tree
from barbicel.pipeline.unavailable import PipelineUnavailable

__all__ = ["PinnedJar", "fetch_jars", "find_jars", "jar_directory", "pinned_jars", "pinned_version"]

HERE = str(PurePosixPath(__file__).parent)
POM = f"{HERE}/pom.xml"
PINS = f"{HERE}/pom.sha256"
# Instead of the cache: a directory that somebody has filled.
DIRECTORY_VARIABLE = "BARBICEL_SPARK_JARS"

HOW = (
    "run `make spark-jars` or `barbicel pipeline jars`, once for this machine;"
    f" if {DIRECTORY_VARIABLE} names the directory, put the jars into it"
)
KEY_DIGITS = 16
MAX_TEXT_BYTES = 1 << 20
MAX_JAR_BYTES = 1 << 28
# The first time Maven fetches its own plugin as well.
DOWNLOAD_DEADLINE_S = 600
TOLD_CHARACTERS = 2000

_PIN = re.compile(r"(?P<sum>[0-9a-f]{64})  (?P<name>[A-Za-z0-9._-]+\.jar)")
_CONNECTOR = re.compile(r"spark-sql-kafka-0-10_[0-9.]+-(?P<version>[0-9.]+)\.jar")


class PinnedJar(NamedTuple):
    name: str
    sha256: str


def pinned_jars(disk: Disk) -> list[PinnedJar]:
    text = read_file(disk, PINS, MAX_TEXT_BYTES).decode("ascii")
    return [
        PinnedJar(found["name"], found["sum"]) for found in map(_PIN.fullmatch, text.splitlines()) if found
    ]


def pinned_version(disk: Disk) -> str:
    """The version of Spark that the connector is for."""
    (version,) = (found["version"] for jar in pinned_jars(disk) if (found := _CONNECTOR.fullmatch(jar.name)))
    return version


def jar_directory(disk: Disk, environment: Mapping[str, str]) -> str:
    """Where the jars are, or will be."""
    if given := environment.get(DIRECTORY_VARIABLE):
        return given
    cache = environment.get("XDG_CACHE_HOME") or f"{environment.get('HOME') or '/tmp'}/.cache"
    pins = b"".join(read_file(disk, path, MAX_TEXT_BYTES) for path in (POM, PINS))
    return f"{cache}/barbicel/jars/spark-{sha256(pins).hexdigest()[:KEY_DIGITS]}"


def find_jars(disk: Disk, directory: str) -> list[str]:
    """The paths of all pinned jars. Raises PipelineUnavailable if one is missing or is not the pinned one."""
    pinned = pinned_jars(disk)
    for jar in pinned:
        path = f"{directory}/{jar.name}"
        if disk.size(path) is None:
            raise PipelineUnavailable("a jar of Spark's Kafka connector is missing", path=path, hint=HOW)
        if sha256(read_file(disk, path, MAX_JAR_BYTES)).hexdigest() != jar.sha256:
            hint = f"delete the directory, then {HOW}"
            raise PipelineUnavailable("not the jar that was pinned", path=path, hint=hint)
    return [f"{directory}/{jar.name}" for jar in pinned]


def fetch_jars(disk: Disk, directory: str) -> list[str]:
    """The paths of all pinned jars, which Maven has brought if they were not there.

    The directory appears when everything in it is checked. Raises PipelineUnavailable.
    """
    if disk.exists(directory):
        return find_jars(disk, directory)
    # Others may fetch at the same time: each has its own directory until then.
    partial = f"{directory}.partial-{getpid()}"
    disk.make_directory(parent(directory))
    try:
        _run_maven(disk, partial)
        find_jars(disk, partial)
        if not disk.exists(directory):
            disk.rename(partial, directory)
            disk.sync_directory(parent(directory))
    finally:
        if disk.exists(partial):
            remove_tree(disk, partial)
    return find_jars(disk, directory)


def _maven_command(directory: str) -> Sequence[str]:
    return (
        "mvn",
        "--batch-mode",
        "--quiet",
        "--strict-checksums",
        f"--file={POM}",
        "dependency:copy-dependencies",
        f"-DoutputDirectory={directory}",
        "-DincludeScope=runtime",
    )


def _run_maven(disk: Disk, directory: str) -> None:
    try:
        done = subprocess.run(
            _maven_command(directory),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_DEADLINE_S,
            check=False,
        )
    except FileNotFoundError:
        names = ", ".join(jar.name for jar in pinned_jars(disk))
        hint = f"install it; or put these into a directory and name it with {DIRECTORY_VARIABLE}: {names}"
        raise PipelineUnavailable("Maven (mvn) is not on this machine", hint=hint) from None
    except subprocess.TimeoutExpired:
        raise PipelineUnavailable(f"Maven has not fetched the jars in {DOWNLOAD_DEADLINE_S} s") from None
    if done.returncode:
        told = f"{done.stdout}{done.stderr}".strip()[:TOLD_CHARACTERS]
        raise PipelineUnavailable(f"Maven cannot fetch the jars:\n{told}")
