"""A process with too many open files is told so, and does not wait for ever."""

from __future__ import annotations

import os
import resource

import pytest

from barbicel.errors import BarbicelError
from barbicel.pipeline.jobs.callbacks import SELECT_FILES_MAX, check_callbacks


@pytest.fixture
def many_files() -> None:
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most <= SELECT_FILES_MAX + 64:
        pytest.skip(f"this machine lets a process open {most} files only")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limit, SELECT_FILES_MAX + 64), most))


def test_too_many_open_files(many_files: None) -> None:
    check_callbacks()
    opened: list[int] = []
    try:
        while not opened or opened[-1] < SELECT_FILES_MAX - 1:
            opened.append(os.open(os.devnull, os.O_RDONLY))
        with pytest.raises(BarbicelError, match="1024 files open.*run the job in a process of its own"):
            check_callbacks()
    finally:
        for one in opened:
            os.close(one)
    check_callbacks()
