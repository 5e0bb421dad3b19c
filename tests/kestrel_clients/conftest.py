"""A gateway for each module, with the settings that the module names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kestrel_clients.raw_client import Memcache
from tests.support.gateway import Gateway, running_gateway


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Gateway]:
    settings = {"durability": "write", **getattr(request.module, "GATEWAY_SETTINGS", {})}
    with running_gateway(tmp_path_factory.mktemp("gateway"), **settings) as gateway:
        yield gateway


@pytest.fixture
def raw(gateway: Gateway) -> Iterator[Memcache]:
    with Memcache(gateway.kestrel_port) as client:
        yield client


@pytest.fixture
def other(gateway: Gateway) -> Iterator[Memcache]:
    """A second connection."""
    with Memcache(gateway.kestrel_port) as client:
        yield client
