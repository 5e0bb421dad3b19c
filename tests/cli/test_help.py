"""The help of every command: an example to start from, its exit codes, and JSON for scripts."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import barbicel.cli.main
from barbicel.cli.main import VERBS
from tests.cli.live import invoke

COMMANDS = [
    (verb,) if group == "cli" else (group, verb)
    for group, verbs in VERBS.items()
    for verb in verbs
    if verb not in VERBS
]
# What prints a script, what runs until it is stopped, and what tells a directory.
WITHOUT_JSON = {("completion",), ("serve",), ("pipeline", "jars")}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_it_has_an_example_and_speaks_json(command: tuple[str, ...]) -> None:
    text = invoke(*command, "--help").stdout
    assert f"  barbicel {' '.join(command)}" in text.partition("Example")[2]
    assert re.search(r"exit codes?\b|ends with", text, re.IGNORECASE) or command == ("completion",)
    assert max(map(len, text.splitlines())) <= 100
    assert ("--json" in text) is (command not in WITHOUT_JSON)


@pytest.mark.parametrize("group", [group for group in VERBS if group != "cli"])
def test_a_group_of_verbs_tells_them(group: str) -> None:
    text = invoke(group, "--help").stdout
    assert all(verb in text for verb in VERBS[group])


def test_no_verb_hides_a_module_of_python() -> None:
    """spark-submit runs main.py as a file, and its directory comes first on the path then."""
    names = {path.stem for path in Path(barbicel.cli.main.__file__).parent.glob("*.py")}
    assert not names & set(sys.stdlib_module_names)
