"""The dashboard asks for metrics that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.gateway.admin.http import Operator, poll
from tests.gateway.admin.kafka_clients import commit, produce
from tests.kestrel_clients.raw_client import Memcache
from tests.support.gateway import Gateway

DASHBOARD = Path(__file__).parents[3] / "docs" / "grafana" / "barbicel.json"
METRIC = re.compile(r"\b(?:kafka|barbicel|kestrel|process)_\w+")


def asked_for() -> set[str]:
    dashboard: Any = json.loads(DASHBOARD.read_text())
    texts = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    texts += [str(variable["query"]) for variable in dashboard["templating"]["list"]]
    return {name for text in texts for name in METRIC.findall(text)}


def test_every_metric_of_the_dashboard_is_served(gateway: Gateway, operator: Operator) -> None:
    produce(gateway, "shown", b"x")
    commit(gateway, "group", ("shown", 0, 0))
    with Memcache(gateway.kestrel_port) as client:
        assert client.put("queue", b"x")

    def missing() -> set[str]:
        families = text_string_to_metric_families(operator.get("/metrics").text)
        return asked_for() - {sample.name for family in families for sample in family.samples}

    assert len(asked_for()) > 20
    assert poll(lambda: not missing()), missing()
