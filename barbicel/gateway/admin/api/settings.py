"""GET /api/settings: every setting with its value, its default, and where the value came from.

No setting holds a secret: the token is in a file, of which only the path is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from barbicel.config.queue_settings import QUEUE_SETTINGS
from barbicel.config.queue_tables import QueueTables
from barbicel.config.settings import SETTINGS, Config
from barbicel.gateway.admin.exchange import Asked

__all__ = ["SettingsApi"]


class SettingsApi:
    def __init__(self, config: Config) -> None:
        self._config = config

    async def list_settings(self, asked: Asked) -> dict[str, Any]:
        tables = self._config.kestrel_queues
        return {
            "settings": list(self.rows()),
            "queues": list(_queue_rows(tables)),
            "aliases": {name: list(queues) for name, queues in tables.aliases.items()},
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        section = ""
        for setting in SETTINGS.values():
            section = setting.section or section
            origin = self._config.origin(setting.name)
            yield {
                "name": setting.name,
                "section": section,
                "value": self._config.text(setting.name),
                "default": setting.rule.render(setting.default),
                "origin": origin.kind,
                "where": origin.where,
                "doc": setting.doc,
                "allowed": setting.rule.allowed,
            }


def _queue_rows(tables: QueueTables) -> Iterator[dict[str, str]]:
    """What the file says of queues, "" for all of them."""
    by_attribute = {row.attribute: row for row in QUEUE_SETTINGS.values()}
    for queue, values in (("", tables.default), *tables.queues.items()):
        for attribute, value in values.items():
            row = by_attribute[attribute]
            yield {"queue": queue, "name": row.name, "value": row.rule.render(value)}
