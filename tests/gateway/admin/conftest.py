"""One gateway for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gateway.admin.http import Operator
from tests.support.gateway import Gateway, running_gateway


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running_gateway(tmp_path_factory.mktemp("admin")) as running:
        yield running


@pytest.fixture(scope="module")
def operator(gateway: Gateway) -> Operator:
    return Operator(gateway)
