"""What each log command says, in words and as JSON."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree

import pytest

from barbicel.codecs.keratin_format import FileHeader, encode_log_header
from barbicel.keratin import Log, NewRecord
from tests.cli.support import (
    ACTIVE,
    RECORD_BYTES,
    RECORDS,
    document,
    flip,
    lost,
    payload,
    position,
    run,
    segment,
    snapshot,
    words,
)


def test_inspect_shows_the_manifest_and_the_segments(log: Path) -> None:
    told = document(run("log", "inspect", log, "--json"))
    assert told["manifest"]["segment_max_bytes"] == 268
    assert told["manifest"]["clean_shutdown"] is True
    assert (told["log_start_offset"], told["next_offset"]) == (0, RECORDS)
    assert told["in_use_by"] is None
    assert "contents" not in told
    shown = [
        (item["base_offset"], item["end_offset"], item["bytes"], item["state"]) for item in told["segments"]
    ]
    assert shown == [
        *((base, base + 4, position(4), "sealed") for base in range(0, 16, 4)),
        (16, 18, position(2), "active"),
    ]
    lines = run("log", "inspect", log).stdout.splitlines()
    assert f"{16:>13}{18:>13}{position(2):>8}{88:>14}   present   active" in lines


def test_a_deep_inspect_counts_records_and_what_was_given_up(log: Path) -> None:
    flip(segment(log, 4), position(1) + 40)
    flip(segment(log, 4), position(2) + 40)
    assert run("log", "repair", log, "--apply").exit_code == 0
    contents = document(run("log", "inspect", log, "--deep", "--json"))["contents"]
    assert contents[1] == {
        "base_offset": 4,
        "records": 2,
        "offsets": 2,
        "payload_bytes": 2 * len(payload(0)),
        "first_timestamp_ms": 1_700_000_000_004,
        "max_timestamp_ms": 1_700_000_000_007,
        "lost": lost((5, 7)),
    }
    text = run("log", "inspect", log, "--deep").stdout
    assert "Given up by earlier repairs\n  offsets 5 to 6\n" in text
    assert f"{4:>13}   2023-11-14 22:13:20.004   2023-11-14 22:13:20.007\n" in text


def test_spans_count_as_offsets_and_any_timestamp_can_be_shown(tmp_path: Path) -> None:
    with Log.open(str(tmp_path / "log")) as opened:
        opened.append([NewRecord(b"many", timestamp_ms=(1 << 64) - 1, span=1 << 31)])
    (contents,) = document(run("log", "inspect", tmp_path / "log", "--deep", "--json"))["contents"]
    assert (contents["records"], contents["offsets"]) == (1, 1 << 31)
    assert f"{(1 << 64) - 1} ms" in run("log", "inspect", tmp_path / "log", "--deep").stdout


def test_a_flipped_byte_in_a_sealed_segment_takes_a_deep_look(log: Path) -> None:
    flip(segment(log, 4), position(1) + 40)
    flip(segment(log, 12), position(3) + 40)
    shallow = run("log", "verify", log)
    assert shallow.exit_code == 0
    assert "Sound (--deep would read every record)." in shallow.stdout
    assert run("log", "verify", log, "--deep").exit_code == 3


def test_whole_records_behind_a_torn_place_are_told(log: Path) -> None:
    with Log.open(str(log)) as opened:
        opened.append([NewRecord(payload(18))])
        kept = (log / "manifest.bin").read_bytes()
        opened.append([NewRecord(payload(19))])
    (log / "manifest.bin").write_bytes(kept)
    flip(segment(log, ACTIVE), position(2) + 40)
    result = run("log", "verify", log)
    assert result.exit_code == 1
    assert "behind it whole records of offset 19" in words(result)
    (torn,) = [
        item["torn"] for item in document(run("log", "verify", log, "--json"))["segments"] if item["torn"]
    ]
    assert (torn["position"], torn["end_position"]) == (position(2), position(2) + 2 * RECORD_BYTES)
    assert torn["whole_records"] == lost((19, 20))


def test_a_repair_tells_what_it_gave_up_and_where_the_evidence_is(log: Path) -> None:
    flip(segment(log, 4), position(1) + 40)
    flip(segment(log, 12), position(3) + 40)
    result = run("log", "repair", log, "--apply")
    assert result.exit_code == 0
    evidence = [path.name for path in (log / "segments").glob("*.corrupt-*")]
    assert len(evidence) == 2
    assert all(f"  segments/{name}\n" in result.stdout for name in evidence)
    assert "Given up\n  offset 5\n  offset 15\n" in result.stdout
    assert "Afterwards: Sound (every record was read).\n" in result.stdout
    assert document(run("log", "inspect", log, "--json"))["kept_aside"] == [
        f"segments/{name}" for name in sorted(evidence)
    ]


def test_a_corrupt_manifest_is_kept_as_evidence(log: Path) -> None:
    flip(log / "manifest.bin", 70)
    corrupt = (log / "manifest.bin").read_bytes()
    (name,) = document(run("log", "repair", log, "--apply", "--json"))["evidence"]
    assert name.startswith("manifest.bin.corrupt-")
    assert (log / name).read_bytes() == corrupt


@pytest.mark.parametrize(
    "command", [["verify", "--deep"], ["inspect", "--deep"], ["repair"], ["repair", "--apply"], ["recover"]]
)
def test_a_loss_is_told_once(log: Path, tmp_path: Path, command: list[str]) -> None:
    """In no line but its own, and what only follows from the damage is not told as another problem."""
    flip(segment(log, 4), position(1) + 40)
    segment(log, 8).unlink()
    target = [tmp_path / "saved"] if command == ["recover"] else []
    told = run("log", *command, log, *target).stdout
    assert [told.count(text) for text in ("offset 5\n", "offsets 8 to 11\n", "does not match\n")] == [1, 1, 1]
    assert "5 to 5" not in told
    assert "does not list" not in told
    assert "indexes:" not in told


def test_a_lost_segment_may_have_held_more_than_is_known(log: Path, tmp_path: Path) -> None:
    with Log.open(str(log)) as opened:
        opened.append([NewRecord(payload(RECORDS))])
        copytree(log, tmp_path / "copy")
    segment(tmp_path / "copy", ACTIVE).unlink()
    verified = run("log", "verify", tmp_path / "copy")
    assert verified.exit_code == 3
    assert "Lost\n  offsets 16 to 17\n  whatever was appended from offset 18 on\n" in verified.stdout
    assert "Lost in all: 2 offsets or more." in verified.stdout
    recovered = run("log", "recover", tmp_path / "copy", tmp_path / "saved")
    assert recovered.exit_code == 3
    assert "Missing\n  offsets 16 to 17\n  whatever was appended from offset 18 on\n" in recovered.stdout
    assert "The new log has 16 offsets; 2 offsets or more missing." in recovered.stdout


def test_a_segment_of_another_log_stops_a_repair(log: Path) -> None:
    (log / "manifest.bin").unlink()
    far = 1 << 40
    segment(log, far).write_bytes(encode_log_header(FileHeader(base_offset=far, created_ts_ms=0)))
    before = snapshot(log)
    verified = run("log", "verify", log)
    assert verified.exit_code == 3
    assert f"\n  segments/{far:020d}.log: " in verified.stdout
    assert "Files of another log lie here. Move them away and look again" in verified.stdout
    assert "A repair would" not in verified.stdout
    refused = run("log", "repair", log, "--apply")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "move the files of the other log away first" in refused.stderr
    assert {**snapshot(log), "LOCK": None} == {**before, "LOCK": None}
