"""Looking into queues and putting things back, while real clients use them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barbicel.gateway.admin.api import queue_items
from barbicel.kestrel_compat.items import Item, Stretch
from tests.gateway.admin.http import Operator, poll
from tests.kestrel_clients.raw_client import Memcache
from tests.support.gateway import Gateway, running_gateway

RULES = """
[kestrel.queues.fragile]
deliveryLimit = 2
[kestrel.queues.narrow]
maxItems = 1
[kestrel.queues.impatient]
openTransactionTimeout = "1 h"
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    directory = tmp_path_factory.mktemp("queues")
    (directory / "rules.toml").write_text(RULES)
    with running_gateway(directory, config=str(directory / "rules.toml")) as running:
        yield running


@pytest.fixture
def client(gateway: Gateway) -> Iterator[Memcache]:
    with Memcache(gateway.kestrel_port) as connected:
        yield connected


@pytest.fixture
def other(gateway: Gateway) -> Iterator[Memcache]:
    with Memcache(gateway.kestrel_port) as connected:
        yield connected


def items(operator: Operator, queue: str, query: str = "") -> list[tuple[str, str]]:
    found = operator.look(f"/api/queues/{queue}/items?{query}")["items"]
    return [(item["value"]["data"], item["state"]) for item in found]


def opened(operator: Operator, queue: str) -> list[Any]:
    found: list[Any] = operator.look(f"/api/queues/{queue}/open")["open"]
    return found


def fill(client: Memcache, queue: str, *values: bytes) -> None:
    for value in values:
        assert client.put(queue, value)


def test_looking_takes_nothing(operator: Operator, client: Memcache) -> None:
    fill(client, "seen", b"a", b"b", b"c", b"d")
    assert client.get("seen") == b"a"
    assert client.get("seen/open") == b"b"
    expected = [("b", "open"), ("c", "waiting"), ("d", "waiting")]
    assert items(operator, "seen") == items(operator, "seen") == expected
    assert operator.look("/api/queues/seen")["stats"]["items"] == 2
    assert client.get("seen/close/open") == b"c"


def test_pages_of_items(operator: Operator, client: Memcache) -> None:
    fill(client, "paged", *(b"%d" % number for number in range(10)))
    seen: list[str] = []
    offset: int | None = 0
    while offset is not None:
        found = operator.look(f"/api/queues/paged/items?limit=3&offset={offset}")
        seen += [item["value"]["data"] for item in found["items"]]
        offset = found["next_offset"]
    assert seen == [str(number) for number in range(10)]


def test_a_child_shows_its_own_and_its_masters(operator: Operator, client: Memcache) -> None:
    assert client.get("news+mine") is None
    fill(client, "news", b"for all")
    fill(client, "news+mine", b"for one")
    assert items(operator, "news%2Bmine") == [("for all", "waiting"), ("for one", "waiting")]
    assert items(operator, "news") == [("for all", "waiting")]


def test_what_is_open_is_told_with_its_deadline(operator: Operator, client: Memcache) -> None:
    fill(client, "impatient", b"slow")
    assert client.get("impatient/open") == b"slow"
    (row,) = opened(operator, "impatient")
    assert (row["value"]["data"], row["deliveries"], row["state"]) == ("slow", 1, "open")
    assert row["deadline_ms"] > row["added_ms"]


def test_what_is_given_back_goes_to_the_next_reader(
    operator: Operator, client: Memcache, other: Memcache
) -> None:
    fill(client, "held", b"first", b"second")
    assert client.get("held/open") == b"first"
    (row,) = opened(operator, "held")
    reply = operator.post(f"/api/queues/held/open/{row['offset']}/requeue")
    assert reply.json() == {"name": "held", "requeued": 1}
    assert opened(operator, "held") == []
    assert other.get("held/open") == b"first"
    # Its first reader has lost it: a close must not close the other's.
    client.get("held/close")
    assert [row["deliveries"] for row in opened(operator, "held")] == [2]
    assert other.get("held/close") is None
    assert items(operator, "held") == [("second", "waiting")]


def test_it_can_be_given_back_once(operator: Operator, client: Memcache) -> None:
    fill(client, "once", b"x")
    assert client.get("once/open") == b"x"
    (row,) = opened(operator, "once")
    path = f"/api/queues/once/open/{row['offset']}/requeue"
    assert [operator.post(path).status for _ in range(2)] == [200, 409]
    assert operator.post("/api/queues/once/open/12345/requeue").status == 409
    assert operator.post("/api/queues/once/open/x/requeue").status == 400


def test_all_that_is_open_can_be_given_back(operator: Operator, client: Memcache, other: Memcache) -> None:
    fill(client, "many", b"a", b"b", b"c")
    assert [client.get("many/open") for _ in range(2)] == [b"a", b"b"]
    assert other.get("many/open") == b"c"
    assert operator.post("/api/queues/many/open/requeue").json()["requeued"] == 3
    assert [other.get("many") for _ in range(3)] == [b"a", b"b", b"c"]


def test_what_was_given_back_is_so_after_a_kill(tmp_path: Path) -> None:
    with running_gateway(tmp_path) as gateway:
        operator = Operator(gateway)
        with Memcache(gateway.kestrel_port) as client:
            fill(client, "kept", b"a", b"b")
            assert client.get("kept/open") == b"a"
            assert operator.post("/api/queues/kept/open/requeue").json()["requeued"] == 1
            gateway.kill()
        gateway.start()
        found = poll(lambda: operator.get("/api/queues/kept/items").status == 200 and items(operator, "kept"))
        assert found == [("a", "waiting"), ("b", "waiting")]
        (first, _) = operator.look("/api/queues/kept/items")["items"]
        assert first["deliveries"] == 1


def test_dead_letters_are_found_and_go_back_to_their_queue(operator: Operator, client: Memcache) -> None:
    fill(client, "fragile", b"poison", b"fine")
    for _ in range(2):
        assert client.get("fragile/open") == b"poison"
        client.get("fragile/abort")
    assert client.get("fragile") == b"fine"
    # It is on its way while others are served.
    assert poll(lambda: operator.look("/api/queues/fragile")["errors"]) == "fragile_errors"
    poll(lambda: operator.look("/api/queues/fragile_errors")["stats"])
    assert poll(lambda: items(operator, "fragile_errors")) == [("poison", "waiting")]
    reply = operator.post("/api/queues/fragile_errors/move", {"to": "fragile"})
    assert reply.json() == {"name": "fragile_errors", "to": "fragile", "moved": 1}
    assert items(operator, "fragile_errors") == []
    assert client.get("fragile") == b"poison"


def test_only_as_many_are_moved_as_are_wanted_and_have_room(operator: Operator, client: Memcache) -> None:
    fill(client, "source", b"a", b"b", b"c", b"d")
    fill(client, "target", b"z")
    assert operator.post("/api/queues/source/move", {"to": "target", "limit": 2}).json()["moved"] == 2
    assert items(operator, "target") == [("z", "waiting"), ("a", "waiting"), ("b", "waiting")]
    assert client.put("narrow", b"full")
    reply = operator.post("/api/queues/source/move", {"to": "narrow"})
    assert reply.status == 409
    assert items(operator, "source") == [("c", "waiting"), ("d", "waiting")]


def test_what_a_fanout_gives_to_its_queue_is_given_once(operator: Operator, client: Memcache) -> None:
    """It comes to the fanout again: without an end it would go round, a thousand times."""
    assert client.get("circle+side") is None
    fill(client, "circle", b"a", b"b")
    assert operator.post("/api/queues/circle%2Bside/move", {"to": "circle"}).json()["moved"] == 2
    assert items(operator, "circle") == [(data, "waiting") for data in ("a", "b", "a", "b")]
    assert items(operator, "circle%2Bside") == [("a", "waiting"), ("b", "waiting")]
    rows = operator.look("/api/queues/circle%2Bside/items")["items"]
    assert [row["deliveries"] for row in rows] == [0, 0]


def test_a_page_of_large_items_is_short(operator: Operator, client: Memcache) -> None:
    fill(client, "heavy", *[b"x" * 200_000] * 40)
    found = operator.look("/api/queues/heavy/items?limit=500")
    assert len(found["items"]) == 16
    assert found["next_offset"] == 16


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"to": "still"}, 400),
        ({"to": 5}, 400),
        ({"to": "nowhere"}, 404),
        ({"to": "aim", "limit": 0}, 400),
        ({"to": "aim", "limit": "all"}, 400),
        ({"to": "aim", "limit": True}, 400),
    ],
)
def test_a_move_that_makes_no_sense_is_refused(
    operator: Operator, client: Memcache, body: Any, status: int
) -> None:
    fill(client, "still", b"x")
    fill(client, "aim", b"x")
    assert operator.post("/api/queues/still/move", body).status == status


def test_queues_that_are_none_are_not_found(operator: Operator) -> None:
    for path in ("items", "open"):
        assert operator.get(f"/api/queues/nowhere/{path}").status == 404
    assert operator.post("/api/queues/nowhere/move", {"to": "target"}).status == 404


def test_a_batch_is_opened_once_however_many_of_its_items_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred items of one batch of 50,000 took a minute and a half to look at."""
    opened_at: list[int] = []

    def read(partition: Any, cursor: int, end_offset: int, max_bytes: int) -> Stretch:
        opened_at.append(cursor)
        end = min((cursor // 1000 + 1) * 1000, partition.end_offset)
        return Stretch(cursor, end, [Item(at, b"", 0, None, 0) for at in range(cursor, end)], {}, [])

    monkeypatch.setattr(queue_items, "read_stretch", read)
    partition: Any = SimpleNamespace(start_offset=10, end_offset=2500)
    wanted = [5, *range(900, 1100), 2499, 2500]
    found = queue_items._read_items(partition, wanted)
    assert [item.offset for item in found] == wanted[1:-1]
    assert opened_at == [900, 1000, 2499]
