"""Names in addresses: whatever clients called something, a browser that follows a link comes to it."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from barbicel.gateway.admin.addresses import parse_address, render_address
from barbicel.gateway.admin.exchange import Asked, as_json
from barbicel.gateway.admin.routes import Routes
from tests.gateway.admin.url_standard import resolve

NAMES = st.text(st.characters(exclude_categories=["Cs"])) | st.text("./%2eE?#&+ ", max_size=6)


async def show(_: Asked) -> dict[str, Any]:
    return {}


def parse(pattern: str, address: str) -> dict[str, str] | None:
    path, _, query = address.partition("?")
    segments = [unquote(segment) for segment in path.split("/")]
    return parse_address(pattern, segments, dict(parse_qsl(query, keep_blank_values=True)))


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("orders", "/groups/orders"),
        ("a/b c?<\u00e9>", "/groups/a%2Fb%20c%3F%3C%C3%A9%3E"),
        ("...", "/groups/..."),
        ("%2e", "/groups/%252e"),
        ("", "/groups/"),
        (".", "/groups/?name=."),
        ("..", "/groups/?name=.."),
    ],
)
def test_a_name_is_one_segment_unless_browsers_would_resolve_it(name: str, address: str) -> None:
    assert render_address("/groups/<name>", name=name) == address
    assert parse("/groups/<name>", resolve(address)) == {"name": name}


@pytest.mark.parametrize(
    ("address", "asked"),
    [
        ("/groups/..", "/"),
        ("/groups/.", "/groups/"),
        ("/api/groups/%2e%2E", "/api/"),
        ("/a/.%2e/b?x=..", "/b?x=.."),
        ("/groups/...?name=/../", "/groups/...?name=/../"),
        ("/groups//?name=..", "/groups//?name=.."),
    ],
)
def test_browsers_resolve_dots_as_the_standard_says(address: str, asked: str) -> None:
    assert resolve(address) == asked


@example("..", "..")
@example("", "..")
@given(NAMES, NAMES)
def test_every_name_is_found_again_by_a_browser(name: str, other: str) -> None:
    pattern = "/queues/<name>/open/<other>/requeue"
    address = render_address(pattern, name=name, other=other, name2=name, limit=5)
    assert parse(pattern, resolve(address)) == {"name": name, "other": other}
    query = dict(parse_qsl(address.partition("?")[2], keep_blank_values=True))
    assert (query["name2"], query["limit"]) == (name, "5")


def test_an_address_is_that_of_its_route_only() -> None:
    assert parse("/groups/<name>", "/topics/orders") is None
    assert parse("/groups/<name>", "/groups") is None
    assert parse("/groups/<name>", "/groups?name=orders") is None
    assert parse("/groups/<name>", "/groups/orders/") is None


@pytest.mark.parametrize(
    ("path", "query", "name"),
    [
        ("/groups/..", {}, ".."),
        ("/groups/%2e", {}, "."),
        ("/groups/", {"name": ".."}, ".."),
        ("/groups/", {"name": "orders"}, "orders"),
        ("/groups/orders", {"name": "another"}, "orders"),
        ("/groups/", {"search": "x"}, ""),
    ],
)
def test_a_path_has_the_last_word_and_an_empty_segment_none(
    path: str, query: dict[str, str], name: str
) -> None:
    routes = Routes()
    routes.add("GET", "/groups/<name>", as_json(show))
    assert routes.find(Asked("GET", path, query))[1].names == {"name": name}
