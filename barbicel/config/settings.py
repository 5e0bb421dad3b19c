"""The settings of the server: one table, from which everything else about them is made.

A field of `Config` is a row: its Python type, its name (Kafka's own, where Kafka has one), its default, what
is allowed, and what it is for. The field's name is the setting's name with underscores for dots. A `Config`
never holds a value that is not allowed. The rows are in kafka_settings.py, kestrel_settings.py and the other
files of that kind; those of a single queue, which has a table of its own, in queue_settings.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from barbicel.config.admin_settings import AdminSettings
from barbicel.config.kafka_settings import KafkaSettings
from barbicel.config.kestrel_settings import KestrelSettings
from barbicel.config.queue_tables import QueueTables
from barbicel.config.security_settings import SecuritySettings, security_contradictions
from barbicel.config.setting import DEFAULT, ConfigError, Origin, Setting
from barbicel.config.tier_settings import TierSettings, tier_contradictions

__all__ = ["SETTINGS", "Config"]


@dataclass(frozen=True, kw_only=True)
class Config(AdminSettings, TierSettings, SecuritySettings, KestrelSettings, KafkaSettings):
    """Every setting, typed. `origin` tells where a value came from."""

    # Queues by their names, which are no settings of the server: a file alone has them.
    kestrel_queues: QueueTables = field(default_factory=QueueTables, repr=False)
    origins: Mapping[str, Origin] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        # Values can be compared only if each is allowed.
        if problems := list(self._refused()) or list(self._contradictions()):
            raise ConfigError(problems)

    def origin(self, name: str) -> Origin:
        """Where the value of the setting `name` came from."""
        return self.origins.get(SETTINGS[name].name, DEFAULT)

    def value(self, name: str) -> Any:
        return getattr(self, SETTINGS[name].attribute)

    def text(self, name: str) -> str:
        """The value as Kafka's tools write it."""
        return SETTINGS[name].rule.render(self.value(name))

    def _refused(self) -> Iterator[str]:
        for name, setting in SETTINGS.items():
            try:
                setting.rule.check(self.value(name))
            except ValueError as error:
                yield f"{self.origin(name)}: {name} is {self.value(name)!r}, {error}"

    def _contradictions(self) -> Iterator[str]:
        for low, high in _AT_MOST:
            if self.value(low) > self.value(high):
                yield (
                    f"{self.origin(low)}: {low} is {self.value(low)}, more than {high},"
                    f" which is {self.value(high)} ({self.origin(high)})"
                )
        yield from security_contradictions(self)
        yield from tier_contradictions(self)


SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        one.metadata["setting"].name: one.metadata["setting"]
        for one in fields(Config)
        if "setting" in one.metadata
    }
)

# The first is never more than the second, or some requests could never be served.
_AT_MOST = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("message.max.bytes", "socket.request.max.bytes"),
    ("socket.request.max.bytes", "queued.max.request.bytes"),
    ("remote.log.manager.task.retry.backoff.ms", "remote.log.manager.task.retry.backoff.max.ms"),
)
