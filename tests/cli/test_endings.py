"""Every way to end other than with an answer has its own exit code, and at most one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from barbicel.cli.endings import (
    EXIT_CRASHED,
    EXIT_INTERRUPTED,
    EXIT_NO_READER,
    EXIT_OUTPUT_FAILED,
    EXIT_REFUSED,
)
from tests.cli.support import environment, run, tear

ANSWERS = range(4)


def test_no_ending_looks_like_an_answer() -> None:
    endings = [EXIT_CRASHED, EXIT_INTERRUPTED, EXIT_NO_READER, EXIT_OUTPUT_FAILED]
    assert endings == [70, 130, 141, 74]
    assert not set(endings) & set(ANSWERS)
    assert EXIT_REFUSED == 2


def barbicel(
    *arguments: str, stdout: int = subprocess.PIPE, stderr: int = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "barbicel.cli.main", *arguments],
        env=environment(),
        stdout=stdout,
        stderr=stderr,
        text=True,
        check=False,
        timeout=60,
    )


def test_as_a_process_a_refusal_is_one_line_without_a_traceback(tmp_path: Path) -> None:
    done = barbicel("log", "verify", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"Error: {tmp_path}: not a log: there is neither a manifest.bin nor a segments directory\n"
    )


def test_as_a_process_the_exit_code_is_the_verdict(log: Path) -> None:
    tear(log)
    assert barbicel("log", "verify", str(log)).returncode == 1


# --- the program itself ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "verb", "broken"),
    [
        ("log", "verify", "barbicel.cli.log_verify.look"),
        ("log", "repair", "barbicel.cli.log_repair.look"),
        ("group", "verify", "barbicel.cli.group_verify.look"),
    ],
)
@pytest.mark.parametrize(
    "error", [IndexError("list index\nout of range"), RecursionError("too deep"), MemoryError()], ids=repr
)
def test_a_crash_is_not_taken_for_a_verdict(
    monkeypatch: pytest.MonkeyPatch, family: str, verb: str, broken: str, error: Exception
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(broken, fail)
    result = run(family, verb, "anywhere")
    assert (result.exit_code, result.stdout) == (EXIT_CRASHED, "")
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith(f"Error: this is a fault of barbicel itself: {type(error).__name__}: ")
    assert "(test_endings.py, line " in result.stderr


WAIT_TO_BE_INTERRUPTED = """
import signal
import sys
import barbicel.cli.log_verify
from barbicel.cli.main import main

def wait(*arguments, **options):
    print("waiting", flush=True)
    signal.pause()

barbicel.cli.log_verify.look = wait
sys.argv[1:] = ["log", "verify", "anywhere"]
main()
"""


def test_an_interrupt_is_one_line() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WAIT_TO_BE_INTERRUPTED],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        told = process.communicate(timeout=60)
    assert (process.returncode, told) == (EXIT_INTERRUPTED, ("", "Error: interrupted\n"))


# --- its output -----------------------------------------------------------------------------------

PRINTING = [
    ["log", "verify", "LOG"],
    ["log", "inspect", "LOG", "--json"],
    ["--help"],
    ["log", "verify", "--help"],
]


def with_log(arguments: list[str], log: Path) -> list[str]:
    return [str(log) if item == "LOG" else item for item in arguments]


def closed_pipe() -> int:
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
def test_nothing_is_said_if_nobody_reads_on(log: Path, arguments: list[str]) -> None:
    writer = closed_pipe()
    done = barbicel(*with_log(arguments, log), stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (EXIT_NO_READER, "")


@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
def test_an_output_that_is_full_is_told(log: Path, arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = barbicel(*with_log(arguments, log), stdout=full.fileno())
    assert done.returncode == EXIT_OUTPUT_FAILED
    assert done.stderr == "Error: the output cannot be written: No space left on device\n"


def test_an_error_that_cannot_be_told_is_still_no_answer(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        assert barbicel("log", "verify", str(tmp_path), stderr=full.fileno()).returncode == EXIT_OUTPUT_FAILED
    writer = closed_pipe()
    assert barbicel("log", "verify", str(tmp_path), stderr=writer).returncode == EXIT_NO_READER
    os.close(writer)


def test_without_an_output_the_exit_code_is_the_answer(log: Path) -> None:
    tear(log)
    command = f"{sys.executable} -m barbicel.cli.main log verify {log} >&- 2>&-"
    assert subprocess.run(["sh", "-c", command], env=environment(), check=False).returncode == 1
