"""docs/quick_start.md: every command in it does what the page says."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.live import Live, invoke
from tests.support.gateway import running_gateway

PAGE = Path(__file__).parent.parent.parent / "docs" / "quick_start.md"
# What the page's later commands show.
EXPECTED = {
    "barbicel consume payments --group billing --count 1": 1,
    "barbicel consume payments --group billing": 1,
    "barbicel queue get jobs": 1,
    "barbicel consume jobs": 2,
    "barbicel queue get jobs --all": 2,
}


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Live]:
    with running_gateway(tmp_path) as gateway:
        yield Live(gateway)


def commands() -> list[str]:
    lines = re.findall(r"^    ((?:printf|echo|barbicel) .*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [line.partition(" > ")[0] for line in lines]


def test_every_command_of_the_page(fresh: Live) -> None:
    found = commands()
    assert set(EXPECTED) <= set(found)
    for command in found:
        before, _, own = command.rpartition(" | ")
        stdin = (
            subprocess.run(["sh", "-c", before], capture_output=True, check=True).stdout if before else b""
        )
        result = invoke(*shlex.split(own)[1:], stdin=stdin, env=fresh.settings())
        assert result.exit_code == 0 or (own == "barbicel doctor" and result.exit_code == 1), (
            command,
            result.output,
        )
        if command in EXPECTED:
            assert len(result.stdout.splitlines()) == EXPECTED[command], (command, result.stdout)
