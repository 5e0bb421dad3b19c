"""Runs the scenarios of `java/ClientCheck.java` with a chosen Java client against any server.

The program is compiled once for each set of jars and kept beside them in the cache.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.rig.jars import JAVA, cache_directory, exclusive, jars
from tests.rig.jvm import class_path, java_command

__all__ = ["CLIENTS", "SCENARIOS", "Check", "ClientCheckFailed", "compiled", "run_scenario"]

# Sets of jars that hold a client.
CLIENTS = ("clients-4", "clients-3.9")
SCENARIOS = ("produce", "consume_assign", "consume_group", "admin")

COMPILE_DEADLINE_S = 120
SCENARIO_DEADLINE_S = 120
# The one source must do for 3.9 and 4.x: what 5.0 removes is all that 3.9 has.
JAVAC = ("javac", "-Xlint:all,-removal", "-Werror", "-proc:none")


@dataclass(frozen=True)
class Check:
    """One thing that a scenario has looked at."""

    name: str
    elapsed_ms: int


class ClientCheckFailed(AssertionError):
    """A scenario did not pass; the message has the check, and all that the client said."""


def run_scenario(
    client: str, scenario: str, bootstrap: str, *, deadline_s: float = SCENARIO_DEADLINE_S
) -> list[Check]:
    """What the scenario has checked, all of it passed.

    Raises `ClientCheckFailed` at the first check that did not, and `RigUnavailable` where Java is not.
    """
    paths = [compiled(client), *jars(client)]
    try:
        done = subprocess.run(
            java_command(paths, "ClientCheck", "--bootstrap", bootstrap, scenario),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=deadline_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        said = b"\n".join(filter(None, (error.stdout, error.stderr))).decode("utf-8", "replace")
        raise ClientCheckFailed(f"{client} {scenario}: not done in {deadline_s} s\n{said}") from None
    if done.returncode:
        said = f"{done.stdout}\n{done.stderr}"
        raise ClientCheckFailed(f"{client} {scenario} ended with {done.returncode}\n{said}")
    return [_parse(line) for line in done.stdout.splitlines()]


def _parse(line: str) -> Check:
    report = json.loads(line)
    if report["ok"] is not True:
        raise ClientCheckFailed(line)
    return Check(report["check"], report["elapsed_ms"])


def compiled(client: str) -> Path:
    """The directory of the program's classes, made for this client."""
    libraries = jars(client)
    sources = sorted(JAVA.glob("*.java"))
    digest = hashlib.sha256(repr((JAVAC, [str(path) for path in libraries])).encode())
    for source in sources:
        digest.update(source.name.encode() + source.read_bytes())
    target = cache_directory() / "classes" / f"{client}-{digest.hexdigest()[:16]}"
    with exclusive(target):
        if not target.exists():
            _compile(sources, libraries, target)
    return target


def _compile(sources: list[Path], libraries: list[Path], target: Path) -> None:
    """Publish the classes under their name when all of them are there."""
    with tempfile.TemporaryDirectory(prefix=f"{target.name}.", dir=target.parent) as partial:
        classes = Path(partial, "classes")
        done = subprocess.run(
            [*JAVAC, "-d", str(classes), "-cp", class_path(libraries), *map(str, sources)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMPILE_DEADLINE_S,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"ClientCheck does not compile:\n{done.stdout}{done.stderr}")
        classes.rename(target)
