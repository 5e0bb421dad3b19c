"""The settings of a topic: one table under Kafka's names, and what is decided from it. No I/O.

A topic stores only what was set on it, as text; everything else follows the server's settings. All names of
Kafka 4.3 are known, so that tools which copy a topic's settings work. Some have no effect: they are kept and
reported, and each row says what is done instead. `cleanup.policy` is not one of them: a topic that is never
compacted must not say that it is. `kestrel.queue` is the one name that is not Kafka's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from barbicel.codecs.kafka.compression import Codec
from barbicel.config import SETTINGS, Config
from barbicel.config.tier_settings import OF_ALL_DATA
from barbicel.config.values import LONG_MAX, Choice, Fraction, Names, Rule, Switch, ValueType, Whole
from barbicel.gateway.broker.topic_errors import InvalidAlteration, InvalidSetting

__all__ = [
    "NO_NAME",
    "QUEUE",
    "TOPIC_SETTINGS",
    "Change",
    "Described",
    "Operation",
    "Source",
    "Synonym",
    "TopicSetting",
    "TopicValues",
    "alter_settings",
    "check_settings",
    "check_tiering",
    "describe_settings",
    "effective_settings",
    "is_queue",
]

QUEUE = "kestrel.queue"
NO_NAME = ""
TIERED = "remote.storage.enable"


class TopicSetting(NamedTuple):
    """One row. `broker_name` is the server's setting of the same meaning, in Kafka at least; NO_NAME if there
    is none, or none that has a value."""

    name: str
    broker_name: str
    rule: Rule
    default: str  # where the server has no such setting
    doc: str


def _served(name: str, broker_name: str) -> TopicSetting:
    """A setting whose default is a setting of the server."""
    setting = SETTINGS[broker_name]
    return TopicSetting(name, broker_name, setting.rule, setting.rule.render(setting.default), setting.doc)


_CODECS: Mapping[str, Codec | None] = {
    "uncompressed": Codec.NONE,
    "zstd": Codec.ZSTD,
    "lz4": Codec.LZ4,
    "snappy": Codec.SNAPPY,
    "gzip": Codec.GZIP,
    "producer": None,
}
_ONE_COPY = "No effect: there is one copy, and every answer has the server's durability."
_SERVER_SYNCS = "No effect: when data is synced is the server's setting durability."
_OWN_INDEX = "No effect: the log has indexes of its own."
_NO_COMPACTION = "No effect: it is about compaction, which is not offered."
_ONE_LEVEL = "No effect: where batches are compressed anew, it is done at the codec's default level."
_AT_ONCE = "No effect: the log does this in its own way."
_TIERED = (
    "Sealed segments go to the object store, and may then leave the disk. Switched off, none follows, and"
    " what is there can still be read."
)

_ROWS = (
    _served("retention.ms", "log.retention.ms"),
    _served("retention.bytes", "log.retention.bytes"),
    _served("segment.bytes", "log.segment.bytes"),
    _served("segment.ms", "log.roll.ms"),
    _served("max.message.bytes", "message.max.bytes"),
    _served("message.timestamp.type", "log.message.timestamp.type"),
    _served("message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms"),
    _served("message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms"),
    TopicSetting(
        "cleanup.policy",
        "log.cleanup.policy",
        Names(("delete",)),
        "delete",
        "Old segments are deleted. Compaction is not offered.",
    ),
    TopicSetting(
        "compression.type",
        "compression.type",
        Choice(tuple(_CODECS)),
        "producer",
        "The codec that batches are stored with: those of another one are compressed anew. 'producer' leaves"
        " them as they are.",
    ),
    TopicSetting(
        "compression.gzip.level", "compression.gzip.level", Whole(-1, 9, without=0), "-1", _ONE_LEVEL
    ),
    TopicSetting("compression.lz4.level", "compression.lz4.level", Whole(1, 17), "9", _ONE_LEVEL),
    TopicSetting("compression.zstd.level", "compression.zstd.level", Whole(-131072, 22), "3", _ONE_LEVEL),
    TopicSetting("min.insync.replicas", "min.insync.replicas", Whole(1), "1", _ONE_COPY),
    TopicSetting(
        "unclean.leader.election.enable", "unclean.leader.election.enable", Switch(), "false", _ONE_COPY
    ),
    TopicSetting(
        "flush.messages", "log.flush.interval.messages", Whole(1, LONG_MAX), str(LONG_MAX), _SERVER_SYNCS
    ),
    TopicSetting("flush.ms", NO_NAME, Whole(0, LONG_MAX), str(LONG_MAX), _SERVER_SYNCS),
    TopicSetting("index.interval.bytes", "log.index.interval.bytes", Whole(0), "4096", _OWN_INDEX),
    TopicSetting("segment.index.bytes", "log.index.size.max.bytes", Whole(4), "10485760", _OWN_INDEX),
    TopicSetting("segment.jitter.ms", NO_NAME, Whole(0, LONG_MAX), "0", _AT_ONCE),
    TopicSetting("preallocate", "log.preallocate", Switch(), "false", _AT_ONCE),
    TopicSetting(
        "file.delete.delay.ms", "log.segment.delete.delay.ms", Whole(0, LONG_MAX), "60000", _AT_ONCE
    ),
    TopicSetting(
        "delete.retention.ms",
        "log.cleaner.delete.retention.ms",
        Whole(0, LONG_MAX),
        "86400000",
        _NO_COMPACTION,
    ),
    TopicSetting(
        "min.compaction.lag.ms",
        "log.cleaner.min.compaction.lag.ms",
        Whole(0, LONG_MAX),
        "0",
        _NO_COMPACTION,
    ),
    TopicSetting(
        "max.compaction.lag.ms",
        "log.cleaner.max.compaction.lag.ms",
        Whole(1, LONG_MAX),
        str(LONG_MAX),
        _NO_COMPACTION,
    ),
    TopicSetting(
        "min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio", Fraction(), "0.5", _NO_COMPACTION
    ),
    TopicSetting(TIERED, NO_NAME, Switch(), "false", _TIERED),
    TopicSetting(
        "remote.log.copy.disable",
        NO_NAME,
        Switch(),
        "false",
        "No more segments go to the object store; those that are there stay, and can be read.",
    ),
    TopicSetting(
        "remote.log.delete.on.disable",
        NO_NAME,
        Switch(),
        "false",
        "No effect: what is in the object store stays until its retention ends, or its topic is deleted.",
    ),
    _served("local.retention.ms", "log.local.retention.ms"),
    _served("local.retention.bytes", "log.local.retention.bytes"),
    TopicSetting(
        QUEUE,
        NO_NAME,
        Switch(),
        "false",
        "The topic is a Kestrel queue: it has one partition, and a segment is deleted as soon as all that"
        " read the topic are past it. Decided when the topic is created.",
    ),
)

TOPIC_SETTINGS: Mapping[str, TopicSetting] = MappingProxyType({row.name: row for row in _ROWS})


# --- checking and changing ------------------------------------------------------------------------------


def check_settings(given: Mapping[str, str | None]) -> dict[str, str]:
    """What a topic stores for these settings; raises InvalidSetting. None is no value, as in Kafka."""
    return {name: _checked(name, text) for name, text in given.items()}


def check_tiering(before: Mapping[str, str], after: Mapping[str, str], config: Config) -> None:
    """Raises InvalidSetting for a topic that is to be tiered by a server that tiers none, as Kafka does.

    It would grow on the disk, and its owner would not know. One that was tiered before may be changed.
    """
    is_news = after.get(TIERED) == "true" != before.get(TIERED)
    if is_news and not config.remote_log_storage_system_enable:
        raise InvalidSetting(
            f"{TIERED}: this server tiers no topics, its remote.log.storage.system.enable is false"
        )


def _checked(name: str, text: str | None) -> str:
    setting = TOPIC_SETTINGS.get(name)
    if setting is None:
        raise InvalidSetting(f"unknown topic setting {name!r}")
    if text is None:
        raise InvalidSetting(f"{name} has no value")
    try:
        return setting.rule.render(setting.rule.parse(text))
    except ValueError as error:
        raise InvalidSetting(f"{name} is {text[:100]!r}, {error}. {setting.doc}") from None


class Operation(IntEnum):
    """How IncrementalAlterConfigs changes a setting (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    name: str
    operation: Operation
    value: str | None


def alter_settings(current: Mapping[str, str], changes: Sequence[Change]) -> dict[str, str]:
    """A topic's settings after all changes; raises InvalidSetting or InvalidAlteration, then none counts."""
    names = [change.name for change in changes]
    if len(set(names)) < len(names):
        raise InvalidAlteration("a setting is changed twice in one request")
    for name, operation, value in changes:
        if value is None and operation is not Operation.DELETE:
            raise InvalidAlteration(f"no value for {name!r}")
    altered = dict(current)
    for change in changes:
        if change.operation is Operation.DELETE:
            # Also of one that nobody knows: the result is the same.
            altered.pop(change.name, None)
        else:
            altered[change.name] = _checked(change.name, _new_text(current, change))
    return altered


def _new_text(current: Mapping[str, str], change: Change) -> str | None:
    if change.operation is Operation.SET or change.value is None:
        return change.value
    setting = TOPIC_SETTINGS.get(change.name)
    if setting is None or setting.rule.type is not ValueType.LIST:
        raise InvalidSetting(f"{change.name!r} is no list: nothing can be added to it or taken away")
    parts = current.get(change.name, setting.default).split(",")
    named = [part.strip() for part in change.value.split(",")]
    if change.operation is Operation.APPEND:
        return ",".join(dict.fromkeys([*parts, *named]))
    return ",".join(part for part in parts if part not in named)


# --- what holds -----------------------------------------------------------------------------------------


class TopicValues(NamedTuple):
    """The settings that have an effect, as they hold for one topic. None is no limit."""

    retention_ms: int | None
    retention_bytes: int | None
    segment_bytes: int
    segment_ms: int
    max_message_bytes: int
    is_append_time: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    is_queue: bool
    # What batches are compressed with; None is as their producer did it.
    codec: Codec | None = None
    # Sealed segments go to the object store; on the disk these limits hold for those that are there.
    is_tiered: bool = False
    local_retention_ms: int | None = None
    local_retention_bytes: int | None = None


def effective_settings(settings: Mapping[str, str], config: Config) -> TopicValues:
    """The topic's own settings, and the server's for the rest."""

    def value(name: str) -> Any:
        setting = TOPIC_SETTINGS[name]
        text = settings.get(name)
        return config.value(setting.broker_name) if text is None else setting.rule.parse(text)

    is_tiered = (
        config.remote_log_storage_system_enable
        and settings.get(TIERED) == "true"
        and settings.get("remote.log.copy.disable") != "true"
    )
    retention_ms, retention_bytes = value("retention.ms"), value("retention.bytes")
    return TopicValues(
        retention_ms=_limit(retention_ms),
        retention_bytes=_limit(retention_bytes),
        # What is not sealed is not uploaded.
        segment_bytes=min(value("segment.bytes"), config.tier_segment_bytes if is_tiered else LONG_MAX),
        segment_ms=min(value("segment.ms"), config.tier_flush_interval_ms if is_tiered else LONG_MAX),
        max_message_bytes=value("max.message.bytes"),
        is_append_time=value("message.timestamp.type") == "LogAppendTime",
        timestamp_before_max_ms=value("message.timestamp.before.max.ms"),
        timestamp_after_max_ms=value("message.timestamp.after.max.ms"),
        is_queue=is_queue(settings),
        codec=_CODECS[settings.get("compression.type", "producer")],
        is_tiered=is_tiered,
        local_retention_ms=_local_limit(value("local.retention.ms"), retention_ms),
        local_retention_bytes=_local_limit(value("local.retention.bytes"), retention_bytes),
    )


def is_queue(settings: Mapping[str, str]) -> bool:
    """Whether a topic of these settings is a Kestrel queue."""
    return settings.get(QUEUE) == "true"


def _limit(value: int) -> int | None:
    return None if value < 0 else value


def _local_limit(value: int, of_all_data: int) -> int | None:
    return _limit(of_all_data if value == OF_ALL_DATA else value)


# --- what is reported -----------------------------------------------------------------------------------


class Source(IntEnum):
    """Where a value comes from, with the numbers that DescribeConfigs answers (KIP-226)."""

    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5


class Synonym(NamedTuple):
    name: str
    value: str
    source: Source


class Described(NamedTuple):
    """A setting with its value; `synonyms` are all that have a name and speak for it, the one that holds
    first."""

    name: str
    value: str
    source: Source
    type: ValueType
    doc: str
    synonyms: tuple[Synonym, ...]


def describe_settings(settings: Mapping[str, str], config: Config) -> list[Described]:
    """Every setting of a topic, in the order of names."""
    return [
        _described(setting, tuple(_synonyms(setting, settings, config)))
        for _, setting in sorted(TOPIC_SETTINGS.items())
    ]


def _described(setting: TopicSetting, synonyms: tuple[Synonym, ...]) -> Described:
    first = synonyms[0]
    named = tuple(synonym for synonym in synonyms if synonym.name != NO_NAME)
    return Described(setting.name, first.value, first.source, setting.rule.type, setting.doc, named)


def _synonyms(setting: TopicSetting, settings: Mapping[str, str], config: Config) -> Iterator[Synonym]:
    name = setting.broker_name
    if setting.name in settings:
        yield Synonym(setting.name, settings[setting.name], Source.TOPIC)
    if name in SETTINGS and (config.origin(name).kind != "default" or config.text(name) != setting.default):
        yield Synonym(name, config.text(name), Source.STATIC_BROKER)
    yield Synonym(name, setting.default, Source.DEFAULT)
