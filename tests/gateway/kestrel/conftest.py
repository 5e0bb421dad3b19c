"""A front end in this process for each test that wants one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.kestrel.in_memory_clients import Gateway, in_memory_gateway


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with in_memory_gateway(tmp_path / "data") as gateway:
        yield gateway
