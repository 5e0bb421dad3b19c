"""The server's settings as tools see them, under Kafka's names. Pure.

All are fixed while it runs. Beside its own settings there are those that tools ask for, and that are the same
for every server of this kind.
"""

from __future__ import annotations

from collections.abc import Iterator

from barbicel.config import SETTINGS, Config
from barbicel.config.setting import Setting
from barbicel.config.values import ValueType
from barbicel.gateway.broker.topic_settings import NO_NAME, TOPIC_SETTINGS, Described, Source, Synonym

__all__ = ["describe_server"]

# Name, type, value, what it is for.
_FIXED: tuple[tuple[str, ValueType, str, str], ...] = (
    ("default.replication.factor", ValueType.INT, "1", "There is one copy of everything."),
    ("offsets.topic.replication.factor", ValueType.INT, "1", "Committed offsets are in files of their own."),
    # Kafka 4 has it no more. Kafbat and AKHQ tell by it what a cluster can do.
    (
        "inter.broker.protocol.version",
        ValueType.STRING,
        "4.0-IV3",
        "For tools that ask which version of Kafka this is like.",
    ),
    ("process.roles", ValueType.LIST, "broker,controller", "One server is all of the cluster."),
)


def describe_server(config: Config, data_directory: str) -> list[Described]:
    """Every setting of the server, in the order of names. `data_directory` is where it really lies."""
    rows = {row.name: row for row in (*_topic_defaults(), *_fixed(config, data_directory))}
    rows |= {name: _described(setting, config) for name, setting in SETTINGS.items()}
    return [row for _, row in sorted(rows.items())]


def _described(setting: Setting, config: Config) -> Described:
    text, default = config.text(setting.name), setting.rule.render(setting.default)
    synonyms = [Synonym(setting.name, default, Source.DEFAULT)]
    if config.origin(setting.name).kind != "default" or text != default:
        synonyms.insert(0, Synonym(setting.name, text, Source.STATIC_BROKER))
    first = synonyms[0]
    return Described(setting.name, first.value, first.source, setting.rule.type, setting.doc, tuple(synonyms))


def _topic_defaults() -> Iterator[Described]:
    """What topics follow and what cannot be set here: its value is the default."""
    for row in TOPIC_SETTINGS.values():
        if row.broker_name != NO_NAME and row.broker_name not in SETTINGS:
            yield _constant(row.broker_name, row.rule.type, row.default, row.doc, Source.DEFAULT)


def _fixed(config: Config, data_directory: str) -> Iterator[Described]:
    for row in _FIXED:
        yield _constant(*row, Source.DEFAULT)
    for name in ("log.dir", "log.dirs"):
        doc = SETTINGS["data.directory"].doc
        yield _constant(name, ValueType.STRING, data_directory, doc, Source.STATIC_BROKER)
    node_id = config.text("node.id")
    yield _constant("broker.id", ValueType.INT, node_id, SETTINGS["node.id"].doc, Source.STATIC_BROKER)


def _constant(name: str, kind: ValueType, value: str, doc: str, source: Source) -> Described:
    return Described(name, value, source, kind, doc, (Synonym(name, value, source),))
