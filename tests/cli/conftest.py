"""What the commands are tried on: a log, and a directory of groups, both closed in good order."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.group_support import build_groups
from tests.cli.support import build


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return build(tmp_path / "log")


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    return build_groups(tmp_path / "groups")
