"""The jars of the rig: which sets there are, and a place on this machine that has them.

`java/pom-<name>.xml` names a set, `java/pom-<name>.sha256` every jar of it. A directory of the cache
appears under its name only when all its jars are there and have their checksums; it is not changed
afterwards. Processes that need the same set wait for the one that fetches it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

__all__ = ["JARS", "JAVA", "RigUnavailable", "cache_directory", "checksums", "copy_jars", "exclusive", "jars"]

JAVA = Path(__file__).parent / "java"

# A set, and what it is for.
JARS: Mapping[str, str] = {
    "kafka-server": "a real Apache Kafka",
    "clients-4": "the newest Java client",
    "clients-3.9": "the Java client that Spark uses",
    "performance-tools": "Kafka's own producer and consumer benchmarks",
}

# The first download fetches Maven's plugin as well.
DOWNLOAD_DEADLINE_S = 600

# What one process has found out; a download that failed is not tried again by every test.
_found: dict[str, list[Path]] = {}
_failed: dict[str, str] = {}


class RigUnavailable(Exception):
    """The rig cannot run on this machine; the message says what is missing."""


def jars(name: str) -> list[Path]:
    """The class path of a set, fetched if it is not here yet. Raises RigUnavailable."""
    if name in _failed:
        raise RigUnavailable(_failed[name])
    if name not in _found:
        try:
            _found[name] = _provide(name)
        except RigUnavailable as error:
            _failed[name] = str(error)
            raise
    return _found[name]


def cache_directory() -> Path:
    """Where what the rig fetches and compiles stays between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "barbicel"


def checksums(directory: Path) -> str:
    """The lines of `sha256sum` for the jars of a directory, by name."""
    files = sorted(directory.glob("*.jar"))
    return "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)


@contextmanager
def exclusive(target: Path) -> Iterator[None]:
    """While this runs, no other process that asks for the same target does."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def copy_jars(name: str, directory: Path) -> None:
    """Have Maven put the jars of a set into a directory. Raises RigUnavailable."""
    _need("mvn")
    try:
        done = subprocess.run(
            _maven_command(name, directory),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_DEADLINE_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise RigUnavailable(f"Maven has not fetched {name} in {DOWNLOAD_DEADLINE_S} s") from error
    if done.returncode:
        raise RigUnavailable(f"Maven cannot fetch {name}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def _maven_command(name: str, directory: Path) -> list[str]:
    return [
        "mvn",
        "--batch-mode",
        "--quiet",
        "--strict-checksums",
        f"--file={JAVA / f'pom-{name}.xml'}",
        "dependency:copy-dependencies",
        f"-DoutputDirectory={directory}",
        "-DincludeScope=runtime",
    ]


def _provide(name: str) -> list[Path]:
    _need("java", "javac")
    pom, expected = (JAVA / f"pom-{name}{suffix}" for suffix in (".xml", ".sha256"))
    key = hashlib.sha256(pom.read_bytes() + expected.read_bytes()).hexdigest()[:16]
    target = cache_directory() / "jars" / f"{name}-{key}"
    with exclusive(target):
        if not target.exists():
            _fetch(name, expected.read_text(encoding="utf-8"), target)
    return sorted(target.glob("*.jar"))


def _need(*programs: str) -> None:
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        raise RigUnavailable(f"not on this machine: {', '.join(missing)}")


def _fetch(name: str, expected: str, target: Path) -> None:
    """Publish a set under its name when it is complete and is what was pinned."""
    with tempfile.TemporaryDirectory(prefix=f"{target.name}.", dir=target.parent) as partial:
        copy_jars(name, Path(partial, "jars"))
        found = checksums(Path(partial, "jars"))
        if found != expected:
            differing = sorted(set(found.splitlines()) ^ set(expected.splitlines()))
            # Not RigUnavailable: jars that are not the pinned ones are no reason to skip a test.
            raise ValueError(f"the jars of {name} are not those that were pinned:\n" + "\n".join(differing))
        Path(partial, "jars").rename(target)
