"""Settings: the table, the three sources, and what is said about mistakes."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from barbicel.config import (
    DEFAULT_FILE,
    FILE_VARIABLE,
    SETTINGS,
    Config,
    ConfigError,
    Listener,
    Origin,
    load_config,
)
from barbicel.config.example import render_example, toml_key
from barbicel.config.listeners import Listeners
from barbicel.config.queue_settings import QUEUE_SETTINGS
from barbicel.config.sources import MAX_FILE_BYTES
from barbicel.config.values import ValueType
from barbicel.errors import DiskError
from tests.support.fault_disk import FaultDisk

ROOT = Path(__file__).parent.parent.parent
FILE = "/etc/barbicel.toml"


def load(
    text: str = "", environment: Mapping[str, str] | None = None, flags: Mapping[str, str] | None = None
) -> Config:
    disk = FaultDisk()
    disk.put(FILE, text.encode())
    return load_config(disk, path=FILE, environment=environment or {}, flags=flags or {})


def problems(
    text: str = "", environment: Mapping[str, str] | None = None, flags: Mapping[str, str] | None = None
) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(text, environment, flags)
    assert str(caught.value) == "\n".join(caught.value.problems)
    return caught.value.problems


# The table


def test_a_field_is_named_like_its_setting() -> None:
    assert all(hasattr(Config(), setting.attribute) for setting in SETTINGS.values())
    names = {one.name for one in fields(Config)}
    assert {name.replace(".", "_") for name in SETTINGS} == names - {"origins", "kestrel_queues"}


def test_no_two_settings_share_a_variable_or_a_flag() -> None:
    assert len({setting.variable for setting in SETTINGS.values()}) == len(SETTINGS)
    assert len({setting.flag for setting in SETTINGS.values()}) == len(SETTINGS)
    assert FILE_VARIABLE not in {setting.variable for setting in SETTINGS.values()}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_default_is_allowed_and_survives_its_text(name: str) -> None:
    setting = SETTINGS[name]
    assert setting.rule.check(setting.default) == setting.default
    assert setting.rule.parse(setting.rule.render(setting.default)) == setting.default
    assert setting.doc.endswith(".")


def test_only_this_machine_can_connect_by_default() -> None:
    assert Config().listeners == (Listener("PLAINTEXT", "127.0.0.1", 9092),)
    assert Config().durability == "fsync"


def test_values_as_text() -> None:
    config = Config(auto_create_topics_enable=False, num_partitions=3)
    assert config.text("auto.create.topics.enable") == "false"
    assert config.text("num.partitions") == "3"
    assert config.text("listeners") == "PLAINTEXT://127.0.0.1:9092"
    assert config.text("advertised.listeners") == ""


def test_a_config_never_holds_what_is_not_allowed() -> None:
    with pytest.raises(ConfigError, match="num.partitions is 0, allowed is a whole number from 1 to 10000"):
        Config(num_partitions=0)


@pytest.mark.parametrize(
    "setting",
    [
        {"tier_store": "s3://KEY:hush@bucket/prefix"},
        {"tier_store": "s3://KEY:hu/sh@bucket"},
        {"tier_s3_endpoint": "https://KEY:hush@store.example"},
    ],
)
def test_a_url_with_a_secret_is_refused_and_not_repeated(setting: dict[str, Any]) -> None:
    """All settings are shown to those who may ask for them."""
    with pytest.raises(ConfigError, match=r"^tier\.\S+: .*come from the environment") as caught:
        Config(**setting)
    assert "hu" not in str(caught.value)
    assert Config(tier_store="s3://bucket/a@b:c").tier_store == "s3://bucket/a@b:c"


def test_settings_may_not_contradict_each_other() -> None:
    (problem,) = problems("group.min.session.timeout.ms = 5\ngroup.max.session.timeout.ms = 4")
    assert problem == (
        f"{FILE}: group.min.session.timeout.ms: group.min.session.timeout.ms is 5, more than"
        f" group.max.session.timeout.ms, which is 4 ({FILE}: group.max.session.timeout.ms)"
    )


# Sources


def test_without_any_source_all_is_default() -> None:
    config = load_config(FaultDisk())
    assert config == Config()
    assert config.origin("num.partitions") == Origin("default", "the default")


def test_a_variable_comes_before_the_file_and_a_flag_before_both() -> None:
    text = 'num.partitions = 2\nnode.id = 7\ndurability = "write"'
    config = load(
        text,
        {"BARBICEL_NUM_PARTITIONS": "3", "BARBICEL_NODE_ID": "8", "PATH": "/bin"},
        {"num.partitions": "4"},
    )
    assert (config.num_partitions, config.node_id, config.durability) == (4, 8, "write")
    assert config.origin("num.partitions") == Origin("flag", "flag --num-partitions")
    assert config.origin("node.id") == Origin("environment", "variable BARBICEL_NODE_ID")
    assert config.origin("durability") == Origin("file", f"{FILE}: durability")
    assert config.origin("flush.ms").kind == "default"


@pytest.mark.parametrize(
    "text",
    [
        "num.partitions = 3",
        '"num.partitions" = 3',
        "[num]\npartitions = 3",
        'num."partitions" = 3',
        "num.partitions = 0b11",
        "\ufeffnum.partitions = 3",
    ],
)
def test_a_name_may_be_written_in_every_way_that_toml_has(text: str) -> None:
    assert load(text).num_partitions == 3


def test_a_name_that_begins_another_one_is_quoted() -> None:
    config = load('"max.connections" = 5\nmax.connections.per.ip = 4')
    assert (config.max_connections, config.max_connections_per_ip) == (5, 4)
    (problem,) = problems("max.connections = 5\nmax.connections.per.ip = 4")
    assert '"max.connections" = 100' in problem


def test_the_file_in_the_working_directory_is_read_if_it_is_there() -> None:
    disk = FaultDisk()
    disk.put(DEFAULT_FILE, b"num.partitions = 5")
    config = load_config(disk)
    assert config.num_partitions == 5
    assert str(config.origin("num.partitions")) == "barbicel.toml: num.partitions"


def test_a_variable_can_name_the_file_and_a_path_comes_first() -> None:
    disk = FaultDisk()
    disk.put("/a.toml", b"num.partitions = 5")
    disk.put("/b.toml", b"num.partitions = 6")
    environment = {FILE_VARIABLE: "/a.toml"}
    assert load_config(disk, environment=environment).num_partitions == 5
    assert load_config(disk, path="/b.toml", environment=environment).num_partitions == 6


def test_a_file_that_was_named_must_exist() -> None:
    with pytest.raises(DiskError, match="/none.toml"):
        load_config(FaultDisk(), path="/none.toml")


def test_lists_may_be_text_or_lists() -> None:
    wanted = (Listener("PLAINTEXT", "0.0.0.0", 9092),)
    assert load('listeners = "plaintext://0.0.0.0:9092"').listeners == wanted
    assert load('listeners = ["PLAINTEXT://0.0.0.0:9092"]').listeners == wanted


@pytest.mark.parametrize(
    "variable",
    [
        "BARBICEL_SERVICE_HOST",
        "BARBICEL_SERVICE_PORT",
        "BARBICEL_PORT",
        "BARBICEL_PORT_9092_TCP",
        "BARBICEL_KAFKA_PORT_9092_TCP_ADDR",
        "BARBICEL_KAFKA_SERVICE_PORT_PLAIN",
    ],
)
def test_what_kubernetes_sets_for_a_service_is_no_setting(variable: str) -> None:
    assert load(environment={variable: "10.0.0.1"}) == Config()


@pytest.mark.parametrize("variable", ["BARBICEL_KESTREL_PORT", "BARBICEL_KESTREL_TEXT_PORT"])
def test_a_service_may_be_named_like_a_setting(variable: str) -> None:
    assert load(environment={variable: "tcp://10.0.0.1:22133"}) == Config()
    assert load(environment={variable: "1234"}) != Config()
    (problem,) = problems(environment={variable: "12x"})
    assert problem == f"variable {variable} is '12x', allowed is a whole number from 0 to 65535"


# Mistakes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("num.partitions = 0", "num.partitions is 0, allowed is a whole number from 1 to 10000"),
        ('num.partitions = "3"', "num.partitions is '3', allowed is a whole number from 1 to 10000"),
        ("num.partitions = true", "num.partitions is True, allowed is a whole number from 1 to 10000"),
        ("num.partitions = 1.5", "num.partitions is 1.5, allowed is a whole number from 1 to 10000"),
        ("durability = 1", "durability is 1, allowed is fsync or write"),
        ('durability = "Fsync"', "durability is 'Fsync', allowed is fsync or write"),
        ("auto.create.topics.enable = 1", "auto.create.topics.enable is 1, allowed is true or false"),
        ('data.directory = ""', "data.directory is '', allowed is text"),
        ("num.partition = 3", "num.partition is no setting, did you mean num.partitions?"),
        ("[kafka]\nxyz = 3", "kafka.xyz is no setting, see barbicel.toml.example"),
        ('num.partitions = 1\n"num.partitions" = 2', "num.partitions is set twice"),
        (
            f"group.max.size = {1 << 31}",
            "group.max.size is 2147483648, allowed is a whole number from 1 to 2147483647",
        ),
    ],
)
def test_a_mistake_in_the_file(text: str, expected: str) -> None:
    (problem,) = problems(text)
    assert problem.startswith(f"{FILE}: {expected}")


def test_all_mistakes_of_all_sources_are_told_at_once() -> None:
    found = problems(
        "num.partitions = 0\nnmu.partitions = 1",
        {"BARBICEL_NUM_PARTITONS": "3", "BARBICEL_NODE_ID": "one"},
        {"durability": "maybe", "node.di": "1"},
    )
    assert found == [
        f"{FILE}: num.partitions is 0, allowed is a whole number from 1 to 10000",
        f"{FILE}: nmu.partitions is no setting, did you mean num.partitions?",
        "variable BARBICEL_NODE_ID is 'one', allowed is a whole number from 0 to 2147483647",
        "variable BARBICEL_NUM_PARTITONS is no setting, did you mean BARBICEL_NUM_PARTITIONS?",
        "flag --durability is 'maybe', allowed is fsync or write",
        "node.di is no setting, did you mean node.id?",
    ]


@pytest.mark.parametrize("text", ["", "3x", "1_000", "٣", "0x10", "1e3", "--1", "9" * 5000])
def test_text_that_is_no_number(text: str) -> None:
    (problem,) = problems(environment={"BARBICEL_LOG_RETENTION_MS": text})
    assert problem.startswith("variable BARBICEL_LOG_RETENTION_MS is ")
    assert len(problem) < 200


@pytest.mark.parametrize(("text", "value"), [("-1", -1), (" 12 ", 12), ("+7", 7)])
def test_text_that_is_a_number(text: str, value: int) -> None:
    assert load(environment={"BARBICEL_LOG_RETENTION_MS": text}).log_retention_ms == value


@pytest.mark.parametrize(("text", "value"), [("true", True), ("False", False), (" TRUE ", True)])
def test_text_that_is_a_switch(text: str, value: bool) -> None:
    assert load(flags={"delete.topic.enable": text}).delete_topic_enable is value


def test_what_is_no_toml_is_told_with_its_line() -> None:
    (problem,) = problems("num.partitions = 3\nx = = 1")
    assert problem.startswith(f"{FILE}: ")
    assert "line 2" in problem


def test_bytes_that_are_no_text() -> None:
    disk = FaultDisk()
    disk.put(FILE, b"\xff\xfe")
    with pytest.raises(ConfigError, match=FILE):
        load_config(disk, path=FILE)


def test_a_huge_file_is_refused() -> None:
    (problem,) = problems("#" * (MAX_FILE_BYTES + 1))
    assert "larger than" in problem


# Listeners


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("PLAINTEXT://localhost:9092", "localhost", 9092),
        ("PLAINTEXT://:0", "", 0),
        ("PLAINTEXT://[::1]:65535", "::1", 65535),
    ],
)
def test_a_listener(text: str, host: str, port: int) -> None:
    (listener,) = load(flags={"listeners": text}).listeners
    assert listener == Listener("PLAINTEXT", host, port)
    assert str(listener) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost:9092",
        "PLAINTEXT://localhost",
        "PLAINTEXT://localhost:65536",
        "PLAINTEXT://local host:1",
        "SSH://localhost:22",
        "PLAINTEXT://a:1,PLAINTEXT://b:2",
        "PLAINTEXT://::1:9092",
    ],
)
def test_what_is_no_listener(text: str) -> None:
    (problem,) = problems(flags={"listeners": text})
    assert problem == f"flag --listeners is {text!r}, allowed is {Listeners().allowed}"


@pytest.mark.parametrize("text", ["PLAINTEXT://0.0.0.0:9092", "PLAINTEXT://:9092", "PLAINTEXT://a:0"])
def test_what_nobody_can_connect_to_is_not_advertised(text: str) -> None:
    (problem,) = problems(flags={"advertised.listeners": text})
    assert "that clients can connect to" in problem


# The example file


def test_the_example_file_is_the_table() -> None:
    committed = (ROOT / "barbicel.toml.example").read_text(encoding="utf-8")
    assert committed == render_example(), "run: python -m barbicel.config.example > barbicel.toml.example"


def test_the_example_changes_nothing() -> None:
    assert tomllib.loads(render_example()) == {}


def test_the_example_without_its_comment_signs_is_every_default() -> None:
    keys = "|".join(re.escape(toml_key(name)) for name in SETTINGS)
    config = load(re.sub(rf"^# ({keys}) = ", r"\1 = ", render_example(), flags=re.MULTILINE))
    assert config == Config()
    assert all(config.origin(name).kind == "file" for name in SETTINGS)


def test_the_example_of_queues_is_every_default_and_some_queues() -> None:
    rows = re.sub(r"^# (\[kestrel\.[^ ]*\]$|\w+ = )", r"\1", render_example(), flags=re.MULTILINE)
    tables = load(rows[rows.index("[kestrel.default]") :]).kestrel_queues
    assert tables.default == {row.attribute: row.default for row in QUEUE_SETTINGS.values()}
    assert set(tables.queues) == {"orders", "orders+audit"}
    assert tables.queues["orders"]["open_transaction_timeout_ms"] == 30_000
    assert tables.aliases == {"everywhere": ("orders", "invoices")}


def test_all_of_the_example_can_be_one_file() -> None:
    names = "|".join(re.escape(toml_key(name)) for name in SETTINGS)
    text = re.sub(rf"^# (({names}|\w+) = |\[kestrel\.[^ ]*\]$)", r"\1", render_example(), flags=re.MULTILINE)
    assert load(text).kestrel_queues.aliases


def test_the_types_are_those_that_kafka_has_for_these_names() -> None:
    types = {name: SETTINGS[name].rule.type for name in SETTINGS}
    assert types["log.retention.ms"] is ValueType.LONG
    assert types["log.segment.bytes"] is ValueType.INT
    assert types["auto.create.topics.enable"] is ValueType.BOOLEAN
    assert types["log.message.timestamp.type"] is ValueType.STRING
    assert types["listeners"] is ValueType.LIST
