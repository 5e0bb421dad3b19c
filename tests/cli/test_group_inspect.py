"""What `group inspect` shows of groups."""

from __future__ import annotations

from pathlib import Path

from barbicel.codecs.stroma_events import (
    Ack,
    MarkInflight,
)
from barbicel.stroma import GroupKey, GroupStore
from tests.cli.group_support import (
    AUDIT,
    BILLING,
    MAIL,
    snap,
    told_group,
)
from tests.cli.support import run


def test_inspect_shows_what_was_consumed(groups: Path) -> None:
    shown = told_group(groups, BILLING)
    assert shown["state"] == {
        "acked_until": 11,
        "acked_ranges": 2,
        "acked_offsets": 3,
        "inflight": 1,
        "releases": 1,
        "is_committed": False,
        "leader_epoch": None,
        "metadata": None,
        "next_deadline_ms": None,
    }
    assert (shown["generation"], shown["delta_events"], shown["delta_bytes"]) == (2, 5, 196)
    mail = told_group(groups, MAIL)["state"]
    assert (mail["is_committed"], mail["leader_epoch"], mail["metadata"]) == (True, 4, "nœud")
    text = run("group", "inspect", groups).stdout
    assert "  'mail' of letters-0: leader epoch 4, metadata 'nœud'\n" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["3", "orders-3", "billing", "11", "3", "in", "2", "1", "sound"] in rows
    assert ["3", "1", "2", str(snap(groups).stat().st_size), "196", "5"] in rows


def test_a_deep_inspect_lists_a_bounded_part(groups: Path) -> None:
    with GroupStore.open(str(groups)) as store:
        store.record(AUDIT, [Ack(offset) for offset in range(2, 62, 2)])
        store.record(
            AUDIT, [MarkInflight(offset, 1_700_000_000_000 + offset, 1) for offset in range(3, 93, 2)]
        )
        store.record(AUDIT, [MarkInflight(1, (1 << 64) - 2, 1)])
    text = run("group", "inspect", groups, "--group", "audit", "--deep").stdout
    assert "'audit' of orders-3\n  acked offset 2\n  acked offset 4\n" in text
    assert "  and 10 more ranges\n" in text
    assert f"  inflight 1: until {(1 << 64) - 2} ms, delivery 1\n" in text
    assert "  inflight 3: until 2023-11-14 22:13:20.003, delivery 1\n" in text
    assert "  and 26 more inflight\n" in text
    assert "Next deadlines (UTC)\n  'audit' of orders-3: 2023-11-14 22:13:20.003\n" in text
    deep = told_group(groups, AUDIT, "--deep")["state"]
    assert (len(deep["first_ranges"]), len(deep["first_inflight"]), deep["inflight"]) == (20, 20, 46)
    assert deep["first_ranges"][0] == {"first_offset": 2, "end_offset": 3}
    assert deep["next_deadline_ms"] == 1_700_000_000_003
    released = told_group(groups, BILLING, "--deep")["state"]["first_releases"]
    assert released == [{"offset": 17, "epoch": 3}]
    text = run("group", "inspect", groups, "--group", "billing", "--deep").stdout
    assert "  inflight 16: no deadline, delivery 2\n  released 17: delivered 3 times\n" in text


def test_names_with_control_characters_do_no_harm(tmp_path: Path) -> None:
    key = GroupKey("a\nb", 0, "[bold]\x1b")
    with GroupStore.open(str(tmp_path)) as store:
        store.record(key, [Ack(0)])
    shown = run("group", "inspect", tmp_path).stdout
    assert r"a\nb-0" in shown
    assert "\x1b" not in shown
    assert told_group(tmp_path, key)["state"]["acked_until"] == 1
