"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs: of topics and brokers, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from barbicel.codecs.kafka.messages import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    Message,
)
from tests.differential.asking import new_topic, versions
from tests.differential.script import Ask, Await, Steps, conversations_of

__all__ = ["CONVERSATIONS"]

TOPIC, BROKER, LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
# Those that both know and that the conversations use.
KEYS = ["retention.ms", "max.message.bytes", "cleanup.policy", "no.such.setting"]


def configs_described() -> Steps:
    yield from new_topic("described", max_message_bytes="5000")
    for version in versions(DescribeConfigsRequest):
        for label, kind, name, keys in (
            ("some", TOPIC, "described", KEYS),
            ("none", TOPIC, "described", []),
            ("all", TOPIC, "described", None),
            ("unknown topic", TOPIC, "described-none", None),
            ("bad topic", TOPIC, "a b", None),
            ("no topic", TOPIC, "", None),
            ("some of the broker", BROKER, "1", ["message.max.bytes", "num.partitions", "no.such"]),
            ("all brokers", BROKER, "", ["message.max.bytes"]),
            ("unknown broker", BROKER, "9", None),
            ("bad broker", BROKER, "x", None),
            ("unknown kind", 77, "x", None),
        ):
            yield Ask(f"{label}, version {version}", _describe(kind, name, keys), version)
            if label in ("some", "all"):
                yield Ask(
                    f"{label} with synonyms, version {version}",
                    _describe(kind, name, keys, synonyms=True),
                    version,
                )


def _describe(kind: int, name: str, keys: Sequence[str] | None, *, synonyms: bool = False) -> Message:
    row = DescribeConfigsRequest.DescribeConfigsResource
    asked = row(
        resource_type=kind, resource_name=name, configuration_keys=None if keys is None else list(keys)
    )
    return DescribeConfigsRequest(resources=[asked], include_synonyms=synonyms, include_documentation=False)


# (label, kind, name, settings), all to be refused.
REFUSED: Sequence[tuple[str, int, str, Mapping[str, str | None]]] = (
    ("an unknown setting", TOPIC, "altered", {"no.such.setting": "1"}),
    ("a bad value", TOPIC, "altered", {"retention.ms": "soon"}),
    ("a value out of range", TOPIC, "altered", {"max.message.bytes": "-1"}),
    ("no value", TOPIC, "altered", {"retention.ms": None}),
    ("an unknown topic", TOPIC, "altered-none", {"retention.ms": "5"}),
    ("a bad topic", TOPIC, "a b", {"retention.ms": "5"}),
    ("no topic", TOPIC, "", {"retention.ms": "5"}),
    ("an unknown broker", BROKER, "9", {"message.max.bytes": "5000"}),
    ("a bad broker", BROKER, "x", {"message.max.bytes": "5000"}),
    ("a fixed setting of the broker", BROKER, "1", {"node.id": "7"}),
    ("an unknown kind", 77, "x", {"a": "b"}),
)


def configs_altered() -> Steps:
    yield from new_topic("altered")
    for version in versions(AlterConfigsRequest):
        for label, kind, name, settings in REFUSED:
            yield Ask(f"{label}, version {version}", _alter(kind, name, settings), version)
        limit = str(7000 + version)
        yield Ask(
            f"validated, version {version}",
            _alter(TOPIC, "altered", {"max.message.bytes": "1"}, validate_only=True),
            version,
        )
        yield Ask(
            f"altered, version {version}", _alter(TOPIC, "altered", {"max.message.bytes": limit}), version
        )
        yield from _seen(f"version {version}", limit)
    yield Ask("nothing is left", _alter(TOPIC, "altered", {}), 2)
    yield from _seen("nothing is left", "1048588")


def _seen(label: str, limit: str) -> Steps:
    asked = Ask(f"seen, {label}", _describe(TOPIC, "altered", KEYS, synonyms=True), 4)
    yield Await(asked, lambda answer: any(row.value == limit for row in answer.results[0].configs))


def _alter(
    kind: int, name: str, settings: Mapping[str, str | None], *, validate_only: bool = False
) -> Message:
    row = AlterConfigsRequest.AlterConfigsResource
    configs = [row.AlterableConfig(name=key, value=value) for key, value in settings.items()]
    changed = row(resource_type=kind, resource_name=name, configs=configs)
    return AlterConfigsRequest(resources=[changed], validate_only=validate_only)


def configs_altered_by_steps() -> Steps:
    # The topic of the conversation before may not be there.
    yield from new_topic("stepped")
    for version in versions(IncrementalAlterConfigsRequest):
        for label, kind, name, settings in REFUSED:
            topic = name.replace("altered", "stepped")
            yield Ask(
                f"{label}, version {version}",
                _step(kind, topic, [(*one, SET) for one in settings.items()]),
                version,
            )
        for label, steps in (
            ("set", [("retention.ms", "7", SET)]),
            ("delete", [("retention.ms", None, DELETE)]),
            ("delete what is not set", [("segment.ms", None, DELETE)]),
            ("delete what is unknown", [("no.such.setting", None, DELETE)]),
            ("append to a number", [("retention.ms", "7", APPEND)]),
            ("subtract from a number", [("retention.ms", "7", SUBTRACT)]),
            ("append what is there", [("cleanup.policy", "delete", APPEND)]),
            ("subtract what is not there", [("cleanup.policy", "compact", SUBTRACT)]),
            ("an unknown operation", [("retention.ms", "7", 9)]),
            ("twice", [("retention.ms", "7", SET), ("retention.ms", "8", SET)]),
            ("nothing", []),
        ):
            yield Ask(f"{label}, version {version}", _step(TOPIC, "stepped", steps), version)
    both: Any = _step(TOPIC, "stepped", [("retention.ms", "7", SET)])
    both.resources *= 2
    yield Ask("a topic twice", both, 1)


# Around the bounds, and in other spellings.
VALUES: Sequence[tuple[str, str]] = (
    *(("retention.ms", text) for text in ("-1", "-2", "10 ", "+5", "1e3", "0x10", "")),
    *(("segment.bytes", text) for text in ("1048575", "1048576")),
    *(("segment.ms", text) for text in ("0", "1")),
    *(("max.message.bytes", text) for text in ("-1", "0", "2147483647", "2147483648")),
    *(("message.timestamp.type", text) for text in ("logappendtime", "LogAppendTime")),
    *(("message.timestamp.before.max.ms", text) for text in ("-1", "0")),
    *(("compression.type", text) for text in ("GZIP", "brotli", "uncompressed")),
    *(("compression.gzip.level", text) for text in ("-2", "-1", "0", "1", "9", "10")),
    *(("compression.lz4.level", text) for text in ("0", "1", "17", "18")),
    *(("compression.zstd.level", text) for text in ("22", "23")),
    *(("min.insync.replicas", text) for text in ("0", "1")),
    *(("min.cleanable.dirty.ratio", text) for text in (".5", "1", "1.1")),
    *(("preallocate", text) for text in ("TRUE", "yes")),
    *(("cleanup.policy", text) for text in (" delete", "Delete")),
    *(("index.interval.bytes", text) for text in ("-1", "0")),
    *(("flush.messages", text) for text in ("0", "1")),
)


def configs_with_every_value() -> Steps:
    yield from new_topic("valued")
    for name, text in VALUES:
        yield Ask(f"{name}={text!r}", _step(TOPIC, "valued", [(name, text, SET)]), 1)
    # Kafka shows a change some time after it has answered; they are made one after the other.
    name, text = VALUES[-1]
    yield Await(
        Ask("afterwards", _describe(TOPIC, "valued", None, synonyms=True), 4),
        lambda answer: any((row.name, row.value) == (name, text) for row in answer.results[0].configs),
    )
    yield Ask("no cleanup policy", _step(TOPIC, "valued", [("cleanup.policy", "", SET)]), 1)


def _step(kind: int, name: str, steps: Sequence[tuple[str, str | None, int]]) -> Message:
    row = IncrementalAlterConfigsRequest.AlterConfigsResource
    configs = [
        row.AlterableConfig(name=key, value=value, config_operation=operation)
        for key, value, operation in steps
    ]
    changed = row(resource_type=kind, resource_name=name, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[changed], validate_only=False)


CONVERSATIONS = conversations_of(
    configs_described, configs_altered, configs_altered_by_steps, configs_with_every_value
)
