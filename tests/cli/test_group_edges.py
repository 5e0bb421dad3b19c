"""Where a group command meets the world: stores in use, directories that hold none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from barbicel.stroma import GroupStore
from barbicel.stroma.recovery import plan_group
from tests.cli.group_support import (
    BILLING,
    delta,
    flip_in_snapshot,
    snap,
    tear,
    told,
)
from tests.cli.support import run, snapshot, words


def test_groups_in_use_can_be_looked_at_but_not_repaired(groups: Path) -> None:
    with GroupStore.open(str(groups)):
        flip_in_snapshot(groups)
        before = snapshot(groups)
        for verb in ("inspect", "verify", "repair"):
            assert f"In use by process {os.getpid()}; " in run("group", verb, groups).stdout
        assert told(groups)["in_use_by"] == str(os.getpid())
        refused = run("group", "repair", groups, "--apply")
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert f"already open by process {os.getpid()}" in refused.stderr
        assert snapshot(groups) == before
    assert told(groups)["in_use_by"] is None


def test_a_torn_delta_is_usual_while_groups_are_in_use(groups: Path) -> None:
    with GroupStore.open(str(groups)):
        tear(groups)
        result = run("group", "verify", groups)
        assert (result.exit_code, "This is usual while groups are in use." in words(result)) == (1, True)


def test_what_changes_while_a_group_in_use_is_looked_at_is_no_damage(
    groups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compaction replaces both files after the old snapshot was read."""
    looks: list[str | None] = []

    with GroupStore.open(str(groups)) as store:

        def plan_too_late(*arguments: Any) -> object:
            old = snap(groups).read_bytes()
            if len(looks) < 2:
                store.compact(BILLING)
                store.compact(BILLING)
            current = snap(groups).read_bytes()
            snap(groups).write_bytes(old)
            delta_now = delta(groups).read_bytes()
            if len(looks) < 2:
                delta(groups).unlink()
                delta(groups).write_bytes(b"half")
            plan = plan_group(*arguments)
            delta(groups).write_bytes(delta_now)
            snap(groups).write_bytes(current)
            looks.append(plan.damage)
            return plan

        monkeypatch.setattr("barbicel.cli.group_look.plan_group", plan_too_late)
        result = run("group", "verify", groups, "--group", "billing")
    assert [damage is not None for damage in looks] == [True, True, False]
    assert result.exit_code == 0


VERBS = [["inspect"], ["verify"], ["repair"], ["repair", "--apply"]]


def test_a_store_without_groups_is_sound(tmp_path: Path) -> None:
    GroupStore.open(str(tmp_path)).close()
    for verb in VERBS:
        result = run("group", *verb, tmp_path)
        assert result.exit_code == 0
        assert "0 groups. Sound." in words(result)
