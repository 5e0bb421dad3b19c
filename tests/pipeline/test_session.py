"""What a machine lacks is said before a JVM is started; what it has is set."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barbicel.disk import RealDisk
from barbicel.pipeline import PipelineUnavailable, jars, session
from barbicel.pipeline.jars import fetch_jars, find_jars, jar_directory, pinned_jars, pinned_version
from barbicel.pipeline.java import check_java
from tests.cli.support import run

GOOD = b"a jar"
ROOT = Path(__file__).parent.parent.parent

# Stands in for Maven: notes each call, and writes one jar where it is told to.
MAVEN = """#!/bin/sh
echo called >> "$CALLS"
for argument in "$@"; do
    case "$argument" in -DoutputDirectory=*) directory="${argument#*=}" ;; esac
done
/bin/mkdir -p "$directory"
printf '%s' "$CONTENT" > "$directory/some.jar"
echo "what Maven says"
exit "$STATUS"
"""


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One jar is pinned, and Maven does what the environment says."""
    write_program(tmp_path / "bin" / "mvn", MAVEN)
    pins = tmp_path / "pom.sha256"
    pins.write_text(f"{hashlib.sha256(GOOD).hexdigest()}  some.jar\n", encoding="ascii")
    monkeypatch.setattr(jars, "PINS", str(pins))
    for name, value in {
        "PATH": str(tmp_path / "bin"),
        "CALLS": str(tmp_path / "calls"),
        "CONTENT": GOOD.decode(),
        "STATUS": "0",
    }.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def leftovers(machine: Path) -> list[str]:
    return sorted(path.name for path in (machine / "cache").glob("*"))


def test_jars_are_fetched_once(machine: Path) -> None:
    directory = str(machine / "cache" / "jars")
    for _ in range(2):
        assert fetch_jars(RealDisk(), directory) == [f"{directory}/some.jar"]
    assert (machine / "calls").read_text() == "called\n"
    assert leftovers(machine) == ["jars"]


def test_jars_that_were_not_pinned_are_refused(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTENT", "another jar")
    with pytest.raises(PipelineUnavailable, match="some.jar: not the jar that was pinned"):
        fetch_jars(RealDisk(), str(machine / "cache" / "jars"))
    assert leftovers(machine) == []


def test_a_jar_that_was_changed_since_is_refused(machine: Path) -> None:
    directory = machine / "cache" / "jars"
    fetch_jars(RealDisk(), str(directory))
    (directory / "some.jar").write_bytes(b"another jar")
    with pytest.raises(
        PipelineUnavailable, match="not the jar that was pinned .delete the directory, then run"
    ):
        find_jars(RealDisk(), str(directory))


def test_what_maven_says_is_told(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATUS", "1")
    with pytest.raises(PipelineUnavailable, match="Maven cannot fetch the jars:\nwhat Maven says"):
        fetch_jars(RealDisk(), str(machine / "cache" / "jars"))
    assert leftovers(machine) == []


def test_without_maven_the_jars_are_named(machine: Path) -> None:
    (machine / "bin" / "mvn").unlink()
    with pytest.raises(
        PipelineUnavailable, match="into a directory and name it with BARBICEL_SPARK_JARS: some.jar"
    ):
        fetch_jars(RealDisk(), str(machine / "cache" / "jars"))


def test_where_the_jars_are() -> None:
    disk = RealDisk()
    ours = jar_directory(disk, {"XDG_CACHE_HOME": "/cache"})
    assert re.fullmatch("/cache/barbicel/jars/spark-[0-9a-f]{16}", ours)
    assert jar_directory(disk, {"HOME": "/home/me"}) == ours.replace("/cache", "/home/me/.cache", 1)
    assert jar_directory(disk, {"BARBICEL_SPARK_JARS": "/jars", "HOME": "/home/me"}) == "/jars"


def test_the_pins_are_those_of_the_pom() -> None:
    pom = Path(jars.POM).read_text(encoding="utf-8")
    names = re.findall(r"<artifactId>([^<]+)</artifactId>\n      <version>([^<]+)</version>", pom)
    version = pinned_version(RealDisk())
    expected = [f"{name}-{found.replace('${spark.version}', version)}.jar" for name, found in names]
    assert sorted(jar.name for jar in pinned_jars(RealDisk())) == sorted(expected)
    assert f"<spark.version>{version}</spark.version>" in pom
    assert f'"pyspark=={version}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert "http" not in pom.replace("http://maven.apache.org/POM/4.0.0", ""), "a registry is named"


# --- Java and Spark -------------------------------------------------------------------------------------


def test_without_java_it_says_what_to_install() -> None:
    with pytest.raises(PipelineUnavailable, match="there is no Java: /nowhere/bin/java .* .install Java 17"):
        check_java({"JAVA_HOME": "/nowhere"})


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "21" 2023-09-19 LTS', 21),
        ('java version "1.8.0_202"', "is Java 8, which is too old"),
        ("no such thing", "does not tell its version"),
    ],
)
def test_the_version_of_java(tmp_path: Path, told: str, expected: int | str) -> None:
    write_program(tmp_path / "bin" / "java", f"#!/bin/sh\nprintf '%s\\n' '{told}' >&2\n")
    if isinstance(expected, int):
        assert check_java({"JAVA_HOME": str(tmp_path)}) == expected
        return
    with pytest.raises(PipelineUnavailable, match=expected):
        check_java({"JAVA_HOME": str(tmp_path)})


def test_another_version_of_pyspark_is_refused() -> None:
    with pytest.raises(PipelineUnavailable, match="the Kafka connector is for 3.5.0: the two go together"):
        session._check_versions("3.5.0")


def test_without_pyspark_it_says_what_to_install(tmp_path: Path) -> None:
    """In a Python that has nothing but this package."""
    program = "from barbicel.pipeline import spark_session; spark_session()"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "pyspark is not installed (pip install 'barbicel[spark]')" in done.stderr


def test_the_command_says_where_the_jars_are(jars: list[str]) -> None:
    assert run("pipeline", "jars").output.split() == jars
    assert run("pipeline", "jars", "--paths").output.strip().split(",") == jars


def test_the_command_says_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARBICEL_SPARK_JARS", str(tmp_path))
    result = run("pipeline", "jars")
    assert result.exit_code == 2
    assert "a jar of Spark's Kafka connector is missing" in result.stderr


def test_a_session_has_everything_set(spark: SparkSession, jars: list[str]) -> None:
    assert spark.conf.get("spark.jars") == ",".join(jars)
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert spark.range(3).toArrow().to_pylist() == [{"id": 0}, {"id": 1}, {"id": 2}]
    workers = spark.sparkContext.parallelize([0]).map(lambda _: sys.executable).collect()
    assert workers == [sys.executable]
