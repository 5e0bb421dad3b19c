"""The Java client, newest and as Spark has it: the scenarios of tests/rig, against the gateway."""

from __future__ import annotations

import pytest

from tests.clients.java_client import column
from tests.rig.java_clients import CLIENTS, SCENARIOS, run_scenario
from tests.rig.skipping import skip_without_rig
from tests.support.gateway import Gateway

# The scenarios ask for Kafka's defaults.
GATEWAY_SETTINGS = {"num_partitions": "1"}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(gateway: Gateway, client: str, scenario: str, request: pytest.FixtureRequest) -> None:
    with skip_without_rig():
        checks = run_scenario(client, scenario, gateway.bootstrap)
    request.node.user_properties.append(("column", column(client)))
    request.node.user_properties += [("check", check.name) for check in checks]
    assert checks
