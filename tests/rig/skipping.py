"""When a test that needs the rig is skipped: never silently, and not where the rig is required."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.rig.jars import RigUnavailable

__all__ = ["REQUIRED", "skip_without_rig"]

# Set where a skipped test would hide that nothing was tested.
REQUIRED = "TESTS_REQUIRE_JAVA"


@contextmanager
def skip_without_rig() -> Iterator[None]:
    """Within this, what the machine lacks skips the test and says so."""
    try:
        yield
    except RigUnavailable as error:
        if os.environ.get(REQUIRED):
            raise
        pytest.skip(str(error))
