"""Which pages there are: a table of paths, templates, and the views that they show.

A page is made in a thread, of plain data. Templates are read when the first page is asked for: a server whose
console nobody opens does without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from http.client import responses
from typing import TYPE_CHECKING, Any, NamedTuple

from barbicel.gateway.admin.exchange import Answer, Asked, Refusal, View
from barbicel.gateway.admin.routes import Route
from barbicel.gateway.broker.broker import Broker

if TYPE_CHECKING:
    from barbicel.gateway.admin.console.rendering import Rendering

__all__ = ["PAGES", "Console", "Page"]

HTML = "text/html; charset=utf-8"
# Their address changes with them.
KEPT = {"Cache-Control": "public, max-age=31536000, immutable"}


class Page(NamedTuple):
    """`views`: what the template calls each, and where it is in the API. Without the first there is no page;
    of the others it is told why they are not there."""

    path: str
    template: str
    section: str
    views: Mapping[str, str]


PAGES = (
    Page("/", "overview.html", "overview", {"overview": "overview"}),
    Page("/topics", "topics.html", "topics", {"list": "topics"}),
    Page("/topics/<name>", "topic.html", "topics", {"topic": "topics/<name>"}),
    Page(
        "/topics/<name>/messages",
        "messages.html",
        "topics",
        {"found": "topics/<name>/messages", "topic": "topics/<name>"},
    ),
    Page("/queues", "queues.html", "queues", {"list": "queues"}),
    Page(
        "/queues/<name>",
        "queue.html",
        "queues",
        {"queue": "queues/<name>", "waiting": "queues/<name>/items", "opened": "queues/<name>/open"},
    ),
    Page("/groups", "groups.html", "groups", {"list": "groups"}),
    Page("/groups/<name>", "group.html", "groups", {"group": "groups/<name>"}),
    Page("/tier", "tier.html", "tier", {"tier": "tier"}),
    Page("/settings", "settings.html", "settings", {"found": "settings"}),
)

# The way through the console: path, section, title. Some are only there if what they show is.
SECTIONS = (
    ("/", "overview", "Overview"),
    ("/topics", "topics", "Topics"),
    ("/queues", "queues", "Queues"),
    ("/groups", "groups", "Groups"),
    ("/tier", "tier", "Tier"),
    ("/settings", "settings", "Settings"),
)
OPTIONAL = ("queues", "tier")


class Console:
    def __init__(self, broker: Broker, views: Mapping[str, View]) -> None:
        """`views` by their paths in the API. Pages of those that are not there are not served."""
        self._broker = broker
        self._views = views
        self._rendering: Rendering | None = None

    def routes(self) -> Iterator[Route]:
        for page in PAGES:
            if all(view in self._views for view in page.views.values()):
                yield Route("GET", page.path, partial(self._show, page))
        yield Route("GET", "/static/<hash>/<file>", self._show_file)

    async def _loaded(self) -> Rendering:
        if self._rendering is None:
            self._rendering = await self._broker.work_long(_load)
        return self._rendering

    async def _show(self, page: Page, asked: Asked) -> Answer:
        rendering = await self._loaded()
        try:
            context = await self._context(page, asked)
        except Refusal as refusal:
            return await self.show_refusal(asked, refusal)
        body = await self._broker.work_long(partial(rendering.page, page.template, context))
        return Answer(200, HTML, body)

    async def show_refusal(self, asked: Asked, refusal: Refusal) -> Answer:
        """Of any path, whether there is a page of it or not."""
        rendering = await self._loaded()
        why = {
            "status": refusal.status,
            "reason": responses.get(refusal.status, ""),
            "message": refusal.message,
        }
        context = {**self._common(asked.section, asked), **why}
        return Answer(refusal.status, HTML, rendering.page("refused.html", context))

    async def _context(self, page: Page, asked: Asked) -> dict[str, Any]:
        context = self._common(page.section, asked)
        for number, (name, view) in enumerate(page.views.items()):
            try:
                context[name] = await self._views[view](asked)
            except Refusal as refusal:
                if number == 0:
                    raise
                context[name] = {"error": refusal.message}
        return context

    def _common(self, section: str, asked: Asked) -> dict[str, Any]:
        return {
            "section": section,
            "sections": [one for one in SECTIONS if one[1] not in OPTIONAL or one[1] in self._views],
            "query": dict(asked.query),
            "now_ms": self._broker.clock(),
        }

    async def _show_file(self, asked: Asked) -> Answer:
        rendering = await self._loaded()
        found = rendering.files.get(asked.names["file"])
        if found is None or asked.names["hash"] != rendering.files_hash:
            raise Refusal(404, "there is no such file")
        return Answer(200, found.content_type, found.data, KEPT)


def _load() -> Rendering:
    from barbicel.gateway.admin.console.rendering import Rendering

    return Rendering()
