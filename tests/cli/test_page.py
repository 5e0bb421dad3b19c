"""How text is laid out: broken for a terminal, whole for everything else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from barbicel.keratin import Log, NewRecord
from tests.cli.support import environment, flip, position, run, run_on_terminal, segment

LOSS = f"  segments/{4:020d}.log at byte {position(1)}: the record's crc32c does not match"


@pytest.fixture
def damaged(log: Path) -> Path:
    flip(segment(log, 4), position(1) + 40)
    return log


def shown_on_a_terminal(*arguments: str) -> str:
    """What a real terminal of 80 columns gets, without its escapes."""
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "barbicel.cli.main", *arguments],
        env=environment(),
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    ):
        os.close(theirs)
        received = b""
        try:
            while chunk := os.read(ours, 1 << 16):
                received += chunk
        except OSError:  # how a terminal tells that the other side is gone
            pass
    os.close(ours)
    return re.sub(r"\x1b\[[0-9]*m", "", received.decode()).replace("\r\n", "\n")


def test_what_is_no_terminal_gets_a_statement_a_line(damaged: Path) -> None:
    lines = run("log", "verify", damaged, "--deep").stdout.splitlines()
    assert len(LOSS) > 80
    assert LOSS in lines
    assert not any("\x1b" in line for line in lines)


def test_a_terminal_gets_lines_that_are_broken_between_words(damaged: Path) -> None:
    shown = shown_on_a_terminal("log", "verify", str(damaged), "--deep")
    assert shown == run_on_terminal("log", "verify", damaged, "--deep").stdout
    assert LOSS not in shown
    assert " ".join(LOSS.split()) in " ".join(shown.split())
    assert not any(line.endswith(" ") for line in shown.splitlines())


@pytest.mark.parametrize("show", [run, run_on_terminal])
def test_the_widest_numbers_fit_eighty_columns(tmp_path: Path, show: Callable[..., Result]) -> None:
    with Log.open(str(tmp_path / "log")) as opened:
        for _ in range(3):
            opened.append([NewRecord(b"x", span=(1 << 32) - 1)])
            opened.roll()
    shown = show("log", "inspect", tmp_path / "log", "--deep").stdout.splitlines()
    assert max(map(len, shown[1:])) <= 80
    assert any(str(3 * ((1 << 32) - 1)) in line for line in shown)


def test_a_word_that_is_too_long_is_left_whole(groups: Path) -> None:
    """It may be a path, which must stay one to be copied. A table folds it, to stay a table."""
    (groups / ("x" * 100)).write_bytes(b"")
    assert "\n  " + "x" * 100 + "\n" in run("group", "verify", groups).stdout
    rows = run("group", "inspect", groups).stdout.splitlines()
    assert any("ü" * 120 in row for row in rows)


def test_an_output_that_knows_no_umlauts_gets_escapes(groups: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "barbicel.cli.main", "group", "inspect", str(groups)],
        env={**environment(), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"\xfc" * 120 in done.stdout
    assert b"n\\u0153ud" in done.stdout
