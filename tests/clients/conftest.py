"""A gateway for each module, and what the tests leave for the table of docs/compatibility.md."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.records import EVERY_PARTITION
from tests.support.gateway import Gateway, running_gateway


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "feature(name): the row of docs/compatibility.md that the test proves")


def pytest_runtest_call(item: pytest.Item) -> None:
    """Note for whoever reads the reports which client shows what."""
    marker = item.get_closest_marker("feature")
    if marker is None:
        return
    (name,) = marker.args
    client = item.cls.client  # type: ignore[attr-defined]  # only tests in a class of checks have the mark
    item.user_properties += [("column", f"{client.name} {client.version}"), ("row", name)]
    if name in client.lacks:
        pytest.skip(f"{client.name} has no call for it")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Gateway]:
    settings = {"num_partitions": str(len(EVERY_PARTITION)), "group_min_session_timeout_ms": "100"}
    settings.update(getattr(request.module, "GATEWAY_SETTINGS", {}))
    with running_gateway(tmp_path_factory.mktemp("gateway"), **settings) as gateway:
        yield gateway
