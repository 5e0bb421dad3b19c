"""Which settings hold for a queue: the default's, below those of its master, below its own.

A child inherits what its master has, but for `fanoutOnly`, which speaks of the master itself. Aliases are
queues that only take sets: what is put into one is put into each of its destinations.

The book is made of a file's tables and never changes; a reload makes another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from barbicel.config.queue_settings import QUEUE_SETTINGS, QueueSetting, QueueSettings
from barbicel.config.queue_tables import QueueTables

__all__ = ["QUEUE_SETTINGS", "QueueSetting", "QueueSettings", "SettingsBook"]

_OF_A_CHILD = {"fanout_only": False}


class SettingsBook:
    """Lookups never fail, and cost no more than two of them in dictionaries."""

    def __init__(self, tables: QueueTables | None = None) -> None:
        tables = tables or QueueTables()
        self.aliases: Mapping[str, tuple[str, ...]] = MappingProxyType(dict(tables.aliases))
        self._default = QueueSettings(**tables.default)
        self._default_child = QueueSettings(**{**tables.default, **_OF_A_CHILD})
        self._by_name: dict[str, QueueSettings] = {}
        # Of the children that have no table, by the name of their master.
        self._children: dict[str, QueueSettings] = {}
        for name in tables.queues:
            self._add(name, tables)

    def _add(self, name: str, tables: QueueTables) -> None:
        master = _master(name)
        inherited = {**tables.default, **tables.queues.get(master, {})}
        if master != name:
            self._by_name[name] = _merged(inherited, tables.queues[name], _OF_A_CHILD)
        else:
            self._by_name[name] = _merged(inherited)
            self._children[name] = _merged(inherited, _OF_A_CHILD)

    def for_queue(self, name: str) -> QueueSettings:
        """What holds for the queue or child of this name, whether there is one or not."""
        if (own := self._by_name.get(name)) is not None:
            return own
        if "+" not in name or (master := _master(name)) == name:
            return self._default
        return self._children.get(master, self._default_child)


def _merged(*layers: Mapping[str, Any]) -> QueueSettings:
    values: dict[str, Any] = {}
    for layer in layers:
        values |= layer
    return QueueSettings(**values)


def _master(name: str) -> str:
    """As names.parse_queue_name has it, for any text."""
    return name.partition("+")[0] or name
