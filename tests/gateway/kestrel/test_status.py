"""The server's status: what it blocks, and that it survives."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, execute

from barbicel.disk import RealDisk
from barbicel.gateway.kestrel.status import DOWN, LEVELS, UP, BadStatus, ServerStatus


def at_once(function: Callable[[], None]) -> Deferred[Any]:
    return execute(function)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "tmp").mkdir()
    return tmp_path


def status_in(directory: Path) -> ServerStatus:
    return ServerStatus(RealDisk(), str(directory), at_once)


def change(status: ServerStatus, name: str) -> list[Exception | None]:
    answers: list[Exception | None] = []
    status.change(name, answers.append)
    return answers


def test_what_each_level_blocks() -> None:
    assert {name: (level.blocks_reads, level.blocks_writes) for name, level in LEVELS.items()} == {
        "UP": (False, False),
        "WRITEAVOID": (False, False),
        "READONLY": (False, True),
        "QUIESCENT": (True, True),
    }
    assert (DOWN.blocks_reads, DOWN.blocks_writes) == (True, True)


def test_it_is_up_until_it_is_changed(directory: Path) -> None:
    assert status_in(directory).level is UP
    assert not (directory / "kestrel.status").exists()


@pytest.mark.parametrize("name", LEVELS)
def test_a_restart_finds_the_level(directory: Path, name: str) -> None:
    assert change(status_in(directory), name.lower()) == [None]
    assert status_in(directory).level is LEVELS[name]


@pytest.mark.parametrize(
    ("name", "message"), [("sideways", "Unknown status."), ("Down", "Status forbidden.")]
)
def test_not_every_level_can_be_set(directory: Path, name: str, message: str) -> None:
    status = status_in(directory)
    with pytest.raises(BadStatus, match=message):
        change(status, name)
    assert status.level is UP


def test_it_counts_when_it_is_stored(directory: Path) -> None:
    jobs: list[tuple[Callable[[], None], Deferred[Any]]] = []

    def later(function: Callable[[], None]) -> Deferred[Any]:
        jobs.append((function, Deferred()))
        return jobs[-1][1]

    status = ServerStatus(RealDisk(), str(directory), later)
    answers = change(status, "readonly")
    assert (status.level, answers) == (UP, [])
    function, stored = jobs[0]
    stored.callback(function())
    assert (status.level.name, answers) == ("READONLY", [None])


def test_what_cannot_be_stored_does_not_count(directory: Path) -> None:
    status = status_in(directory)
    (directory / "tmp").rmdir()
    (answer,) = change(status, "readonly")
    assert isinstance(answer, Exception)
    assert status.level is UP


def test_going_down_is_not_stored(directory: Path) -> None:
    status = status_in(directory)
    change(status, "readonly")
    status.go_down()
    assert status.level is DOWN
    assert status_in(directory).level.name == "READONLY"


def test_who_is_down_stays_down(directory: Path) -> None:
    status = status_in(directory)
    status.go_down()
    assert change(status, "up") == [None]
    assert status.level is DOWN


@pytest.mark.parametrize("content", [b"", b"DOWN\n", b"\xff\xff", b"UP AND AWAY", b"x" * 5000])
def test_a_file_that_says_nothing_is_reported_and_the_server_is_up(
    directory: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    (directory / "kestrel.status").write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert status_in(directory).level is UP
    assert "is no status" in caplog.text


def test_a_file_that_cannot_be_read_is_reported(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    (directory / "kestrel.status").mkdir()
    assert status_in(directory).level is UP
    assert len(caplog.records) == 1
