"""`log recover`: where it writes to, and what it says it has written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.support import RECORDS, document, flip, lost, position, run, segment, snapshot


def test_a_target_that_is_not_empty_is_refused(log: Path, tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "notes.txt").write_bytes(b"mine")
    before = snapshot(tmp_path)
    result = run("log", "recover", log, tmp_path / "saved")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "not empty" in result.stderr
    assert snapshot(tmp_path) == before


def linked(log: Path) -> Path:
    link = log.parent / "link"
    link.symlink_to(log)
    return link


def with_segments_elsewhere(log: Path) -> Path:
    elsewhere = log.parent / "elsewhere"
    (log / "segments").rename(elsewhere)
    (log / "segments").symlink_to(elsewhere)
    return elsewhere


# How TARGET is written, given the log's directory "log" in the working directory.
INSIDE: list[Callable[[Path], str]] = [
    lambda log: "log",
    lambda log: "./log/",
    lambda log: str(log),
    lambda log: "log/../log/saved",
    lambda log: "log/saved/deeper",
    lambda log: str(linked(log)),
    lambda log: f"{linked(log)}/saved",
    lambda log: f"{with_segments_elsewhere(log)}/saved",
]


@pytest.mark.parametrize("target_of", INSIDE)
@pytest.mark.parametrize("source", ["log", "./log/", "link to it"])
def test_a_target_in_the_log_itself_is_refused_by_whatever_name(
    log: Path, monkeypatch: pytest.MonkeyPatch, target_of: Callable[[Path], str], source: str
) -> None:
    monkeypatch.chdir(log.parent)
    target = target_of(log)
    (log.parent / "link to it").symlink_to(log)
    before = snapshot(log.parent)
    result = run("log", "recover", source, target)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "TARGET must not lie in DIR" in result.stderr
    assert snapshot(log.parent) == before


def test_a_target_whose_name_begins_like_the_log_is_another(log: Path) -> None:
    assert run("log", "recover", log, f"{log}-saved").exit_code == 0
    assert run("log", "verify", f"{log}-saved", "--deep").exit_code == 0


def test_it_says_what_was_written_and_what_is_missing(log: Path, tmp_path: Path) -> None:
    segment(log, 4).unlink()
    flip(segment(log, 8), position(1) + 40)
    result = run("log", "recover", f"{log}/", f"{tmp_path}/saved/")
    assert result.exit_code == 3
    assert f"recovered into {tmp_path}/saved\n" in result.stdout
    assert "Written\n  offsets 0 to 3\n  offset 8\n  offsets 10 to 17\n" in result.stdout
    assert "Missing\n  offsets 4 to 7\n  offset 9\n" in result.stdout
    assert "The new log has 13 offsets; 5 offsets missing.\nIt goes on at offset 18.\n" in result.stdout


def test_what_was_given_up_before_is_missing_and_not_lost_again(log: Path, tmp_path: Path) -> None:
    segment(log, 4).unlink()
    assert run("log", "repair", log, "--apply").exit_code == 0
    result = run("log", "recover", log, tmp_path / "saved", "--json")
    assert result.exit_code == 0
    told = document(result)
    assert (told["lost"], told["missing"], told["written"]) == ([], lost((4, 8)), lost((0, 4), (8, RECORDS)))


def test_a_whole_log_has_nothing_missing(log: Path, tmp_path: Path) -> None:
    result = run("log", "recover", log, tmp_path / "saved")
    assert result.exit_code == 0
    assert "Written\n  offsets 0 to 17\n" in result.stdout
    assert "The new log has 18 offsets; 0 offsets missing.\n" in result.stdout
    assert "Missing" not in result.stdout
