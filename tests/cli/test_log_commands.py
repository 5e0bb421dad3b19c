"""Every kind of damage on a real directory: looked at, mended, and saved elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from barbicel.errors import OffsetsLost
from barbicel.keratin import Log, NewRecord
from tests.cli.support import (
    ACTIVE,
    RECORDS,
    document,
    flip,
    lost,
    payload,
    position,
    run,
    run_on_terminal,
    segment,
    snapshot,
    tear,
    words,
)


def remove_file(log: Path) -> None:
    segment(log, 4).unlink()


def flip_in_sealed(log: Path) -> None:
    flip(segment(log, 4), position(1) + 40)
    flip(segment(log, 12), position(3) + 40)


def flip_in_active(log: Path) -> None:
    flip(segment(log, ACTIVE), position(0) + 40)


def flip_in_header(log: Path) -> None:
    flip(segment(log, 8), 30)


def remove_manifest(log: Path) -> None:
    (log / "manifest.bin").unlink()


def flip_in_manifest(log: Path) -> None:
    flip(log / "manifest.bin", 70)


def remove_index(log: Path) -> None:
    segment(log, 8, "idx").unlink()


def flip_in_time_index(log: Path) -> None:
    flip(segment(log, 8, "tidx"), 75)


def rename_sealed(log: Path) -> None:
    segment(log, 4).rename(segment(log, 5))


def rename_active(log: Path) -> None:
    segment(log, ACTIVE).rename(segment(log, ACTIVE + 1))


def duplicate_inside(log: Path) -> None:
    """Without a manifest two segments claim the same offsets."""
    remove_manifest(log)
    segment(log, 6).write_bytes(segment(log, 4).read_bytes())


def remove_active(log: Path) -> None:
    segment(log, ACTIVE).unlink()


def leave_behind(log: Path) -> None:
    """As a crash between the manifest and the unlinks of a trim does."""
    old = segment(log, 0).read_bytes()
    with Log.open(str(log)) as opened:
        opened.truncate_before(4)
    segment(log, 0).write_bytes(old)


def add_foreign(log: Path) -> None:
    (log / "segments" / "notes [bold]\n.txt").write_bytes(b"mine")


def nothing(log: Path) -> None:
    pass


NAME = "segments/{:020d}.log".format

# damage, exit code of a deep verify, lost offsets, what the text says
CASES: list[tuple[Callable[[Path], None], int, list[dict[str, int]], str]] = [
    (nothing, 0, [], "Sound (every record was read)."),
    (add_foreign, 0, [], r"Not part of the log segments/notes [bold]\n.txt"),
    (tear, 1, [], f"{NAME(16)}: torn at byte {position(2)}, 16 bytes"),
    (remove_manifest, 1, [], "there is no manifest"),
    (flip_in_manifest, 1, [], "manifest.bin: at byte 16: the manifest's crc32c does not match"),
    (remove_index, 1, [], f"indexes: segments/{8:020d}.idx is missing"),
    (flip_in_time_index, 1, [], f"{NAME(8)}, indexes: time index entries are not in ascending order"),
    (leave_behind, 1, [], f"{NAME(0)}: left behind by retention"),
    (flip_in_header, 3, [], f"{NAME(8)} at byte 64: the .log header's crc32c does not match; no offset"),
    (flip_in_sealed, 3, lost((5, 6), (15, 16)), "Lost offset 5 offset 15 A repair would"),
    (flip_in_active, 3, lost((16, 17)), f"{NAME(16)} at byte 68: the record's crc32c does not match"),
    (remove_file, 3, lost((4, 8)), f"{NAME(4)}: the file is missing Lost offsets 4 to 7 A repair would"),
    (remove_active, 3, lost((16, 18)), "the file is missing; it held no records Lost offsets 16 to 17 A"),
    (rename_sealed, 3, lost((4, 8)), f"{NAME(5)}: its header says base offset 4"),
    (rename_active, 3, lost((16, 18)), f"{NAME(17)}: its header says base offset 16"),
    (duplicate_inside, 3, [], f"{NAME(6)}: it overlaps the segment before it"),
]
EACH_CASE = pytest.mark.parametrize(
    ("harm", "exit_code", "gone", "text"), CASES, ids=[case[0].__name__ for case in CASES]
)
Harm = Callable[[Path], None]


@EACH_CASE
def test_looking_tells_what_is_wrong_and_changes_nothing(
    log: Path, harm: Harm, exit_code: int, gone: list[dict[str, int]], text: str
) -> None:
    harm(log)
    (log / "LOCK").unlink()
    before = snapshot(log)
    verified = run("log", "verify", log, "--deep")
    assert (verified.exit_code, verified.stderr) == (exit_code, "")
    assert text in words(verified)
    assert words(run_on_terminal("log", "verify", log, "--deep")) == words(verified)
    told = run("log", "verify", log, "--deep", "--json")
    assert told.exit_code == exit_code
    assert document(told)["lost"] == gone
    dry = run("log", "repair", log)
    assert dry.exit_code == exit_code
    assert text in words(dry)
    assert document(run("log", "repair", log, "--json"))["given_up"] == gone
    for depth in ([], ["--deep"]):
        assert run("log", "verify", log, *depth).exit_code in (0, exit_code)
        inspected = run("log", "inspect", log, *depth)
        assert (inspected.exit_code, inspected.stderr) == (0, "")
        assert run_on_terminal("log", "inspect", log, *depth).exit_code == 0
        assert document(run("log", "inspect", log, "--json", *depth))["path"] == str(log)
    assert snapshot(log) == before


@EACH_CASE
def test_a_repair_keeps_all_the_rest_and_the_evidence(
    log: Path, harm: Harm, exit_code: int, gone: list[dict[str, int]], text: str
) -> None:
    harm(log)
    start = 4 if harm is leave_behind else 0
    damaged = [item for item in snapshot(log).values() if item is not None]
    done = document(run("log", "repair", log, "--apply", "--json"))
    assert (done["applied"], done["given_up"], done["after"]["verdict"]) == (True, gone, "sound")
    evidence = [(log / path).read_bytes() for path in done["evidence"]]
    assert all(any(kept in item for item in damaged) for kept in evidence)
    assert bool(evidence) == (harm not in WITHOUT_EVIDENCE)
    assert run("log", "verify", log, "--deep").exit_code == 0
    missing = {n for item in gone for n in range(item["first_offset"], item["end_offset"])}
    with Log.open(str(log)) as opened:
        for offset in sorted(missing):
            with pytest.raises(OffsetsLost):
                opened.fetch(offset)
        opened.append([NewRecord(b"after the repair")])
        found = {record.offset: bytes(record.payload) for record in opened.scan(start)}
    kept = {n: payload(n) for n in range(start, RECORDS) if n not in missing}
    assert found == {**kept, RECORDS: b"after the repair"}
    assert run("log", "verify", log, "--deep").exit_code == 0


# Nothing is there to be kept, or it can be derived from the records at any time.
WITHOUT_EVIDENCE = (
    nothing,
    add_foreign,
    remove_manifest,
    remove_index,
    flip_in_time_index,
    leave_behind,
    remove_file,
    remove_active,
    rename_sealed,
    rename_active,
)


@EACH_CASE
def test_recover_saves_the_readable_and_leaves_the_source(
    log: Path, tmp_path: Path, harm: Harm, exit_code: int, gone: list[dict[str, int]], text: str
) -> None:
    harm(log)
    before = snapshot(log)
    result = run("log", "recover", log, tmp_path / "saved", "--json")
    assert snapshot(log) == before
    assert result.exit_code == (3 if gone or harm is duplicate_inside else 0)
    told = document(result)
    assert (told["lost"], told["next_offset"]) == (gone, RECORDS)
    assert run("log", "verify", tmp_path / "saved", "--deep").exit_code == 0
    missing = {n for item in gone for n in range(item["first_offset"], item["end_offset"])}
    start = told["log_start_offset"]
    with Log.open(str(tmp_path / "saved")) as opened:
        found = {record.offset: bytes(record.payload) for record in opened.scan(start)}
    assert found == {n: payload(n) for n in range(start, RECORDS) if n not in missing}
