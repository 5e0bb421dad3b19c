"""docs/admin_api.md tells what there is: every route that it names, every field, every metric."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.gateway.admin.http import Operator, poll
from tests.gateway.admin.kafka_clients import commit, produce
from tests.kestrel_clients.raw_client import Memcache
from tests.support.gateway import Gateway

DOCUMENT = (Path(__file__).parents[3] / "docs" / "admin_api.md").read_text()
READING = re.findall(
    r"^\| `(/api/[^`]*)` \| (.*) \|$", DOCUMENT.split("### Reading")[1].split("### Chang")[0], re.M
)
CHANGING = re.findall(r"^\| `(/api/[^`]*)` \|", DOCUMENT.split("### Changing")[1], re.M)
# Where there is no object store.
ABSENT = {"/api/tier", "/api/tier/flush"}
# Values of fields, and fields of the query.
NO_FIELDS = {"kafka", "kestrel", "limit"}
# What stands for a NAME, by the word before it.
NAMES = {"topics": "documented", "groups": "readers", "queues": "jobs"}


@pytest.fixture(scope="module", autouse=True)
def traffic(gateway: Gateway, operator: Operator) -> Iterator[None]:
    produce(gateway, "documented", b"x")
    commit(gateway, "readers", ("documented", 0, 0))
    with Memcache(gateway.kestrel_port) as client:
        assert client.put("jobs", b"x")
        assert client.get("jobs/open") == b"x"
        poll(lambda: operator.look("/api/queues/jobs/open")["open"])
        yield


def path_of(documented: str) -> str:
    return re.sub(r"(\w+)/NAME", lambda found: f"{found[1]}/{NAMES[found[1]]}", documented)


def keys_in(value: Any) -> set[str]:
    """Of all objects, however deep."""
    if isinstance(value, dict):
        return value.keys() | {key for one in value.values() for key in keys_in(one)}
    return {key for one in value for key in keys_in(one)} if isinstance(value, list) else set()


def test_the_tables_are_found() -> None:
    assert len(READING) == 12
    assert len(CHANGING) == 6


@pytest.mark.parametrize(("route", "text"), [row for row in READING if row[0] not in ABSENT])
def test_every_route_for_reading_is_there_with_its_fields(operator: Operator, route: str, text: str) -> None:
    told = set(re.findall(r"`([a-z_]+)`", text)) - NO_FIELDS
    assert told - keys_in(operator.look(path_of(route))) == set()


@pytest.mark.parametrize("route", [route for route in CHANGING if route not in ABSENT])
def test_every_route_for_changing_is_there_and_takes_the_token(operator: Operator, route: str) -> None:
    path = path_of(route).replace("OFFSET", "0")
    assert operator.ask("POST", path, {}).status == 401
    assert operator.post(path, {}).status in (200, 400, 409)


def test_every_metric_is_told_of(operator: Operator) -> None:
    told = set(re.findall(r"`((?:kafka|barbicel|process)_\w+)", DOCUMENT))
    prefix = "kafka_server_brokertopicmetrics"
    told |= {f"{prefix}_bytesin_total", f"{prefix}_bytesout_total"}
    families = text_string_to_metric_families(operator.get("/metrics").text)
    served = {family.name for family in families} - {"barbicel_tier_lag_bytes"}
    untold = {
        name for name in served if not name.startswith("kestrel_") and not {name, f"{name}_total"} & told
    }
    assert untold == set()
