"""The console over real HTTP: every page opens, and nothing that clients can write becomes a part of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.gateway.admin.http import Operator, poll
from tests.gateway.admin.kafka_clients import commit, create_topic, produce
from tests.kestrel_clients.raw_client import Memcache
from tests.support.gateway import Gateway, running_gateway

# In every place that a client can write to. A queue's name has no space, slash, dot or tilde.
HOSTILE = "<img src=x onerror=alert(1)>\"'><script>alert(2)</script>{{7*7}}"
QUEUE = "<script>x\"'&{{7*7}}"
GROUP = f"g-{HOSTILE}"


@pytest.fixture(scope="module", autouse=True)
def traffic(gateway: Gateway) -> Iterator[None]:
    create_topic(gateway, "orders", 2)
    produce(gateway, "orders", HOSTILE.encode(), key=HOSTILE.encode(), headers=[(HOSTILE, HOSTILE)])
    produce(gateway, "orders", b'{"a": "%b"}' % HOSTILE.replace('"', "").encode(), b"\x00\xff</pre><script>")
    commit(gateway, GROUP, ("orders", 0, 1))
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
        reply = operator.get(path)
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


def test_what_is_not_there_is_a_page_that_says_so(operator: Operator) -> None:
    for path in ("/topics/none", "/groups/none", "/queues/none", "/topics/none/messages"):
        reply = operator.get(path)
        assert reply.status == 404
        assert "there is no such" in Elements(reply.text).text
    assert operator.get("/nowhere").status == 404


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
