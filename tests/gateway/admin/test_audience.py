"""Browsers are told from tools by what they accept, as they really send it."""

from __future__ import annotations

import pytest

from barbicel.gateway.admin.audience import is_for_people
from barbicel.gateway.admin.exchange import Asked

CHROMIUM = (
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,"
    "application/signed-exchange;v=b3;q=0.7"
)
FIREFOX = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
LYNX = "text/html, text/plain, text/sgml, text/css, application/xhtml+xml, */*;q=0.01"
PROMETHEUS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"


@pytest.mark.parametrize(
    "accept", [CHROMIUM, FIREFOX, LYNX, "TEXT/HTML ; Q=0.001", "application/json;q=0,text/html"]
)
def test_browsers_are_for_people(accept: str) -> None:
    assert is_for_people(Asked("GET", "/nowhere", accept=accept))


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        "text/*",
        "application/json",
        "application/json, text/plain, */*",
        "application/json, text/html",
        "application/json, text/html;q=0.9",
        "image/avif,image/webp,*/*;q=0.8",
        "text/html;q=0",
        "text/html;q=0.000",
        "text/html;q=nan",
        "text/html;q=2",
        "text/html;q=",
        "x-text/html",
        ",;,;q=1",
        PROMETHEUS,
    ],
)
def test_all_else_is_a_tool(accept: str) -> None:
    assert not is_for_people(Asked("GET", "/nowhere", accept=accept))


@pytest.mark.parametrize(
    "path", ["/api", "/api/", "/api/nowhere", "/api/topics/none", "/%61pi/topics/none", "/api?x"]
)
def test_the_api_is_for_tools_whoever_asks(path: str) -> None:
    assert not is_for_people(Asked("GET", path.partition("?")[0], accept=FIREFOX))


@pytest.mark.parametrize("path", ["/", "", "*", "/apis", "/topics/api", "//api", "/API"])
def test_no_other_path_is_the_api(path: str) -> None:
    assert is_for_people(Asked("GET", path, accept=FIREFOX))
