"""Directories of groups, sound and harmed in every way: looked at, and mended."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from barbicel.codecs.stroma_format import (
    NO_DEADLINE_MS,
    Ack,
    BumpAckedUntil,
    Commit,
    DeltaHeader,
    Event,
    MarkInflight,
    Release,
    encode_delta_header,
    encode_event,
)
from barbicel.disk import RealDisk
from barbicel.keratin import Log, LogSettings, NewRecord
from barbicel.stroma import GroupKey, GroupStore
from barbicel.stroma.layout import GroupFiles, StoreLayout
from barbicel.stroma.recovery import plan_group
from barbicel.stroma.state import GroupState
from tests.cli.support import document, flip, run, snapshot, words

BILLING = GroupKey("orders", 3, "billing")
AUDIT = GroupKey("orders", 3, "audit")
MAIL = GroupKey("letters", 0, "mail")
LONG = GroupKey("orders", 4, "ü" * 120)
KEYS = (MAIL, AUDIT, BILLING, LONG)
# In the snapshot, then in the delta behind it.
OLD: list[Event] = [BumpAckedUntil(10), MarkInflight(10, 1_700_000_000_000, 1), Ack(12)]
NEW: list[Event] = [Ack(10), Ack(14), Ack(15), MarkInflight(16, NO_DEADLINE_MS, 2), Release(17, 3)]
# All that was ever acked of BILLING.
ACKED = {*range(11), 12, 14, 15}
ASIDE = re.compile(r"\.(torn|corrupt)-\d+$")
HARM = b"KE\0\1 and no more"


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    """BILLING has a snapshot and a delta, MAIL a commit, the others one ack each."""
    path = tmp_path / "groups"
    with GroupStore.open(str(path)) as store:
        store.record(BILLING, OLD)
        store.compact(BILLING)
        store.record(BILLING, NEW)
        store.record(MAIL, [Commit(7, 4, "nœud".encode())])
        store.record(AUDIT, [Ack(0)])
        store.record(LONG, [Ack(0)])
    return path


def files(groups: Path, key: GroupKey = BILLING) -> GroupFiles:
    return StoreLayout(str(groups)).files(key)


def snap(groups: Path, key: GroupKey = BILLING) -> Path:
    return Path(files(groups, key).snapshot)


def delta(groups: Path, key: GroupKey = BILLING) -> Path:
    return Path(files(groups, key).delta)


def name(groups: Path) -> Path:
    return Path(files(groups, LONG).name)


def state(groups: Path, key: GroupKey = BILLING) -> GroupState:
    plan = plan_group(RealDisk(), files(groups, key), key)
    assert plan.damage is None
    return plan.state()


def acked(groups: Path, key: GroupKey = BILLING) -> set[int]:
    found = state(groups, key)
    return {offset for offset in range(100) if found.is_acked(offset)}


def told(groups: Path, *arguments: str, verb: str = "verify") -> dict[str, Any]:
    result: dict[str, Any] = document(run("group", verb, groups, "--json", *arguments))
    return result


def told_group(groups: Path, key: GroupKey, *arguments: str) -> dict[str, Any]:
    (found,) = [
        item
        for item in told(groups, *arguments, verb="inspect")["groups"]
        if (item["topic"], item["partition"], item["group"]) == key
    ]
    return dict(found)


# --- harm -----------------------------------------------------------------------------------------


def nothing(groups: Path) -> None:
    pass


def add_foreign(groups: Path) -> None:
    (groups / "notes [bold]\n.txt").write_bytes(b"mine")
    (groups / "orders-03_x.delta").write_bytes(b"a name that the rule would not have produced")
    (groups / "orders-3_directory.snap").mkdir()


def tear(groups: Path) -> None:
    with delta(groups).open("ab") as file:
        file.write(HARM)


def leave_void(groups: Path) -> None:
    """As a crash between the snapshot and the new delta does."""
    old = delta(groups).read_bytes()
    with GroupStore.open(str(groups)) as store:
        store.compact(BILLING)
    delta(groups).write_bytes(old)


def remove_delta(groups: Path) -> None:
    delta(groups).unlink()


def flip_in_snapshot(groups: Path) -> None:
    flip(snap(groups), 80)


def flip_in_snapshot_and_tear(groups: Path) -> None:
    flip_in_snapshot(groups)
    tear(groups)


def remove_snapshot(groups: Path) -> None:
    snap(groups).unlink()


def flip_in_delta_header(groups: Path) -> None:
    flip(delta(groups), 20)


def cut_delta_header(groups: Path) -> None:
    delta(groups).write_bytes(delta(groups).read_bytes()[:30])


def swap_snapshot(groups: Path) -> None:
    """That of another group."""
    with GroupStore.open(str(groups)) as store:
        store.compact(AUDIT)
    snap(groups).write_bytes(snap(groups, AUDIT).read_bytes())


# harm, exit code of verify, what of BILLING is acked after a repair, how many files are kept, what is said
CASES: list[tuple[Callable[[Path], None], int, set[int], int, str]] = [
    (nothing, 0, ACKED, 0, "4 groups: 4 sound. Sound."),
    (add_foreign, 0, ACKED, 0, r"Not part of any group notes [bold]\n.txt orders-03_x.delta orders-3_dir"),
    (tear, 1, ACKED, 1, "orders-3_billing.delta: torn at byte 196, 16 bytes: an event of"),
    (leave_void, 1, ACKED, 0, "orders-3_billing.delta: void, the snapshot has all of it"),
    (remove_delta, 1, {*range(10), 12}, 0, "-> begin a new orders-3_billing.delta"),
    (flip_in_snapshot, 3, {10, 14, 15}, 2, "orders-3_billing.snap: at byte"),
    (flip_in_snapshot_and_tear, 3, {10, 14, 15}, 2, "acked_until before: not known, after: 0 and 3 offsets"),
    (remove_snapshot, 3, {10, 14, 15}, 1, "continues a snapshot of generation 1, which is missing"),
    (flip_in_delta_header, 3, ACKED, 2, "orders-3_billing.delta: at byte 56: the header's crc32c"),
    (cut_delta_header, 3, set(), 2, "acked_until before: not known, after: 0"),
    (swap_snapshot, 3, {10, 14, 15}, 2, "the snapshot is that of another group"),
]
EACH_CASE = pytest.mark.parametrize(
    ("harm", "exit_code", "left", "kept", "text"), CASES, ids=[case[0].__name__ for case in CASES]
)
Harm = Callable[[Path], None]


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
        assert max(map(len, result.stdout.splitlines()[1:])) <= 80
        assert run("group", verb, groups, "--json").exit_code == exit_code
    verdict = {0: "sound", 1: "recoverable", 3: "damaged"}[exit_code]
    assert told(groups)["verdict"] == verdict
    assert told_group(groups, BILLING)["verdict"] == verdict
    for depth in ([], ["--deep"]):
        inspected = run("group", "inspect", groups, *depth)
        assert (inspected.exit_code, inspected.stderr) == (0, "")
        assert text in words(inspected)
        assert max(map(len, inspected.stdout.splitlines()[1:])) <= 80
    assert snapshot(groups) == before


@EACH_CASE
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_a_repair_acks_nothing_and_keeps_the_evidence(
    groups: Path, harm: Harm, exit_code: int, left: set[int], kept: int, text: str, as_json: bool
) -> None:
    harm(groups)
    before = snapshot(groups)
    planned = told(groups, verb="repair")
    result = run("group", "repair", groups, "--apply", *(["--json"] if as_json else []))
    assert (result.exit_code, result.stderr) == (0, "")
    assert acked(groups) == left
    assert left <= ACKED
    evidence = [path for path in snapshot(groups) if path not in before and ASIDE.search(path)]
    assert len(evidence) == kept
    for path in evidence:
        original = before[path.rpartition(".")[0]]
        assert original is not None
        assert original.endswith((groups / path).read_bytes())
    if as_json:
        done = document(result)
        assert (done["applied"], done["after"]["verdict"]) == (True, "sound")
        assert (done["before"]["groups"], done["redelivery"]) == (
            planned["before"]["groups"],
            planned["redelivery"],
        )
        assert sorted(done["evidence"]) == sorted(evidence)
        assert [item["acked_until_after"] for item in done["redelivery"]] == (
            [state(groups).acked_until] if exit_code else []
        )
    else:
        assert "Afterwards: 4 groups: 4 sound. Sound." in words(result)
        assert all(f"  {path}\n" in result.stdout for path in evidence)
    untouched = {path for path in before if "billing" not in path and path != "LOCK"}
    assert {path: snapshot(groups)[path] for path in untouched} == {path: before[path] for path in untouched}
    assert run("group", "verify", groups).exit_code == 0
    with GroupStore.open(str(groups)) as store:
        store.record(BILLING, [Ack(50)])
    assert acked(groups) == {*left, 50}


# --- what is shown --------------------------------------------------------------------------------


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
    assert "'audit' of orders-3\n  acked 2\n  acked 4\n" in text
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


def test_a_filtered_repair_leaves_the_others(groups: Path) -> None:
    flip_in_snapshot(groups)
    flip(delta(groups, AUDIT), 20)
    before = snapshot(groups)
    assert run("group", "repair", groups, "--apply", "--group", "audit").exit_code == 0
    after = snapshot(groups)
    assert all(after[path] == before[path] for path in before if "billing" in path)
    assert run("group", "verify", groups).exit_code == 3
    (kept,) = told(groups, "--group", "audit")["kept_aside"]
    assert kept.startswith("orders-3_audit.delta.corrupt-")
    assert told(groups, "--group", "mail")["kept_aside"] == []


# --- long names -----------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [None, b"orders-4_of-somebody-else"], ids=["missing", "wrong"])
def test_a_hashed_name_without_its_full_one_takes_a_repair_that_names_it(
    groups: Path, content: bytes | None
) -> None:
    full = name(groups).read_bytes()
    name(groups).unlink()
    if content is not None:
        name(groups).write_bytes(content)
    result = run("group", "verify", groups)
    assert result.exit_code == 3
    assert f"  {delta(groups, LONG).name}\n" in result.stdout
    assert delta(groups, LONG).name in told(groups)["unnamed"]
    blind = run("group", "repair", groups, "--apply")
    assert (blind.exit_code, "Left as it is, nobody's" in blind.stdout) == (3, True)
    chosen = ("--topic", LONG.topic, "--partition", "4", "--group", LONG.group)
    before = snapshot(groups)
    assert run("group", "repair", groups, *chosen).exit_code == 3
    assert "missing or wrong" in words(run("group", "verify", groups, *chosen))
    assert snapshot(groups) == before
    assert run("group", "repair", groups, *chosen, "--apply").exit_code == 0
    assert name(groups).read_bytes() == full
    assert [path.read_bytes() for path in groups.glob("*.name.corrupt-*")] == ([content] if content else [])
    assert acked(groups, LONG) == {0}
    assert run("group", "verify", groups).exit_code == 0


def test_a_damaged_group_with_a_long_name_is_rebuilt_under_it(groups: Path) -> None:
    flip(delta(groups, LONG), 20)
    assert run("group", "repair", groups, "--apply").exit_code == 0
    assert acked(groups, LONG) == {0}
    assert told_group(groups, LONG)["verdict"] == "sound"


def test_a_name_without_a_group_is_no_groups(groups: Path) -> None:
    delta(groups, LONG).unlink()
    findings = told(groups)
    assert (findings["verdict"], findings["foreign"]) == ("sound", [name(groups).name])


# --- where a repair begins ------------------------------------------------------------------------


def test_a_repair_begins_where_the_log_does(groups: Path, tmp_path: Path) -> None:
    with Log.open(str(tmp_path / "log"), settings=LogSettings(segment_max_bytes=68 + 4 * 50)) as log:
        log.append([NewRecord(b"payload %06d" % n) for n in range(18)])
        log.truncate_before(8)
        start = log.start_offset
    assert start == 8
    flip_in_snapshot(groups)
    given = told(groups, "--start-offset", "8", verb="repair")
    taken = told(groups, "--log", str(tmp_path / "log"), verb="repair")
    assert given == taken
    assert taken["redelivery"] == [
        {
            **BILLING._asdict(),
            "acked_until_before": None,
            "acked_until_after": 8,
            "text": "acked_until before: not known, after: 8 and 3 offsets beyond it; "
            "everything else is delivered again",
        }
    ]
    assert run("group", "repair", groups, "--apply", "--log", tmp_path / "log").exit_code == 0
    assert acked(groups) == {*range(8), 10, 14, 15}


def test_a_repair_may_leave_the_delta_out(groups: Path) -> None:
    flip_in_snapshot(groups)
    assert run("group", "repair", groups, "--apply", "--discard-delta").exit_code == 0
    assert acked(groups) == set()


def test_one_start_offset_is_not_for_two_partitions(groups: Path) -> None:
    flip_in_snapshot(groups)
    flip(delta(groups, MAIL), 20)
    before = snapshot(groups)
    for apply in ([], ["--apply"]):
        result = run("group", "repair", groups, "--start-offset", "5", *apply)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "choose with --topic and --partition" in result.stderr
    after = snapshot(groups)
    del before["LOCK"], after["LOCK"]
    assert after == before
    chosen = ("--topic", "orders", "--partition", "3")
    assert run("group", "repair", groups, "--start-offset", "5", "--apply", *chosen).exit_code == 0
    assert run("group", "repair", groups, "--apply").exit_code == 0
    assert state(groups, MAIL).acked_until == 7


def test_two_ways_to_tell_the_start_offset_exclude_each_other(groups: Path, tmp_path: Path) -> None:
    both = run("group", "repair", groups, "--start-offset", "0", "--log", tmp_path)
    assert (both.exit_code, both.stdout) == (2, "")
    assert "exclude each other" in both.stderr
    no_log = run("group", "repair", groups, "--log", tmp_path)
    assert (no_log.exit_code, no_log.stdout) == (2, "")


# --- the world ------------------------------------------------------------------------------------


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

        monkeypatch.setattr("barbicel.cli.group_findings.plan_group", plan_too_late)
        result = run("group", "verify", groups, "--group", "billing")
    assert [damage is not None for damage in looks] == [True, True, False]
    assert result.exit_code == 0


VERBS = [["inspect"], ["verify"], ["repair"], ["repair", "--apply"]]


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
@pytest.mark.parametrize("kind", ["absent", "empty", "other files", "a file", "a log"])
def test_what_is_no_directory_of_groups_is_refused_in_one_line_and_left_alone(
    tmp_path: Path, verb: list[str], kind: str
) -> None:
    directory = tmp_path / "here"
    if kind == "a file":
        directory.write_bytes(b"content")
    elif kind == "a log":
        Log.open(str(directory)).close()
    elif kind != "absent":
        directory.mkdir()
    if kind == "other files":
        (directory / "notes.txt").write_bytes(b"mine")
    before = snapshot(tmp_path)
    result = run("group", *verb, directory)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith(f"Error: {directory}: ")
    assert snapshot(tmp_path) == before


def test_a_store_without_groups_is_sound(tmp_path: Path) -> None:
    GroupStore.open(str(tmp_path)).close()
    for verb in VERBS:
        result = run("group", *verb, tmp_path)
        assert result.exit_code == 0
        assert "0 groups. Sound." in words(result)


def test_a_newer_programs_file_is_left_alone_and_the_rest_is_mended(groups: Path) -> None:
    header = bytearray(encode_delta_header(DeltaHeader(0, 1)))
    header[8:10] = (2).to_bytes(2, "big")
    header[56:60] = crc32c(bytes(header[:56])).to_bytes(4, "big")
    delta(groups, AUDIT).write_bytes(header)
    result = run("group", "verify", groups)
    assert result.exit_code == 2
    assert "orders-3_audit.delta: at byte 8: version 2" in words(result)
    assert told_group(groups, AUDIT)["verdict"] == "unreadable"
    flip_in_snapshot(groups)
    assert run("group", "verify", groups).exit_code == 3
    done = run("group", "repair", groups, "--apply")
    assert done.exit_code == 2
    assert "Left as it is\n  orders-3_audit.delta: at byte 8: version 2" in done.stdout
    assert delta(groups, AUDIT).read_bytes() == header
    assert told_group(groups, BILLING)["verdict"] == "sound"


def test_names_with_control_characters_do_no_harm(tmp_path: Path) -> None:
    key = GroupKey("a\nb", 0, "[bold]\x1b")
    with GroupStore.open(str(tmp_path)) as store:
        store.record(key, [Ack(0)])
    shown = run("group", "inspect", tmp_path).stdout
    assert r"a\nb-0" in shown
    assert "\x1b" not in shown
    assert told_group(tmp_path, key)["state"]["acked_until"] == 1
