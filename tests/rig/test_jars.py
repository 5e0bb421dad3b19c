"""Jars come once, whole, and as they were pinned; what a machine lacks is said."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import pytest

from tests.rig import jars as rig
from tests.rig.jars import RigUnavailable, checksums, jars

GOOD = b"a jar"

# Stands in for Maven: notes each call, and writes one jar where it is told to.
MAVEN = """#!/bin/sh
echo called >> "$CALLS"
for argument in "$@"; do
    case "$argument" in -DoutputDirectory=*) directory="${argument#*=}" ;; esac
done
mkdir -p "$directory"
printf '%s' "$CONTENT" > "$directory/some.jar"
exit "$STATUS"
"""


class Machine:
    """A cache, a set named `some`, and programs that do what the test says."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bin = directory / "bin"
        self.cache = directory / "cache"
        self._calls = directory / "calls"
        java = directory / "java"
        for path in (self.bin, java):
            path.mkdir()
        for program, text in {"mvn": MAVEN, "java": "", "javac": ""}.items():
            (self.bin / program).write_text(text, encoding="utf-8")
            (self.bin / program).chmod(0o755)
        (java / "pom-some.xml").write_text("<project/>", encoding="utf-8")
        pinned = f"{hashlib.sha256(GOOD).hexdigest()}  some.jar\n"
        (java / "pom-some.sha256").write_text(pinned, encoding="utf-8")
        settings = {
            "PATH": f"{self.bin}{os.pathsep}/usr/bin{os.pathsep}/bin",
            "XDG_CACHE_HOME": str(self.cache),
            "CALLS": str(self._calls),
            "CONTENT": GOOD.decode(),
            "STATUS": "0",
        }
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(rig, "JAVA", java)
        self._monkeypatch = monkeypatch
        self.forget()

    def forget(self) -> None:
        """As a new process knows nothing."""
        for name in ("_found", "_failed"):
            self._monkeypatch.setattr(rig, name, {})

    def calls(self) -> int:
        return len(self._calls.read_text(encoding="utf-8").splitlines()) if self._calls.exists() else 0

    def published(self) -> list[Path]:
        return list((self.cache / "barbicel" / "jars").glob("*/*.jar"))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_a_set_is_fetched_once(machine: Machine) -> None:
    found = jars("some")
    machine.forget()
    assert jars("some") == found == machine.published()
    assert found[0].read_bytes() == GOOD
    assert machine.calls() == 1


def test_who_comes_at_the_same_time_waits(machine: Machine) -> None:
    # Threads open the lock file anew, as processes do.
    asking = [threading.Thread(target=rig._provide, args=("some",)) for _ in range(4)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert machine.calls() == 1


def test_jars_that_were_not_pinned_are_refused(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTENT", "another jar")
    with pytest.raises(ValueError, match="not those that were pinned:\n.*some.jar"):
        jars("some")
    assert machine.published() == []


def test_a_download_that_fails_is_told_and_not_repeated(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATUS", "1")
    for _ in range(2):
        with pytest.raises(RigUnavailable, match="Maven cannot fetch some"):
            jars("some")
    assert (machine.calls(), machine.published()) == (1, [])


@pytest.mark.parametrize("program", ["mvn", "java", "javac"])
def test_what_the_machine_lacks_is_named(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setenv("PATH", str(machine.bin))
    (machine.bin / program).unlink()
    with pytest.raises(RigUnavailable, match=f"not on this machine: {program}$"):
        jars("some")


def test_every_set_has_its_pom_and_its_checksums() -> None:
    for suffix in ("xml", "sha256"):
        assert {path.stem for path in rig.JAVA.glob(f"*.{suffix}")} == {f"pom-{name}" for name in rig.JARS}


def test_checksums_are_those_of_sha256sum(tmp_path: Path) -> None:
    for name in ("b.jar", "a.jar", "c.txt"):
        (tmp_path / name).write_bytes(name.encode())
    names = [line.split("  ") for line in checksums(tmp_path).splitlines()]
    assert names == [[hashlib.sha256(name.encode()).hexdigest(), name] for name in ("a.jar", "b.jar")]
