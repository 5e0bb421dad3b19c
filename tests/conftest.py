"""What every test leaves behind as it was, and what some of them tell whoever runs them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.support.mortal_disk import MortalDisk

# Spark's Python side waits by select(2), which knows no file beyond 1024: then it waits for ever.
OPEN_FILES_MAX = 512
# A property that a test records for the end of the run.
NOTE = "note"
# A file's tests run in one process. These directories' do too: each has something that takes long to start.
START_ONCE = ("tests/pipeline/",)


class StartedOnce(LoadFileScheduling):  # type: ignore[misc]  # the same
    def _split_scope(self, nodeid: str) -> str:
        for directory in START_ONCE:
            if nodeid.startswith(directory):
                return directory
        return str(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> StartedOnce | None:
    return StartedOnce(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Also of tests that ran in other processes: their properties come with their reports."""
    reports = [report for name in ("passed", "failed") for report in terminalreporter.stats.get(name, ())]
    notes = dict.fromkeys(
        str(text) for report in reports for name, text in report.user_properties if name == NOTE
    )
    if notes:
        terminalreporter.section("notes")
        terminalreporter.write("".join(f"{note}\n" for note in notes))


@pytest.fixture(autouse=True)
def few_open_files() -> Iterator[None]:
    """One process runs thousands of tests: what each leaves open adds up."""
    yield
    MortalDisk.end_all()
    # The lowest number that is free.
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    assert free < OPEN_FILES_MAX, "this test, or those before it, have left files open"
