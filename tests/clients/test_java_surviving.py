"""The Java client, newest and as Spark has it, when the gateway is killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.clients.java_client import JavaClient
from tests.clients.surviving import Surviving
from tests.rig.skipping import skip_without_rig

NEWEST, SPARKS = JavaClient("clients-4"), JavaClient("clients-3.9")


@pytest.fixture(scope="module", autouse=True)
def running() -> Iterator[None]:
    with ExitStack() as stack:
        with skip_without_rig():
            for client in (NEWEST, SPARKS):
                stack.enter_context(client.running())
        yield


class TestNewest(Surviving):
    client = NEWEST


class TestSparks(Surviving):
    client = SPARKS
