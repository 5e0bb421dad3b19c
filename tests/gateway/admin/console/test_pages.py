"""The console over real HTTP: every page opens, and nothing that clients can write becomes a part of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest

from barbicel.gateway.admin.console.rendering import Rendering
from tests.gateway.admin.http import Operator, poll
from tests.gateway.admin.kafka_clients import commit, create_topic, produce
from tests.gateway.admin.url_standard import resolve
from tests.kestrel_clients.raw_client import Memcache
from tests.support.gateway import Gateway, running_gateway

# In every place that a client can write to. A queue's name has no space, slash, dot or tilde.
HOSTILE = "<img src=x onerror=alert(1)>\"'><script>alert(2)</script>{{7*7}}"
QUEUE = "<script>x\"'&{{7*7}}"
GROUP = f"g-{HOSTILE}"
# What Kafka lets groups be called, and browsers resolve in a path.
DOTS = (".", "..")


@pytest.fixture(scope="module", autouse=True)
def traffic(gateway: Gateway) -> Iterator[None]:
    create_topic(gateway, "orders", 2)
    produce(gateway, "orders", HOSTILE.encode(), key=HOSTILE.encode(), headers=[(HOSTILE, HOSTILE)])
    produce(gateway, "orders", b'{"a": "%b"}' % HOSTILE.replace('"', "").encode(), b"\x00\xff</pre><script>")
    for group in (GROUP, *DOTS):
        commit(gateway, group, ("orders", 0, 1))
    with Memcache(gateway.kestrel_port) as client:
        assert client.put(QUEUE, HOSTILE.encode())
        assert client.put(QUEUE, HOSTILE.encode())
        assert client.put(f"{QUEUE}_errors", HOSTILE.encode())
        assert client.get(f"{QUEUE}/open") == HOSTILE.encode()
        yield


PAGES = {
    "/": "Overview",
    "/topics": "orders",
    "/topics?search=ord": "orders",
    "/topics/orders": "Partitions",
    "/topics/orders/messages": "Messages",
    "/topics/orders/messages?partition=0&offset=0&time=&limit=5": "Messages",
    "/queues": "Queues",
    f"/queues/{quote(QUEUE, safe='')}": "Open transactions",
    f"/queues/{quote(QUEUE, safe='')}_errors": "Move items",
    "/groups": "kestrel",
    f"/groups/{quote(GROUP, safe='')}": "Positions",
    "/groups/?name=..": "Positions",
    "/groups/..": "Positions",
    "/topics//messages?name=orders&offset=0&limit=1": "Messages",
    "/settings": "data.directory",
    f"/topics?search={quote(HOSTILE)}": "No topics",
    f"/topics/orders/messages?limit={quote(HOSTILE)}": "400",
}


class Elements(HTMLParser):
    """Every element of a page with its attributes, and the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("path", PAGES)
def test_a_page_opens_and_runs_nobodys_script(operator: Operator, path: str) -> None:
    reply = operator.get(path)
    page = Elements(reply.text)
    assert PAGES[path] in page.text
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
    for tag, attributes in page.found:
        assert tag != "script" or re.fullmatch(r"/static/[0-9a-f]{16}/console\.js", attributes["src"] or "")
        assert tag != "img" or (attributes["src"] or "").startswith("/static/")
        assert tag not in ("style", "iframe", "object", "base")
        assert not any(name.startswith("on") or name == "style" for name in attributes), (tag, attributes)
        for name in ("href", "src", "data-post", "data-chart", "action"):
            assert (attributes.get(name) or "/").startswith(("/", "?")), attributes


def test_what_clients_wrote_is_shown_as_they_wrote_it(operator: Operator) -> None:
    assert HOSTILE in Elements(operator.get("/topics/orders/messages?offset=0").text).text
    assert GROUP in Elements(operator.get("/groups").text).text
    assert QUEUE in Elements(operator.get("/queues").text).text
    queue = Elements(operator.get(f"/queues/{quote(QUEUE, safe='')}").text)
    assert queue.text.count(HOSTILE) >= 2
    assert "{{7*7}}" in queue.text
    value = Elements(operator.get("/topics/orders/messages?offset=2&limit=1").text).text
    assert "00 ff 3c 2f 70 72 65 3e" in value


def test_links_of_a_page_lead_somewhere(operator: Operator) -> None:
    seen: set[str] = set()
    left = ["/"]
    while left:
        path = left.pop()
        reply = operator.get(resolve(path))
        assert reply.status == 200, path
        if not reply.headers["Content-Type"].startswith("text/html"):
            continue
        for tag, attributes in Elements(reply.text).found:
            link = attributes.get("href") if tag == "a" else None
            if link is not None:
                full = path.partition("?")[0] + link if link.startswith("?") else link
                if full not in seen:
                    seen.add(full)
                    left.append(full)
    assert any(path.startswith("/groups/g-") for path in seen)
    assert "/topics/orders/messages?partition=1" in seen


def test_a_browser_comes_to_groups_whose_names_are_dots(operator: Operator) -> None:
    links = re.compile('<a href="(/groups/[^"]*)">([.]+)</a>')
    for page in ("/groups", "/topics/orders"):
        found = {name: link for link, name in links.findall(operator.get(page).text)}
        assert set(found) == set(DOTS)
        for name, link in found.items():
            assert f"<h1>{name}</h1>" in operator.get(resolve(link)).text
            assert operator.look(resolve(f"/api{link}"))["name"] == name


def test_a_page_leads_on_however_its_topic_was_named(operator: Operator) -> None:
    """Older and newer messages, and the form, are those of the topic in the query too."""
    page = Elements(operator.get("/topics//messages?name=orders&offset=1&limit=1").text)
    leading = [attributes.get("href") or attributes.get("action") or "" for _, attributes in page.found]
    assert len([link for link in leading if link.startswith("/topics/orders/messages")]) == 3
    assert not any(link.startswith("?") for link in leading)


def test_what_is_not_there_is_a_page_that_says_so(operator: Operator) -> None:
    for path in ("/topics/none", "/groups/none", "/queues/none", "/topics/none/messages"):
        reply = operator.get(path)
        assert reply.status == 404
        assert "there is no such" in Elements(reply.text).text
    assert operator.get("/nowhere").status == 404


# As a browser asks for a page.
BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
LOST = {
    "/nowhere": 404,
    f"/{quote(HOSTILE, safe='')}": 404,
    f"/nowhere?x={quote(HOSTILE, safe='')}": 404,
    # As no browser would send it, and a script can.
    "/<script>alert(2)</script>": 404,
    f"/topics/{quote(HOSTILE, safe='')}": 404,
    f"/groups/?name={quote(HOSTILE, safe='')}": 404,
    f"/queues/{quote(HOSTILE, safe='')}": 404,
    f"/topics/orders/messages?offset={quote(HOSTILE, safe='')}": 400,
    "/static/0/console.js": 404,
}


@pytest.mark.parametrize("path", LOST)
def test_a_browser_that_is_lost_is_led_back(operator: Operator, path: str) -> None:
    reply = operator.ask("GET", path, headers=BROWSER)
    assert reply.status == LOST[path]
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
    page = Elements(reply.text)
    assert str(reply.status) in page.text
    assert "Back to the overview" in page.text
    links = [attributes["href"] for tag, attributes in page.found if tag == "a"]
    assert links.count("/") == 3  # the name, the first section, and the way back
    assert {"/topics", "/queues", "/groups", "/settings"} <= set(links)
    assert "alert(" not in reply.text
    assert operator.ask("HEAD", path, headers=BROWSER).headers["Content-Length"] == str(len(reply.body))


@pytest.mark.parametrize("path", ["/nowhere", "/static/0/console.js", "/topics/orders/nowhere"])
def test_tools_get_json_where_there_is_no_page(operator: Operator, path: str) -> None:
    for accept in ({}, {"Accept": "*/*"}, {"Accept": "application/json"}):
        reply = operator.ask("GET", path, headers=accept)
        assert (reply.status, reply.headers["Content-Type"]) == (404, "application/json")
        assert list(reply.json()) == ["error"]
    assert operator.get("/nowhere").body == b'{"error": "there is no such page"}\n'


@pytest.mark.parametrize("path", ["/api", "/api/nowhere", "/api/topics/none", "/api/groups/?name=none"])
def test_the_api_answers_json_to_a_browser_too(operator: Operator, path: str) -> None:
    reply = operator.ask("GET", path, headers=BROWSER)
    assert (reply.status, reply.headers["Content-Type"]) == (404, "application/json")
    assert reply.body == operator.get(path).body


def test_why_it_was_refused_is_only_text() -> None:
    """Some reasons have a name in them that somebody made up."""
    common = {"section": HOSTILE, "sections": [], "status": 400, "reason": HOSTILE, "message": HOSTILE}
    text = Rendering().page("refused.html", common).decode()
    page, clean = (
        Elements(text),
        Elements(Rendering().page("refused.html", {**common, "message": "x"}).decode()),
    )
    assert page.text.count(HOSTILE) == 3
    assert page.found == clean.found
    assert len([tag for tag, _ in page.found if tag in ("script", "img")]) == 2  # our own


def test_the_section_that_somebody_is_lost_in_is_marked(operator: Operator) -> None:
    marked = '<a href="/groups" aria-current="page">'
    assert marked in operator.ask("GET", "/groups/a/b", headers=BROWSER).text
    assert "aria-current" not in operator.ask("GET", "/nowhere", headers=BROWSER).text


def test_files_are_kept_by_browsers_until_they_change(operator: Operator) -> None:
    page = operator.get("/").text
    files = set(re.findall(r"/static/[0-9a-f]{16}/[a-z.]+", page))
    assert len(files) == 3
    for file in files:
        reply = operator.get(file)
        assert reply.status == 200
        assert "immutable" in reply.headers["Cache-Control"]
    old = re.sub("[0-9a-f]{16}", "0" * 16, min(files))
    assert operator.get(old).status == 404
    assert operator.get(re.sub("/[a-z.]+$", "/..%2Fpages.py", min(files))).status == 404


def test_nothing_comes_from_elsewhere(operator: Operator) -> None:
    page = operator.get("/").text
    for file in re.findall(r"/static/[0-9a-f]{16}/[a-z.]+", page):
        text = operator.get(file).text.replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in text
        assert "https:" not in text
        assert "innerHTML" not in text
    assert "http" not in page.replace("http-equiv", "")


def test_no_page_has_the_token(operator: Operator) -> None:
    for path in PAGES:
        assert operator.token not in operator.get(path).text


def test_a_server_without_queues_has_no_pages_of_them(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running_gateway(tmp_path_factory.mktemp("plain"), kestrel_enable="false") as gateway:
        operator = Operator(gateway)
        assert operator.get("/queues").status == 404
        links = [attributes.get("href") for _, attributes in Elements(operator.get("/").text).found]
        assert "/queues" not in links
        assert "/groups" in links
        assert operator.get("/groups").status == 200
        assert poll(lambda: operator.look("/api/overview")["counts"])["queues"] == 0


def test_an_empty_server_says_how_to_begin(tmp_path: Path) -> None:
    with running_gateway(tmp_path) as gateway:
        operator = Operator(gateway)
        for page, command in (
            ("topics", "barbicel topic create orders"),
            ("queues", "barbicel queue put jobs wash"),
            ("groups", "barbicel consume orders --group billing"),
        ):
            assert f"No {page} yet. Begin with <code>{command}</code>" in operator.get(f"/{page}").text
            assert f"No {page} with that in their name." in operator.get(f"/{page}?search=x").text
