"""Reading [kestrel.default], [kestrel.queues."name"] and [kestrel.aliases]. Names there are no dotted names.

Everything is read before anything is refused, as in the rest of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from barbicel.config.queue_rules import QueueText
from barbicel.config.queue_settings import QUEUE_SETTINGS, QueueSetting
from barbicel.config.setting import shown, suggestion
from barbicel.config.values import Switch, Whole

__all__ = ["QUEUE_TABLES", "QueueTables", "read_queue_tables"]

# What is in the table [kestrel] beside settings of the server.
QUEUE_TABLES = ("default", "queues", "aliases")

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_NAME = QueueText()


@dataclass(frozen=True)
class QueueTables:
    """What a file says of queues: values by the field of QueueSettings. Names are as clients spell them."""

    default: Mapping[str, Any] = field(default_factory=dict)
    queues: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def read_queue_tables(kestrel: Mapping[str, Any], where: str) -> tuple[QueueTables, list[str]]:
    """What the table [kestrel] says of queues, and what is wrong with it. `where` names the file."""
    reading = _Reading(f"{where}: kestrel")
    tables = QueueTables(
        default=reading.settings(kestrel.get("default", _NOTHING), "default"),
        queues=reading.queues(kestrel.get("queues", _NOTHING)),
        aliases=reading.aliases(kestrel.get("aliases", _NOTHING)),
    )
    return tables, reading.problems


class _Reading:
    def __init__(self, where: str) -> None:
        self._where = where
        self.problems: list[str] = []

    def settings(self, table: object, at: str) -> dict[str, Any]:
        values = {}
        for name, given in self._entries(table, at):
            setting = QUEUE_SETTINGS.get(name)
            if setting is None:
                self._complain(f"{at}.{name}", f"is no setting of a queue{suggestion(name, QUEUE_SETTINGS)}")
                continue
            try:
                values[setting.attribute] = _understand(setting, given)
            except ValueError as error:
                self._complain(f"{at}.{name}", f"is {shown(given)}, {error}")
        return values

    def queues(self, table: object) -> dict[str, dict[str, Any]]:
        return {
            queue: self.settings(given, f"queues.{_quoted(name)}")
            for name, given in self._entries(table, "queues")
            if (queue := self._name(name, "queues")) is not None
        }

    def aliases(self, table: object) -> dict[str, tuple[str, ...]]:
        given = {
            alias: self._destinations(named, f"aliases.{_quoted(name)}")
            for name, named in self._entries(table, "aliases")
            if (alias := self._name(name, "aliases")) is not None
        }
        return {name: self._resolved(name, given) for name in given}

    def _destinations(self, named: object, at: str) -> tuple[str, ...]:
        if not isinstance(named, list) or not named or not all(isinstance(name, str) for name in named):
            self._complain(at, f'is {shown(named)}, allowed is a list of queues: ["one", "two"]')
            return ()
        queues = [queue for name in named if (queue := self._name(name, at)) is not None]
        if len(set(queues)) < len(queues):
            self._complain(at, f"is {shown(named)}, which names a queue twice")
        return tuple(queues)

    def _resolved(self, alias: str, given: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
        """The queues at the end: an alias may lead to others, but not round in a circle."""
        queues: dict[str, None] = {}
        waiting, seen = list(reversed(given[alias])), {alias}
        while waiting:
            name = waiting.pop()
            if name == alias:
                self._complain(f"aliases.{_quoted(_NAME.render(alias))}", "leads back to itself")
                return ()
            if name not in given:
                queues[name] = None
            elif name not in seen:
                seen.add(name)
                waiting.extend(reversed(given[name]))
        return tuple(queues)

    def _name(self, name: str, at: str) -> str | None:
        try:
            return _NAME.parse(name)
        except ValueError as error:
            hint = f" (the topic {name} is the queue {name.replace('.', '%2E')})" if "." in name else ""
            self._complain(at, f"has {shown(name)}, {error}{hint}")
            return None

    def _entries(self, table: object, at: str) -> Iterator[tuple[str, Any]]:
        if isinstance(table, Mapping):
            yield from table.items()
        else:
            self._complain(at, f"is {shown(table)}, allowed is a table")

    def _complain(self, at: str, what: str) -> None:
        self.problems.append(f"{self._where}.{at} {what}")


def _understand(setting: QueueSetting, given: object) -> Any:
    """Numbers and switches have types of their own in the file; with a unit they are text."""
    if isinstance(given, str) and not isinstance(setting.rule, Whole | Switch):
        return setting.rule.parse(given)
    return setting.rule.check(given)


def _quoted(name: str) -> str:
    return f'"{name}"'
