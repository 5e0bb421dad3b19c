"""What the commands are tried on: a log, and a directory of groups, both closed in good order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.group_support import build_groups
from tests.cli.live import Live
from tests.cli.support import build
from tests.support.gateway import running_gateway


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return build(tmp_path / "log")


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    return build_groups(tmp_path / "groups")


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A gateway for all tests of commands that talk to one. Each test has names of its own."""
    with running_gateway(tmp_path_factory.mktemp("live"), log_retention_ms="-1") as gateway:
        yield Live(gateway)
