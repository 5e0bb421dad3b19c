"""`verify-import`: its answers and its exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import document, run, run_on_terminal, words
from tests.golden.kestrel.writer import addx, join

A, B = addx(b"a", 1), addx(b"b", 2, 99)


@pytest.fixture
def journals(tmp_path: Path) -> Path:
    (tmp_path / "journals").mkdir()
    (tmp_path / "journals" / "q").write_bytes(join([A, B]))
    return tmp_path / "journals"


@pytest.fixture
def data(tmp_path: Path, journals: Path) -> Path:
    assert run("import-journals", journals, "--data", tmp_path / "data").exit_code == 0
    return tmp_path / "data"


def test_complete(journals: Path, data: Path) -> None:
    result = run("verify-import", journals, "--data", data)
    assert result.exit_code == 0
    assert "Complete: every item is there, once and in order, and none was read yet." in words(result)
    found = document(run("verify-import", journals, "--data", data, "--json"))
    assert found["verdict"] == "complete"
    (line,) = found["queues"][0]["lines"]
    assert line["journal_digest"] == line["target_digest"]
    assert (line["journal_items"], line["target_items"]) == (2, 2)


def test_it_fits_a_terminal(journals: Path, data: Path) -> None:
    assert run_on_terminal("verify-import", journals, "--data", data).exit_code == 0


def test_a_queue_that_was_not_imported(journals: Path, data: Path) -> None:
    (journals / "new").write_bytes(A.raw)
    result = run("verify-import", journals, "--data", data)
    assert result.exit_code == 3
    assert "new: the target has no such queue" in words(result)
    assert "Not complete." in words(result)


def test_journals_that_changed(journals: Path, data: Path) -> None:
    (journals / "q").write_bytes(join([A, B, A]))
    result = run("verify-import", journals, "--data", data)
    assert result.exit_code == 3
    assert "before they changed" in words(result)


def test_a_doubtful_journal(journals: Path, tmp_path: Path) -> None:
    (journals / "q").write_bytes(join([A, B]) + b"\xff")
    assert run("import-journals", journals, "--data", tmp_path / "data").exit_code == 1
    result = run("verify-import", journals, "--data", tmp_path / "data")
    assert result.exit_code == 1
    assert "as far as the journals can be read" in words(result)


def test_a_target_that_is_not_there(journals: Path, tmp_path: Path) -> None:
    result = run("verify-import", journals, "--data", tmp_path / "nowhere")
    assert result.exit_code == 2
    assert not (tmp_path / "nowhere").exists()


def test_where_there_are_no_journals_nothing_is_complete(data: Path, tmp_path: Path) -> None:
    """A path that is not quite the one that was meant."""
    (tmp_path / "spool" / "kestrel").mkdir(parents=True)
    (tmp_path / "spool" / ".gitignore").write_text("*")
    result = run("verify-import", tmp_path / "spool", "--data", data)
    assert result.exit_code == 2
    assert "there are no journals here" in result.stderr
