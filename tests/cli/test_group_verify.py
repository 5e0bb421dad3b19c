"""Groups harmed in every way: what is said of them, and nothing is changed."""

from __future__ import annotations

from pathlib import Path

from barbicel.codecs.stroma_events import (
    Ack,
    encode_event,
)
from tests.cli.group_support import (
    BILLING,
    EACH_CASE,
    KEYS,
    LONG,
    Harm,
    delta,
    flip_in_snapshot,
    name,
    told,
    told_group,
)
from tests.cli.support import run, run_on_terminal, snapshot, words


@EACH_CASE
def test_looking_tells_what_is_wrong_and_changes_nothing(
    groups: Path, harm: Harm, exit_code: int, left: set[int], kept: int, text: str
) -> None:
    harm(groups)
    (groups / "LOCK").unlink()
    (groups / "tmp").rmdir()
    before = snapshot(groups)
    for verb in ("verify", "repair"):
        result = run("group", verb, groups)
        assert (result.exit_code, result.stderr) == (exit_code, "")
        assert text in words(result)
        assert words(run_on_terminal("group", verb, groups)) == words(result)
        assert run("group", verb, groups, "--json").exit_code == exit_code
    verdict = {0: "sound", 1: "recoverable", 3: "damaged"}[exit_code]
    assert told(groups)["verdict"] == verdict
    assert told_group(groups, BILLING)["verdict"] == verdict
    for depth in ([], ["--deep"]):
        inspected = run("group", "inspect", groups, *depth)
        assert (inspected.exit_code, inspected.stderr) == (0, "")
        assert text in words(inspected)
        assert run_on_terminal("group", "inspect", groups, *depth).exit_code == 0
    assert snapshot(groups) == before


def test_whole_events_behind_a_torn_place_are_told(groups: Path) -> None:
    with delta(groups).open("ab") as file:
        file.write(bytes(20) + encode_event(Ack(40)) * 2)
    assert "behind it whole events: 2" in words(run("group", "verify", groups))
    assert told_group(groups, BILLING)["torn"]["whole_events"] == 2


def test_filters_choose_groups(groups: Path) -> None:
    def chosen(*arguments: str) -> list[str]:
        return [item["group"] for item in told(groups, *arguments)["groups"]]

    assert chosen() == [key.group for key in KEYS]
    assert chosen("--topic", "orders") == ["audit", "billing", LONG.group]
    assert chosen("--topic", "orders", "--partition", "3") == ["audit", "billing"]
    assert chosen("--group", "mail") == ["mail"]
    assert chosen("--group", LONG.group) == [LONG.group]
    assert chosen("--topic", "orders", "--partition", "3", "--group", "billing") == ["billing"]
    flip_in_snapshot(groups)
    assert run("group", "verify", groups, "--group", "audit").exit_code == 0
    assert run("group", "verify", groups, "--group", "billing").exit_code == 3
    for verb in (["inspect"], ["verify"], ["repair"], ["repair", "--apply"]):
        result = run("group", *verb, groups, "--topic", "nobody's")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "no group here is the one that was asked for" in result.stderr


def test_a_name_without_a_group_is_no_groups(groups: Path) -> None:
    delta(groups, LONG).unlink()
    findings = told(groups)
    assert (findings["verdict"], findings["foreign"]) == ("sound", [name(groups).name])
