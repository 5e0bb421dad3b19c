"""`import-journals`: its answers, its exit codes, and what it says of bad input."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from barbicel.cli.import_journals import named
from tests.cli.support import document, run, run_on_terminal, snapshot, words
from tests.golden.kestrel.writer import Step, addx, join, reserve

A, B, C = (addx(name, 1_300_000_000_000 + index) for index, name in enumerate((b"a", b"b", b"c")))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def write(directory: Path, queues: dict[str, list[Step]]) -> Path:
    directory.mkdir(exist_ok=True)
    for name, steps in queues.items():
        (directory / name).write_bytes(join(steps))
    return directory


@pytest.fixture
def journals(tmp_path: Path) -> Path:
    return write(tmp_path / "journals", {"q": [A, B, reserve(1)], "q+child": [B, C]})


def test_all_is_well(journals: Path, data: Path) -> None:
    result = run("import-journals", journals, "--data", data)
    assert result.exit_code == 0
    assert "Imported 1 queue: 3 records stored." in words(result)
    again = run("import-journals", journals, "--data", data)
    assert again.exit_code == 0
    assert "Already imported, nothing was done q" in words(again)
    assert "Imported 0 queues: 0 records stored." in words(again)


def test_a_queue_that_can_have_no_such_name_here_is_not_imported(tmp_path: Path, data: Path) -> None:
    """Kestrel has its items: whoever hears that all is complete switches Kestrel off."""
    source = write(tmp_path / "journals", {"q": [A], "my queue": [B], "x" * 250: [C]})
    result = run("import-journals", source, "--data", data)
    assert result.exit_code == 3
    assert "Not imported my queue, byte 0: queue name 'my queue'" in words(result)
    verified = run("verify-import", source, "--data", data)
    assert verified.exit_code == 3
    assert words(verified).endswith("Not complete.")
    assert document(run("verify-import", source, "--data", data, "--json"))["verdict"] == "not complete"


def test_what_is_odd_about_other_queues_is_not_told_of_those_that_were_chosen(
    tmp_path: Path, data: Path
) -> None:
    source = write(tmp_path / "journals", {"q": [A], "q.bak": [A], "r": [A], "r.bak": [], "my queue": [B]})
    chosen = "--queue", "q", "--data", data
    result = document(run("import-journals", source, *chosen, "--json"))
    assert [(doubt["file"], doubt["kind"]) for doubt in result["doubts"]] == [("q.bak", "stray")]
    assert run("import-journals", source, *chosen).exit_code == 1
    assert run("verify-import", source, *chosen).exit_code == 1


def test_kestrels_directory_is_no_data_directory(journals: Path) -> None:
    """Kestrel would not start on it any more, and the lock's file would be a queue in the next import."""
    before = snapshot(journals)
    result = run("import-journals", journals, "--data", journals.parent / "." / journals.name)
    assert result.exit_code == 2
    assert "do not go into one directory" in result.stderr
    assert snapshot(journals) == before


def test_it_fits_a_terminal(journals: Path, data: Path) -> None:
    assert run_on_terminal("import-journals", journals, "--data", data).exit_code == 0


def test_the_report_as_json(journals: Path, data: Path) -> None:
    result = document(run("import-journals", journals, "--data", data, "--json"))
    (queue,) = result["queues"]
    assert (queue["outcome"], queue["records"], queue["records_before"]) == ("imported", 3, 0)
    assert [(line["queue"], line["items"], line["open_reads"]) for line in queue["lines"]] == [
        ("q", 2, 1),
        ("q+child", 2, 0),
    ]


def test_a_dry_run_changes_nothing(journals: Path, data: Path) -> None:
    result = run("import-journals", journals, "--data", data, "--dry-run")
    assert result.exit_code == 0
    assert "A dry run: 3 records would be stored." in words(result)
    assert not data.exists()


def test_doubts_are_listed_with_file_and_position(journals: Path, data: Path) -> None:
    (journals / "torn").write_bytes(A.raw + B.raw[:-1])
    (journals / "notes.txt").write_bytes(b"?")
    (journals / "q~~12").write_bytes(b"")
    result = run("import-journals", journals, "--data", data)
    assert result.exit_code == 1
    assert f"torn, byte {len(A.raw)}: " in words(result)
    assert "notes.txt, byte 0: not the name of a journal (stray)" in words(result)
    assert "Left out, nothing is missing q~~12" in words(result)
    found = document(run("import-journals", journals, "--data", data, "--dry-run", "--json"))
    (torn,) = (queue for queue in found["queues"] if queue["master"] == "torn")
    assert [(one["file"], one["position"], one["kind"]) for one in torn["doubts"]] == [
        ("torn", len(A.raw), "truncated")
    ]


def test_harmless_leftovers_are_no_doubts(journals: Path, data: Path) -> None:
    (journals / "q~~12").write_bytes(b"")
    assert run("import-journals", journals, "--data", data).exit_code == 0


def test_journals_that_changed_are_not_imported(journals: Path, data: Path) -> None:
    run("import-journals", journals, "--data", data)
    (journals / "q").write_bytes(join([A, B, C]))
    result = run("import-journals", journals, "--data", data)
    assert result.exit_code == 3
    assert "Not imported q: other journals of this queue were imported before" in words(result)
    assert run("import-journals", journals, "--data", data, "--again").exit_code == 0


def test_one_queue_of_many(journals: Path, data: Path) -> None:
    write(journals, {"other": [A]})
    result = document(run("import-journals", journals, "--data", data, "--queue", "other", "--json"))
    assert [queue["master"] for queue in result["queues"]] == ["other"]


def test_open_reads_stay_open(journals: Path, data: Path) -> None:
    assert run("import-journals", journals, "--data", data, "--keep-open").exit_code == 0
    back = journals.parent / "back"
    assert run("export-journals", back, "--data", data).exit_code == 0
    assert (back / "q").read_bytes() == join([A, reserve(1), B])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bootstrap", "nowhere"], "--bootstrap is HOST:PORT"),
        (["--bootstrap", "host:99999"], "--bootstrap is HOST:PORT"),
        (["--bootstrap", "h:1", "--data", "d"], "not both"),
        (["--bootstrap", "h:1", "--keep-open"], "--keep-open needs --data"),
        (["--data", "d", "--kestrel", "h:1"], "--kestrel goes with --bootstrap"),
        (["--data", "d", "--client-config", "f"], "--client-config goes with --bootstrap"),
        (["--bootstrap", "h:1", "--client-config", "/nowhere.properties"], "/nowhere.properties"),
        (["--queue", "nobody"], "no journal of the queue 'nobody'"),
        (["--queue", "a.b"], "queue name"),
        (["--data", ""], "empty"),
        (["--keep-open-seconds", "0"], "keep-open-seconds"),
        (["--config", "/nowhere.toml"], "/nowhere.toml"),
    ],
)
def test_wrong_usage(journals: Path, arguments: list[str], message: str) -> None:
    before = snapshot(journals.parent)
    result = run("import-journals", journals, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert snapshot(journals.parent) == before


def test_a_source_that_is_not_there(tmp_path: Path, data: Path) -> None:
    result = run("import-journals", tmp_path / "nowhere", "--data", data)
    assert result.exit_code == 2
    assert "nowhere" in result.stderr
    assert not data.exists()


def test_an_empty_source(tmp_path: Path, data: Path) -> None:
    (tmp_path / "journals").mkdir()
    result = run("import-journals", tmp_path / "journals", "--data", data)
    assert result.exit_code == 2
    assert "there are no journals here" in result.stderr
    assert not data.exists()


def test_a_queue_is_named_once() -> None:
    assert named("q", "q: full") == "q: full"
    assert named("q", "quite full") == "q: quite full"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_journal_that_may_not_be_read(journals: Path, data: Path) -> None:
    write(journals, {"good": [A]})
    (journals / "q").chmod(0)
    result = run("import-journals", journals, "--data", data)
    assert result.exit_code == 3
    assert "Not imported q: " in words(result)


def test_a_link_that_leads_nowhere(journals: Path, data: Path) -> None:
    (journals / "gone").symlink_to("nowhere")
    result = run("import-journals", journals, "--data", data)
    assert result.exit_code == 3
    assert "Not imported gone: " in words(result)
    assert "Imported 1 queue" in words(result)


def test_a_directory_that_a_server_uses(journals: Path, data: Path) -> None:
    from barbicel.disk import RealDisk
    from barbicel.gateway.broker.catalogue import Catalogue

    with Catalogue.open(RealDisk(), str(data)):
        result = run("import-journals", journals, "--data", data)
    assert result.exit_code == 2
    assert "a server uses this data directory, or another import (stop it; import-journals" in result.stderr


def test_what_failed_is_no_number_of_records(
    journals: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full in the middle: what an earlier run had stored is not taken off."""
    from barbicel.errors import DiskError
    from barbicel.gateway.migration import marks
    from barbicel.gateway.migration.directory_queue import DirectoryQueue

    append, left = DirectoryQueue.append, [1]

    def append_until_full(queue: DirectoryQueue, *args: Any) -> None:
        if not left[0]:
            raise DiskError("write", "x.log", OSError(28, "No space left on device"))
        left[0] -= 1
        append(queue, *args)

    monkeypatch.setattr(marks, "MAX_BATCH_RECORDS", 1)
    monkeypatch.setattr(DirectoryQueue, "append", append_until_full)
    for before in ("", " An earlier run had stored 1 record."):
        result = run("import-journals", journals, "--data", data)
        assert result.exit_code == 3
        assert f"Imported 0 queues: 0 records stored.{before} Run it again for the rest" in words(result)
    monkeypatch.setattr(DirectoryQueue, "append", append)
    result = run("import-journals", journals, "--data", data)
    assert "Imported 1 queue: 2 records stored. An earlier run had stored 1 record." in words(result)


def test_a_verification_as_json_has_what_belongs_to_no_queue(journals: Path, data: Path) -> None:
    (journals / "q.bak").write_bytes(b"")
    run("import-journals", journals, "--data", data)
    result = document(run("verify-import", journals, "--data", data, "--json"))
    assert [(doubt["file"], doubt["kind"]) for doubt in result["doubts"]] == [("q.bak", "stray")]
