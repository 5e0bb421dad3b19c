"""What every test leaves behind as it was."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.mortal_disk import MortalDisk

# Spark's Python side waits by select(2), which knows no file beyond 1024: then it waits for ever.
OPEN_FILES_MAX = 512


@pytest.fixture(autouse=True)
def few_open_files() -> Iterator[None]:
    """One process runs thousands of tests: what each leaves open adds up."""
    yield
    MortalDisk.end_all()
    # The lowest number that is free.
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    assert free < OPEN_FILES_MAX, "this test, or those before it, have left files open"
