"""`export-journals`: its answers and its exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from barbicel.cli import export_journals as verb
from barbicel.disk import RealDisk
from barbicel.gateway.migration.directory_target import DirectoryTarget
from barbicel.gateway.migration.export import Exported, ExportedLine, UnreadableItems
from barbicel.kestrel_compat.names import parse_queue_name
from tests.cli.support import document, run, snapshot, words
from tests.golden.kestrel.writer import addx, join

A, B = addx(b"a", 1), addx(b"b", 2, 99)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "journals").mkdir()
    (tmp_path / "journals" / "q").write_bytes(join([A, B]))
    (tmp_path / "journals" / "q+child").write_bytes(join([B]))
    assert run("import-journals", tmp_path / "journals", "--data", tmp_path / "data").exit_code == 0
    return tmp_path / "data"


def test_journals_are_written(data: Path, tmp_path: Path) -> None:
    result = run("export-journals", tmp_path / "back", "--data", data)
    assert result.exit_code == 0
    assert "Wrote 2 journals of 3 items." in words(result)
    assert (tmp_path / "back" / "q").read_bytes() == join([A, B])
    assert (tmp_path / "back" / "q+child").read_bytes() == join([B])


@pytest.mark.parametrize("destination", ["", "topics", "back"])
def test_no_journal_is_written_into_a_data_directory(data: Path, destination: str) -> None:
    before = snapshot(data)
    result = run("export-journals", data / destination, "--data", data)
    assert result.exit_code == 2
    assert "do not go into one directory" in result.stderr
    assert snapshot(data) == before


def test_the_report_as_json(data: Path, tmp_path: Path) -> None:
    result = document(run("export-journals", tmp_path / "back", "--data", data, "--json"))
    assert result["queues"] == [
        {"queue": "q", "items": 2, "open_reads": 0, "bytes": len(A.raw + B.raw)},
        {"queue": "q+child", "items": 1, "open_reads": 0, "bytes": len(B.raw)},
    ]


def test_nothing_is_overwritten(data: Path, tmp_path: Path) -> None:
    run("export-journals", tmp_path / "back", "--data", data)
    result = run("export-journals", tmp_path / "back", "--data", data)
    assert result.exit_code == 2
    assert "there is a journal already" in result.stderr


def test_a_queue_that_is_not_there(data: Path, tmp_path: Path) -> None:
    result = run("export-journals", tmp_path / "back", "--data", data, "--queue", "nobody")
    assert result.exit_code == 2
    assert "there is no queue 'nobody'" in result.stderr


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    result = run("export-journals", tmp_path / "back", "--data", tmp_path / "nowhere")
    assert result.exit_code == 2
    assert "there is no data directory" in result.stderr
    assert not (tmp_path / "nowhere").exists()


def test_a_name_that_is_too_long_for_a_file_is_told(tmp_path: Path) -> None:
    name = "q+" + "\xe9" * 200
    with DirectoryTarget.open(RealDisk(), str(tmp_path / "data")) as target:
        target.make([parse_queue_name("q"), parse_queue_name(name)]).close()
    result = run("export-journals", tmp_path / "back", "--data", tmp_path / "data")
    assert result.exit_code == 1
    assert f"Not written, the name is too long for a file {name}" in words(result)
    assert "Wrote 1 journal of 0 items." in words(result)


def test_what_nobody_can_read_is_listed(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spoiled = Exported([ExportedLine("q", 1, 0, 22)], [], [UnreadableItems("q", 5, 6, "a bad batch")])
    monkeypatch.setattr(verb, "export_queues", lambda *_: spoiled)
    told = run("export-journals", tmp_path / "back", "--data", data)
    assert told.exit_code == 1
    assert "q, offsets 5 to 6: a bad batch" in words(told)
    result = run("export-journals", tmp_path / "back", "--data", data, "--json")
    assert result.exit_code == 1
    assert document(result)["unreadable"] == [
        {"queue": "q", "first_offset": 5, "last_offset": 6, "reason": "a bad batch"}
    ]
