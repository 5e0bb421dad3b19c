"""A topic's settings: what is accepted, how it changes, what holds and what is reported."""

from __future__ import annotations

import pytest

from barbicel.config import SETTINGS, Config, load_config
from barbicel.config.values import LONG_MAX, ValueType
from barbicel.gateway.broker.server_settings import describe_server
from barbicel.gateway.broker.topic_errors import InvalidAlteration, InvalidSetting
from barbicel.gateway.broker.topic_settings import (
    TOPIC_SETTINGS,
    Change,
    Described,
    Operation,
    Source,
    Synonym,
    TopicValues,
    alter_settings,
    check_settings,
    describe_settings,
    effective_settings,
)
from tests.support.fault_disk import FaultDisk

GOOD = {
    "retention.ms": "-1",
    "retention.bytes": "5",
    "segment.bytes": "1048576",
    "segment.ms": "1",
    "max.message.bytes": "0",
    "message.timestamp.type": "LogAppendTime",
    "message.timestamp.before.max.ms": "0",
    "message.timestamp.after.max.ms": str(LONG_MAX),
    "cleanup.policy": "delete",
    "compression.type": "zstd",
    "compression.gzip.level": "9",
    "compression.lz4.level": "1",
    "compression.zstd.level": "-5",
    "min.insync.replicas": "2",
    "unclean.leader.election.enable": "true",
    "flush.messages": "1",
    "flush.ms": "0",
    "index.interval.bytes": "0",
    "segment.index.bytes": "4",
    "segment.jitter.ms": "1",
    "preallocate": "true",
    "file.delete.delay.ms": "0",
    "delete.retention.ms": "0",
    "min.compaction.lag.ms": "1",
    "max.compaction.lag.ms": "1",
    "min.cleanable.dirty.ratio": "0.01",
    "remote.storage.enable": "true",
    "remote.log.copy.disable": "true",
    "remote.log.delete.on.disable": "true",
    "local.retention.ms": "-2",
    "local.retention.bytes": "0",
    "kestrel.queue": "true",
}

BAD = {
    "retention.ms": "-2",
    "retention.bytes": "1.5",
    "segment.bytes": "1048575",
    "segment.ms": "0",
    "max.message.bytes": "-1",
    "message.timestamp.type": "createtime",
    "message.timestamp.before.max.ms": "-1",
    "message.timestamp.after.max.ms": str(LONG_MAX + 1),
    "cleanup.policy": "compact",
    "compression.type": "brotli",
    "compression.gzip.level": "0",
    "compression.lz4.level": "0",
    "compression.zstd.level": "23",
    "min.insync.replicas": "0",
    "unclean.leader.election.enable": "yes",
    "flush.messages": "0",
    "flush.ms": "-1",
    "index.interval.bytes": str(1 << 31),
    "segment.index.bytes": "3",
    "segment.jitter.ms": "",
    "preallocate": "1",
    "file.delete.delay.ms": "soon",
    "delete.retention.ms": "-1",
    "min.compaction.lag.ms": "-1",
    "max.compaction.lag.ms": "0",
    "min.cleanable.dirty.ratio": "1.1",
    "remote.storage.enable": "1",
    "remote.log.copy.disable": "no",
    "remote.log.delete.on.disable": "",
    "local.retention.ms": "-3",
    "local.retention.bytes": "1k",
    "kestrel.queue": "yes",
}


def test_every_setting_is_tried_here() -> None:
    assert set(GOOD) == set(BAD) == set(TOPIC_SETTINGS)


def test_good_values_are_kept_as_they_are() -> None:
    assert check_settings(GOOD) == GOOD


@pytest.mark.parametrize("name", BAD)
def test_a_bad_value_is_refused_with_its_name(name: str) -> None:
    with pytest.raises(InvalidSetting, match=name):
        check_settings({**GOOD, name: BAD[name]})


@pytest.mark.parametrize("name", TOPIC_SETTINGS)
def test_a_default_is_a_good_value(name: str) -> None:
    default = TOPIC_SETTINGS[name].default
    assert check_settings({name: default}) == {name: default}


def test_values_are_kept_in_one_spelling() -> None:
    given = {"retention.ms": " +10 ", "preallocate": "TRUE", "cleanup.policy": " delete "}
    assert check_settings(given) == {"retention.ms": "10", "preallocate": "true", "cleanup.policy": "delete"}


@pytest.mark.parametrize("name", ["retention", "message.format.version", "remote.storage", ""])
def test_an_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidSetting, match="unknown topic setting"):
        check_settings({name: "1"})


def test_no_value_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="retention.ms has no value"):
        check_settings({"retention.ms": None})


@pytest.mark.parametrize("text", ["compact", "compact,delete", "delete,delete", "delete,", ""])
def test_only_deletion_is_a_policy(text: str) -> None:
    with pytest.raises(InvalidSetting, match="Compaction is not offered"):
        check_settings({"cleanup.policy": text})


def test_a_long_value_is_not_repeated_in_full() -> None:
    with pytest.raises(InvalidSetting) as caught:
        check_settings({"retention.ms": "9" * 100_000})
    assert len(str(caught.value)) < 500


# Changes


def test_set_and_delete() -> None:
    current = {"retention.ms": "1", "segment.ms": "2"}
    changes = [
        Change("retention.ms", Operation.SET, "5"),
        Change("segment.ms", Operation.DELETE, None),
        Change("flush.ms", Operation.SET, "7"),
    ]
    assert alter_settings(current, changes) == {"retention.ms": "5", "flush.ms": "7"}
    assert current == {"retention.ms": "1", "segment.ms": "2"}


@pytest.mark.parametrize("name", ["retention.ms", "no.such.setting"])
def test_deleting_what_is_not_set_changes_nothing(name: str) -> None:
    assert alter_settings({"segment.ms": "2"}, [Change(name, Operation.DELETE, "x")]) == {"segment.ms": "2"}


def test_append_and_subtract_are_for_lists() -> None:
    append = [Change("cleanup.policy", Operation.APPEND, "delete")]
    assert alter_settings({}, append) == {"cleanup.policy": "delete"}
    subtract = [Change("cleanup.policy", Operation.SUBTRACT, "compact")]
    assert alter_settings({"cleanup.policy": "delete"}, subtract) == {"cleanup.policy": "delete"}


@pytest.mark.parametrize(
    "change",
    [
        Change("cleanup.policy", Operation.APPEND, "compact"),
        Change("cleanup.policy", Operation.SUBTRACT, "delete"),
        Change("retention.ms", Operation.APPEND, "1"),
        Change("retention.ms", Operation.SUBTRACT, "1"),
        Change("no.such.setting", Operation.APPEND, "1"),
        Change("no.such.setting", Operation.SET, "1"),
        Change("retention.ms", Operation.SET, "x"),
    ],
)
def test_a_change_that_is_refused(change: Change) -> None:
    with pytest.raises(InvalidSetting, match=change.name):
        alter_settings({}, [Change("segment.ms", Operation.SET, "5"), change])


def test_a_request_changes_a_setting_once() -> None:
    with pytest.raises(InvalidAlteration, match="twice"):
        alter_settings(
            {}, [Change("segment.ms", Operation.SET, "5"), Change("segment.ms", Operation.DELETE, None)]
        )


@pytest.mark.parametrize("operation", [Operation.SET, Operation.APPEND, Operation.SUBTRACT])
def test_a_change_needs_a_value(operation: Operation) -> None:
    with pytest.raises(InvalidAlteration, match="no value for 'cleanup.policy'"):
        alter_settings({}, [Change("cleanup.policy", operation, None)])


# What holds


def test_what_is_not_set_follows_the_server() -> None:
    values = effective_settings(
        {}, Config(log_retention_bytes=77, log_message_timestamp_type="LogAppendTime")
    )
    assert values.retention_ms == 7 * 24 * 60 * 60 * 1000
    assert values.retention_bytes == 77
    assert values.is_append_time
    assert values.max_message_bytes == 1_048_588
    assert values.timestamp_after_max_ms == 3_600_000
    assert not values.is_queue


def test_what_is_set_comes_first() -> None:
    values = effective_settings(GOOD, Config(log_retention_bytes=77))
    assert (values.retention_ms, values.retention_bytes) == (None, 5)
    assert (values.segment_bytes, values.segment_ms, values.max_message_bytes) == (1 << 20, 1, 0)
    assert (values.timestamp_before_max_ms, values.timestamp_after_max_ms) == (0, LONG_MAX)
    assert values.is_append_time
    assert values.is_queue
    assert not effective_settings({"kestrel.queue": "false"}, Config()).is_queue


def described(name: str, settings: dict[str, str], config: Config) -> Described:
    (one,) = [one for one in describe_settings(settings, config) if one.name == name]
    return one


def test_every_setting_is_described_once_in_the_order_of_names() -> None:
    names = [one.name for one in describe_settings({}, Config())]
    assert names == sorted(TOPIC_SETTINGS)


def test_a_default_is_described_by_the_servers_name() -> None:
    one = described("retention.ms", {}, Config())
    assert (one.value, one.source, one.type) == ("604800000", Source.DEFAULT, ValueType.LONG)
    assert one.synonyms == (Synonym("log.retention.ms", "604800000", Source.DEFAULT),)


@pytest.mark.parametrize("name", ["remote.storage.enable", "flush.ms", "segment.jitter.ms", "kestrel.queue"])
def test_a_default_without_a_setting_of_the_server_has_no_synonym(name: str) -> None:
    assert (described(name, {}, Config()).source, described(name, {}, Config()).synonyms) == (
        Source.DEFAULT,
        (),
    )
    own = described(name, {name: GOOD[name]}, Config())
    assert own.synonyms == (Synonym(name, GOOD[name], Source.TOPIC),)
    assert all(one.name for one in describe_server(Config(), "/data"))


def test_a_fraction_may_begin_with_its_point() -> None:
    assert check_settings({"min.cleanable.dirty.ratio": ".5"}) == {"min.cleanable.dirty.ratio": "0.5"}


def test_every_source_of_a_value_is_described_the_one_that_holds_first() -> None:
    config = load_config(FaultDisk(), flags={"log.retention.ms": "9"})
    one = described("retention.ms", {"retention.ms": "8"}, config)
    assert (one.value, one.source) == ("8", Source.TOPIC)
    assert one.synonyms == (
        Synonym("retention.ms", "8", Source.TOPIC),
        Synonym("log.retention.ms", "9", Source.STATIC_BROKER),
        Synonym("log.retention.ms", "604800000", Source.DEFAULT),
    )
    assert described("retention.ms", {}, config).value == "9"


def test_a_server_setting_that_says_the_default_is_still_a_setting() -> None:
    config = load_config(FaultDisk(), flags={"log.retention.ms": "604800000"})
    assert described("retention.ms", {}, config).source is Source.STATIC_BROKER
    assert described("retention.ms", {}, Config(log_retention_ms=5)).value == "5"


# What the server has no setting for.
OF_TOPICS_ALONE = {
    "cleanup.policy",
    "compression.type",
    "kestrel.queue",
    "remote.storage.enable",
    "remote.log.copy.disable",
}


def test_what_has_no_effect_says_so() -> None:
    with_effect = {name for name, row in TOPIC_SETTINGS.items() if row.broker_name in SETTINGS}
    for name, row in TOPIC_SETTINGS.items():
        assert row.doc.startswith("No effect: ") == (name not in with_effect | OF_TOPICS_ALONE)


def tiered(**settings: str) -> TopicValues:
    config = Config(remote_log_storage_system_enable=True, tier_segment_bytes=1 << 20, log_retention_ms=70)
    given = {name.replace("_", "."): text for name, text in settings.items()}
    return effective_settings({"remote.storage.enable": "true", **given}, config)


def test_a_tiered_topic_has_segments_that_are_uploaded_soon() -> None:
    assert (tiered().is_tiered, tiered().segment_bytes, tiered().segment_ms) == (True, 1 << 20, 600_000)
    assert tiered(segment_ms="5").segment_ms == 5
    plain = effective_settings({}, Config(remote_log_storage_system_enable=True))
    assert (plain.is_tiered, plain.segment_bytes) == (False, 1 << 30)


def test_a_topic_is_not_tiered_without_a_store_or_when_copying_is_switched_off() -> None:
    assert not effective_settings({"remote.storage.enable": "true"}, Config()).is_tiered
    assert not tiered(remote_log_copy_disable="true").is_tiered


def test_local_retention_is_that_of_all_data_unless_it_is_given() -> None:
    assert (tiered().local_retention_ms, tiered().local_retention_bytes) == (70, None)
    assert tiered(retention_ms="9").local_retention_ms == 9
    assert tiered(local_retention_ms="-1", local_retention_bytes="0")[-2:] == (None, 0)
