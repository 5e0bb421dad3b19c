"""`barbicel completion`: the scripts of three shells, and what they then get."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.live import invoke
from tests.cli.support import environment


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(shell: str) -> None:
    result = invoke("completion", shell)
    assert result.exit_code == 0
    assert f"_BARBICEL_COMPLETE={shell}_complete" in result.stdout.replace("env ", "")


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("barbicel to", {"top", "topic"}),
        ("barbicel queue p", {"put", "peek"}),
        ("barbicel consume --fr", {"--from"}),
    ],
)
def test_what_the_script_is_answered(typed: str, completed: set[str]) -> None:
    words = typed.split()
    env = {
        **environment(),
        "_BARBICEL_COMPLETE": "bash_complete",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "barbicel.cli.main"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert {line.partition(",")[2] for line in done.stdout.splitlines()} == completed


def test_another_shell_is_refused() -> None:
    assert invoke("completion", "cmd").exit_code == 2
