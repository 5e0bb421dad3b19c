"""Directories that are not what a command needs: one line, exit code 2, and nothing is changed."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from barbicel.disk import RealDisk
from barbicel.errors import DiskError
from barbicel.keratin import Log
from barbicel.stroma import GroupStore
from tests.cli.group_support import BILLING, delta, name, snap, told_group
from tests.cli.support import build, run, segment, snapshot, words

LOG_COMMANDS = [
    ("log", "inspect"),
    ("log", "verify", "--deep"),
    ("log", "repair"),
    ("log", "repair", "--apply"),
    ("log", "recover"),
]
GROUP_COMMANDS = [
    ("group", "inspect"),
    ("group", "verify"),
    ("group", "repair"),
    ("group", "repair", "--apply"),
]
Command = tuple[str, ...]
EACH_COMMAND = pytest.mark.parametrize("command", [*LOG_COMMANDS, *GROUP_COMMANDS], ids=" ".join)
EACH_LOG_COMMAND = pytest.mark.parametrize("command", LOG_COMMANDS, ids=" ".join)
EACH_GROUP_COMMAND = pytest.mark.parametrize("command", GROUP_COMMANDS, ids=" ".join)


def run_on(command: Command, directory: str | Path, target: Path) -> Result:
    return run(*command, directory, *([target] if "recover" in command else []))


def check_refused(result: Result, path: Path) -> None:
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith(f"Error: {path}: ")


# --- not a log, not groups ------------------------------------------------------------------------


def nothing_there(directory: Path) -> None:
    pass


def an_empty_one(directory: Path) -> None:
    directory.mkdir()


def other_files(directory: Path) -> None:
    directory.mkdir()
    (directory / "notes.txt").write_bytes(b"mine")


def a_file(directory: Path) -> None:
    directory.write_bytes(b"content")


def a_pipe(directory: Path) -> None:
    os.mkfifo(directory)


def a_link_to_itself(directory: Path) -> None:
    directory.symlink_to(directory)


def a_log(directory: Path) -> None:
    Log.open(str(directory)).close()


def groups_of_nobody(directory: Path) -> None:
    GroupStore.open(str(directory)).close()


NEITHER = [nothing_there, an_empty_one, other_files, a_file, a_pipe, a_link_to_itself]
WRONG = [(command, make) for command in (*LOG_COMMANDS, *GROUP_COMMANDS) for make in NEITHER]
WRONG += [(command, groups_of_nobody) for command in LOG_COMMANDS]
WRONG += [(command, a_log) for command in GROUP_COMMANDS]


@pytest.mark.parametrize(
    ("command", "make"), WRONG, ids=[f"{' '.join(command)} {make.__name__}" for command, make in WRONG]
)
def test_what_is_something_else_is_left_alone(
    tmp_path: Path, command: Command, make: Callable[[Path], None]
) -> None:
    directory = tmp_path / "here"
    make(directory)
    before = snapshot(tmp_path)
    check_refused(run_on(command, directory, tmp_path / "saved"), directory)
    assert snapshot(tmp_path) == before


@EACH_COMMAND
def test_a_directory_that_may_not_be_read_is_told(
    log: Path, groups: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    def refuse(disk: RealDisk, path: str) -> None:
        raise DiskError("list", path, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))

    monkeypatch.setattr(RealDisk, "list", refuse)
    directory = log if command[0] == "log" else groups
    result = run_on(command, directory, tmp_path / "saved")
    check_refused(result, directory)
    assert "Permission denied" in result.stderr


# --- the directory's name -------------------------------------------------------------------------


@EACH_COMMAND
def test_an_empty_name_is_not_the_root(tmp_path: Path, command: Command) -> None:
    result = run_on(command, "", tmp_path / "saved")
    assert result.exit_code == 2
    assert "the directory's name is empty" in result.stderr


def test_an_empty_target_and_an_empty_log_are_not_the_root(log: Path, groups: Path) -> None:
    for arguments in (("log", "recover", log, ""), ("group", "repair", groups, "--log", "")):
        result = run(*arguments)
        assert result.exit_code == 2
        assert "the directory's name is empty" in result.stderr


@EACH_COMMAND
@pytest.mark.parametrize("written", ["{}", "{}/", "./{}", "{}//", "../{parent}/{}"])
def test_a_directory_may_be_named_in_any_way(
    log: Path, groups: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command, written: str
) -> None:
    monkeypatch.chdir(tmp_path)
    directory = written.format("log" if command[0] == "log" else "groups", parent=tmp_path.name)
    result = run_on(command, directory, tmp_path / "saved")
    assert (result.exit_code, result.stderr) == (0, "")


def test_the_working_directory_may_be_it(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment(log, 4).unlink()
    monkeypatch.chdir(log)
    assert f"\n  segments/{4:020d}.log: the file is missing\n" in run("log", "verify", ".").stdout


def test_a_relative_name_that_is_part_of_another_is_cut_off_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(tmp_path / "s")
    segment(tmp_path / "s", 4).unlink()
    monkeypatch.chdir(tmp_path)
    assert f"segments/{4:020d}.log: the file is missing" in run("log", "verify", "s").stdout


# --- something else where a file belongs ----------------------------------------------------------


def replace_with(make: Callable[[Path], None], path: Path) -> None:
    if path.exists():
        path.rename(path.parent.parent / f"moved-{path.name}")
    make(path)


IN_A_LOG = [
    (make, path)
    for make, paths in (
        (an_empty_one, ["manifest.bin", "LOCK", f"segments/{4:020d}.log", f"segments/{16:020d}.log"]),
        (a_pipe, ["manifest.bin", "LOCK", "segments", f"segments/{4:020d}.log", f"segments/{16:020d}.log"]),
        (a_file, ["segments", "tmp"]),
    )
    for path in paths
]


@EACH_LOG_COMMAND
@pytest.mark.parametrize(
    ("make", "path"), IN_A_LOG, ids=[f"{make.__name__} {path}" for make, path in IN_A_LOG]
)
def test_a_log_with_something_else_in_a_files_place_is_refused(
    log: Path, tmp_path: Path, command: Command, make: Callable[[Path], None], path: str
) -> None:
    (log / "tmp").rmdir()
    replace_with(make, log / path)
    before = snapshot(log)
    check_refused(run_on(command, log, tmp_path / "saved"), log / path)
    after = snapshot(log)
    assert {**after, "LOCK": None} == {**before, "LOCK": None}


@EACH_GROUP_COMMAND
@pytest.mark.parametrize("make", [an_empty_one, a_pipe])
def test_groups_with_something_else_as_their_lock_are_refused(
    groups: Path, tmp_path: Path, command: Command, make: Callable[[Path], None]
) -> None:
    replace_with(make, groups / "LOCK")
    check_refused(run_on(command, groups, tmp_path), groups / "LOCK")


@EACH_GROUP_COMMAND
@pytest.mark.parametrize("make", [an_empty_one, a_pipe])
@pytest.mark.parametrize("place", [snap, delta])
def test_a_group_with_something_else_in_a_files_place_cannot_be_read(
    groups: Path,
    tmp_path: Path,
    command: Command,
    make: Callable[[Path], None],
    place: Callable[[Path], Path],
) -> None:
    replace_with(make, place(groups))
    before = snapshot(groups)
    result = run_on(command, groups, tmp_path)
    assert result.exit_code == (0 if "inspect" in command else 2)
    assert f"{place(groups).name}: open failed: " in words(result)
    assert told_group(groups, BILLING)["verdict"] == "unreadable"
    assert {**snapshot(groups), "LOCK": None} == {**before, "LOCK": None}


@EACH_GROUP_COMMAND
@pytest.mark.parametrize("make", [an_empty_one, a_pipe])
def test_a_full_name_that_is_no_file_is_told(
    groups: Path, tmp_path: Path, command: Command, make: Callable[[Path], None]
) -> None:
    """Nobody knows whose the files beside it are. All other groups are looked at."""
    replace_with(make, name(groups))
    result = run_on(command, groups, tmp_path)
    assert result.exit_code == (0 if "inspect" in command else 3)
    assert f"{name(groups).stem}.delta" in words(result)
    assert told_group(groups, BILLING)["verdict"] == "sound"


@EACH_GROUP_COMMAND
@pytest.mark.parametrize("option", ["--topic", "--group"])
def test_a_name_that_no_group_can_have_is_no_group(
    groups: Path, tmp_path: Path, command: Command, option: str
) -> None:
    """As a shell gives a byte that is no UTF-8, and a name that is too long."""
    for wrong in ("\udcff", "x" * (1 << 18)):
        asked = {"--topic": "orders", "--partition": "3", "--group": "billing", option: wrong}
        result = run(*command, groups, *[word for pair in asked.items() for word in pair])
        assert (result.exit_code, result.stdout) == (2, "")
        assert "no group here is the one that was asked for" in result.stderr
