"""Groups harmed in every way, mended: redelivery, never loss, and the evidence is kept."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from crc32c import crc32c

from barbicel.codecs.stroma_events import (
    Ack,
    DeltaHeader,
    encode_delta_header,
)
from barbicel.keratin import Log
from barbicel.stroma import GroupStore
from tests.cli.group_support import (
    ACKED,
    AUDIT,
    BILLING,
    EACH_CASE,
    LONG,
    MAIL,
    Harm,
    acked,
    delta,
    flip_in_snapshot,
    name,
    state,
    told,
    told_group,
)
from tests.cli.support import build, document, flip, run, snapshot, words

ASIDE = re.compile(r"\.(torn|corrupt)-\d+$")


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


# --- where a repair begins ------------------------------------------------------------------------


def test_a_repair_begins_where_the_log_does(groups: Path, tmp_path: Path) -> None:
    with Log.open(str(build(tmp_path / "log"))) as log:
        log.truncate_before(8)
        assert log.start_offset == 8
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
            "everything else is delivered again; acked_until counts as committed",
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
