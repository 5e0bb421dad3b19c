"""GET /api/queues, /api/queues/<name>: Kestrel's queues, with the numbers that `stats` tells."""

from __future__ import annotations

from typing import Any

from barbicel.config.queue_settings import QUEUE_SETTINGS, QueueSettings
from barbicel.gateway.admin.api.paging import take_page
from barbicel.gateway.admin.exchange import Asked, Refusal
from barbicel.gateway.admin.history import History
from barbicel.gateway.kestrel.queues import Queues
from barbicel.kestrel_compat.names import parse_queue_name, topic_of
from barbicel.kestrel_compat.stats import QueueStats

__all__ = ["QueuesApi", "is_queue"]


def is_queue(queues: Queues, name: str) -> bool:
    """Whether there is one of this name; an alias is none. Those that are open are soon found."""
    return isinstance(queues.queue_stats(name), QueueStats) or name in queues.names()


class QueuesApi:
    def __init__(self, queues: Queues, history: History) -> None:
        self._queues = queues
        self._history = history

    async def list_queues(self, asked: Asked) -> dict[str, Any]:
        text = asked.query.get("search", "")
        names, page = take_page(asked, [name for name in self._queues.names() if text in name])
        return {"queues": [self.row(name) for name in names], **page.about()}

    async def show_queue(self, asked: Asked) -> dict[str, Any]:
        name = asked.names["name"]
        if not is_queue(self._queues, name):
            raise Refusal(404, "there is no such queue")
        return {
            **self.row(name),
            "settings": _rendered(self._queues.settings_of(name)),
            "errors": self._errors(name),
        }

    def row(self, name: str) -> dict[str, Any]:
        """Its numbers are not known before it was opened, which is soon after a start."""
        parsed = parse_queue_name(name)
        topic = topic_of(parsed.master)
        stats = self._queues.queue_stats(name)
        return {
            "name": name,
            "master": parsed.master,
            "topic": topic,
            "stats": stats._asdict() if isinstance(stats, QueueStats) else None,
            "rates": self._history.rates(topic)._asdict(),
            "recent": self._history.recent(topic),
        }

    def _errors(self, name: str) -> str | None:
        """The queue where items go that were handed out too often, if it has come to that."""
        errors = f"{name.replace('+', '_')}_errors"
        return errors if is_queue(self._queues, errors) else None


def _rendered(settings: QueueSettings) -> dict[str, str]:
    return {row.name: row.rule.render(getattr(settings, row.attribute)) for row in QUEUE_SETTINGS.values()}
