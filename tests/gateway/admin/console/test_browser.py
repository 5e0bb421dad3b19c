"""The console in a real browser: Chromium without a screen, beside real clients of both protocols."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.gateway.admin.browser import DESKTOP, PHONE, Browser, browser_missing, running_browser
from tests.gateway.admin.http import Operator
from tests.gateway.admin.kafka_clients import commit, consume, create_topic, produce
from tests.kestrel_clients.raw_client import Memcache
from tests.support.gateway import Gateway

MISSING = browser_missing()
pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

HOSTILE = b"<img src=x onerror=alert(1)><script>alert(2)</script>"
QUEUE = "<script>x\"'&"
LONG = "a-rather-long-name-of-a-topic-" * 6
# Nowhere in it a line would be broken.
UNBROKEN = "x" * 240
# In a path a browser would resolve them.
DOTS = (".", "..")

PAGES = (
    "/",
    "/topics",
    "/topics/orders",
    f"/topics/{LONG}",
    f"/topics/{LONG}/messages",
    f"/topics/{UNBROKEN}",
    f"/topics/{UNBROKEN}/messages",
    "/topics/orders/messages?offset=0",
    "/queues",
    f"/queues/{quote(QUEUE, safe='')}",
    f"/queues/{UNBROKEN}",
    "/groups",
    "/groups/workers",
    f"/groups/{UNBROKEN}",
    "/groups/?name=..",
    "/settings",
)


@pytest.fixture(scope="module", autouse=True)
def traffic(gateway: Gateway) -> Iterator[None]:
    create_topic(gateway, "orders", 2)
    create_topic(gateway, LONG, 1)
    produce(gateway, "orders", b'{"n": 1}', HOSTILE, b"\x00\xff" * 100, b"x" * 5000, key=HOSTILE)
    for group in ("workers", *DOTS):
        commit(gateway, group, ("orders", 0, 1))
    commit(gateway, UNBROKEN, ("orders", 0, 1), (LONG, 0, 0))
    with Memcache(gateway.kestrel_port) as client:
        assert client.put(QUEUE, HOSTILE)
        assert client.put(QUEUE, b"second")
        assert client.put(UNBROKEN, b"x")
        assert client.get(f"{QUEUE}/open") == HOSTILE
        yield


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser(DESKTOP) as running:
        yield running


@pytest.fixture(scope="module")
def phone() -> Iterator[Browser]:
    with running_browser(PHONE) as running:
        yield running


def url(gateway: Gateway, path: str) -> str:
    return f"http://127.0.0.1:{gateway.admin_port}{path}"


@pytest.mark.parametrize("path", PAGES)
def test_a_page_opens_without_complaints(browser: Browser, gateway: Gateway, path: str) -> None:
    browser.open(url(gateway, path))
    assert browser.run("return document.title").endswith("Barbicel")
    assert browser.run("return document.querySelectorAll('main .card').length") > 0
    assert browser.run("return [...document.styleSheets].length") == 1
    assert browser.complaints() == []


@pytest.mark.parametrize("path", PAGES)
def test_a_phone_needs_no_scrolling_to_the_side(phone: Browser, gateway: Gateway, path: str) -> None:
    phone.open(url(gateway, path))
    phone.run("for (const one of document.querySelectorAll('details.message')) one.open = true")
    assert phone.overflow() <= 0
    phone.click(".access summary")
    assert phone.overflow() <= 0


# What cannot be opened, and what it says. A page that is not there has none of what was asked for in it.
LOST = {
    "/nowhere": "there is no such page",
    "/<img src=x onerror=alert(1)>/<script>alert(2)</script>": "there is no such page",
    f"/{UNBROKEN}": "there is no such page",
    "/topics/none": "there is no such topic",
    "/queues/none": "there is no such queue",
    f"/groups/?name={UNBROKEN}y": "there is no such group",
}


@pytest.mark.parametrize("path", LOST)
def test_a_page_that_is_not_there_leads_back(
    browser: Browser, phone: Browser, gateway: Gateway, path: str
) -> None:
    for one in (browser, phone):
        one.open(url(gateway, path))
        assert one.run("return document.querySelector('h1').textContent") == "404 Not Found"
        assert one.run("return document.querySelector('main .card').textContent") == LOST[path]
        assert one.run("return [...document.styleSheets].length") == 1
        assert one.run("return document.querySelectorAll('main img, main script').length") == 0
        assert one.overflow() <= 0
        # The browser itself says that the page was not found, and nothing else.
        assert all("404 (Not Found)" in complaint for complaint in one.complaints())
        one.click("main > p a")
        one.wait("document.title.startsWith('Overview')")
        assert one.complaints() == []


@pytest.mark.parametrize("name", DOTS)
@pytest.mark.parametrize("page", ["/groups", "/topics/orders"])
def test_a_group_whose_name_is_dots_opens(browser: Browser, gateway: Gateway, page: str, name: str) -> None:
    browser.open(url(gateway, page))
    browser.run(
        "[...document.querySelectorAll('a')].find((a) => a.textContent === arguments[0]).click()", name
    )
    browser.wait("document.getElementById('positions')")
    assert browser.run("return document.querySelector('h1').textContent") == name
    # Where the page is refreshed from, and the same in the API.
    asked = "return fetch(arguments[0] + location.pathname + location.search).then((answer) => answer.text())"
    assert f"<h1>{name}</h1>" in browser.run(asked, "")
    assert json.loads(browser.run(asked, "/api"))["name"] == name
    assert browser.complaints() == []


def test_charts_are_drawn_of_live_data(browser: Browser, gateway: Gateway) -> None:
    browser.open(url(gateway, "/topics/orders"))
    browser.wait("document.querySelector('svg.chart path.stroke')")
    browser.wait("/^last \\d+ (s|min)$/.test(document.getElementById('messages-span').textContent)")
    browser.wait("/^peak .+\\/s$/.test(document.getElementById('messages-peak').textContent)")
    browser.open(url(gateway, "/topics"))
    browser.wait("document.querySelector('svg.spark path.stroke')")
    assert browser.complaints() == []


def test_figures_follow_what_happens(browser: Browser, gateway: Gateway) -> None:
    create_topic(gateway, "growing", 1)
    browser.open(url(gateway, "/topics/growing"))
    messages = "document.querySelector('#figures .figure').textContent.trim()"
    assert browser.run(f"return {messages}") == "0"
    produce(gateway, "growing", *[b"x"] * 7)
    browser.wait(f"{messages} === '7'")
    assert browser.complaints() == []


def test_hostile_messages_do_nothing(browser: Browser, gateway: Gateway) -> None:
    queue = f"/queues/{quote(QUEUE, safe='')}"
    shown = {"/topics/orders/messages?offset=0": HOSTILE.decode(), queue: HOSTILE.decode(), "/queues": QUEUE}
    for path, text in shown.items():
        browser.open(url(gateway, path))
        assert browser.run("return document.querySelectorAll('main img, main script').length") == 0
        assert text in browser.run("return document.body.textContent")
    assert browser.complaints() == []


def give_token(browser: Browser, operator: Operator) -> None:
    browser.click(".access summary")
    browser.type("#token", operator.token)
    browser.click(".access summary")


def test_without_the_token_a_form_asks_for_it(browser: Browser, gateway: Gateway) -> None:
    browser.open(url(gateway, "/topics/orders"))
    browser.run("sessionStorage.clear()")
    browser.type("#publish textarea[name=value]", "unwanted")
    browser.click("#publish button")
    assert "needs the token" in browser.wait("document.querySelector('#publish .outcome').textContent")


def test_a_wrong_token_is_told(browser: Browser, gateway: Gateway) -> None:
    browser.open(url(gateway, "/topics/orders"))
    browser.click(".access summary")
    browser.type("#token", "wrong")
    browser.click(".access summary")
    browser.type("#publish textarea[name=value]", "unwanted")
    browser.click("#publish button")
    assert "takes the token" in browser.wait("document.querySelector('#publish .outcome').textContent")
    assert all("401" in complaint for complaint in browser.complaints())
    browser.run("sessionStorage.clear()")


def test_a_kafka_client_reads_what_was_published_on_the_page(
    browser: Browser, gateway: Gateway, operator: Operator
) -> None:
    create_topic(gateway, "typed", 2)
    browser.open(url(gateway, "/topics/typed"))
    give_token(browser, operator)
    browser.type("#publish textarea[name=value]", '{"hello": "wörld"}')
    browser.type("#publish input[name=key]", "a key")
    browser.type("#publish input[name=partition]", "1")
    browser.type("#publish textarea[name=headers]", "trace: 1\nflag")
    browser.click("#publish button")
    assert "offset 0" in browser.wait("document.querySelector('#publish .outcome').textContent")
    (message,) = consume(gateway, "typed", 1, 0, 1)
    assert (message.key(), message.value().decode()) == (b"a key", '{"hello": "wörld"}')
    assert message.headers() == [("trace", b"1"), ("flag", b"")]
    browser.open(url(gateway, "/topics/typed/messages?partition=1"))
    assert '"hello": "wörld"' in browser.text()
    assert browser.complaints() == []


def test_a_memcache_client_gets_what_was_put_on_the_page(
    browser: Browser, gateway: Gateway, operator: Operator
) -> None:
    with Memcache(gateway.kestrel_port) as client:
        assert client.get("typed-jobs") is None
        browser.open(url(gateway, "/queues/typed-jobs"))
        give_token(browser, operator)
        browser.type("#put textarea[name=value]", "to do")
        browser.click("#put button")
        assert "queue typed-jobs" in browser.wait("document.querySelector('#put .outcome').textContent")
        assert client.get("typed-jobs") == b"to do"
    assert browser.complaints() == []


def test_what_is_open_is_given_back_on_the_page(
    browser: Browser, gateway: Gateway, operator: Operator
) -> None:
    with Memcache(gateway.kestrel_port) as client, Memcache(gateway.kestrel_port) as other:
        assert client.put("held", b"stuck")
        assert client.get("held/open") == b"stuck"
        browser.open(url(gateway, "/queues/held"))
        give_token(browser, operator)
        browser.click("#open details.message summary")
        browser.click("#open details.message form button")
        browser.wait("document.querySelector('#open').textContent.includes('Nothing is open')")
        assert other.get("held") == b"stuck"
    assert browser.complaints() == []


def test_light_and_dark_can_be_changed_and_are_kept(browser: Browser, gateway: Gateway) -> None:
    background = "return getComputedStyle(document.body).backgroundColor"
    browser.open(url(gateway, "/"))
    before = browser.run(background)
    browser.click(".access summary")
    browser.click("#theme")
    after = browser.run(background)
    assert after != before
    browser.open(url(gateway, "/topics"))
    assert browser.run(background) == after
    assert browser.complaints() == []
