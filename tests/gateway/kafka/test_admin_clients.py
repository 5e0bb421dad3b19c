"""The admin clients of kafka-python and librdkafka, as people use them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it exports them all the same
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # and this one
    ConfigResource as ConfluentResource,
)
from kafka import KafkaProducer, TopicPartition
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    ResourcePattern,
    ResourcePatternFilter,
)
from kafka.admin import ResourceType as AclResourceType
from kafka.errors import (
    InvalidConfigurationError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    OffsetOutOfRangeError,
    SecurityDisabledError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from tests.support.gateway import Gateway, running_gateway

WAIT_S = 30


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    directory: Path = tmp_path_factory.mktemp("clients")
    with running_gateway(directory) as running:
        yield running


# --- kafka-python ---------------------------------------------------------------------------------------


@pytest.fixture
def python(gateway: Gateway) -> Iterator[Any]:
    client = KafkaAdminClient(bootstrap_servers=gateway.bootstrap)
    yield client
    client.close()


def produce(gateway: Gateway, topic: str, count: int) -> None:
    producer = KafkaProducer(bootstrap_servers=gateway.bootstrap)
    for number in range(count):
        producer.send(topic, b"%d" % number, partition=0).get(WAIT_S)
    producer.close()


def modified(client: Any, topic: str) -> dict[str, str]:
    """What is set on the topic itself."""
    found = client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    return {name: row["value"] for name, row in found["topic"][topic].items()}


def test_kafka_python_manages_topics(python: Any) -> None:
    created = python.create_topics({"py": {"num_partitions": 2, "configs": {"retention.ms": "5000"}}})
    (row,) = created["topics"]
    assert (row["name"], row["num_partitions"], row["replication_factor"]) == ("py", 2, 1)
    with pytest.raises(TopicAlreadyExistsError):
        python.create_topics(["py"])
    with pytest.raises(InvalidReplicationFactorError):
        python.create_topics({"py2": {"replication_factor": 3}})
    with pytest.raises(InvalidConfigurationError):
        python.create_topics({"py2": {"configs": {"cleanup.policy": "compact"}}})
    python.create_topics(["py2"], validate_only=True)
    assert "py" in python.list_topics()
    assert "py2" not in python.list_topics()
    python.create_partitions({"py": {"count": 4, "assignments": [[0], [0]]}})
    with pytest.raises(InvalidPartitionsError):
        python.create_partitions({"py": 4})
    (described,) = python.describe_topics(["py"])
    assert len(described["partitions"]) == 4
    found = python.describe_topic_partitions(["py"], response_partition_limit=3)
    assert len(found["topics"][0]["partitions"]) == 3
    assert found["next_cursor"] == {"topic_name": "py", "partition_index": 3}
    python.delete_topics(["py"])
    with pytest.raises(UnknownTopicOrPartitionError):
        python.delete_topics(["py"])


def test_kafka_python_changes_settings(python: Any) -> None:
    python.create_topics({"py-set": {"configs": {"retention.ms": "5000"}}})

    def resource(configs: Any) -> list[Any]:
        return [ConfigResource(ConfigResourceType.TOPIC, "py-set", configs=configs)]

    assert modified(python, "py-set") == {"retention.ms": "5000"}
    python.alter_configs(resource({"flush.ms": "6"}))
    assert modified(python, "py-set") == {"retention.ms": "5000", "flush.ms": "6"}
    python.alter_configs(resource({"flush.ms": "7"}), incremental=False)
    # The server replaces all; this client fetches what is set and sends it again.
    assert modified(python, "py-set") == {"retention.ms": "5000", "flush.ms": "7"}
    python.reset_configs(resource(["flush.ms"]))
    assert modified(python, "py-set") == {"retention.ms": "5000"}
    refused = python.alter_configs(resource({"flush.ms": "soon"}))
    assert "InvalidConfigurationError" in refused["topic"]["py-set"]
    assert modified(python, "py-set") == {"retention.ms": "5000"}
    server = python.describe_configs([ConfigResource(ConfigResourceType.BROKER, "0")], config_filter="all")
    assert server["broker"]["0"]["delete.topic.enable"]["value"] == "true"
    assert server["broker"]["0"]["delete.topic.enable"]["read_only"] is True


def test_kafka_python_looks_inside(gateway: Gateway, python: Any) -> None:
    python.create_topics(["py-in"])
    produce(gateway, "py-in", 5)
    place = TopicPartition("py-in", 0)
    (state,) = python.describe_producers([place])[place].active_producers
    assert state.last_sequence == 4
    (broker,) = python.describe_log_dirs({"py-in": [0]})
    (topic,) = broker["log_dirs"][0]["topics"]
    assert topic["partitions"][0]["partition_size"] > 5 * 70
    assert python.delete_records({place: 3})[place]["low_watermark"] == 3
    with pytest.raises(OffsetOutOfRangeError):
        python.delete_records({place: 6})
    cluster = python.describe_cluster()
    assert (cluster["controller_id"], cluster["brokers"][0]["port"]) == (0, gateway.port)


def test_kafka_python_finds_no_access_control(python: Any) -> None:
    everything = ResourcePatternFilter(AclResourceType.ANY, None, ACLResourcePatternType.ANY)
    with pytest.raises(SecurityDisabledError):
        python.describe_acls(ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, everything))
    rule = ACL(
        "User:a", "*", ACLOperation.READ, ACLPermissionType.ALLOW, ResourcePattern(AclResourceType.TOPIC, "t")
    )
    created = python.create_acls([rule])
    assert (created["succeeded"], len(created["failed"])) == ([], 1)


# --- librdkafka -----------------------------------------------------------------------------------------


@pytest.fixture
def confluent(gateway: Gateway) -> AdminClient:
    return AdminClient({"bootstrap.servers": gateway.bootstrap, "log_level": 0})


def results(futures: dict[Any, Any]) -> list[Any]:
    """What became of each: None where there is nothing to tell, the error's name where it failed."""
    found = []
    for future in futures.values():
        try:
            found.append(future.result(WAIT_S))
        except KafkaException as error:
            found.append(error.args[0].name())
    return found


def entries(confluent: AdminClient, kind: str, name: str) -> dict[str, str]:
    (found,) = results(confluent.describe_configs([ConfluentResource(kind, name)]))
    return {entry.name: entry.value for entry in found.values()}


def test_librdkafka_manages_topics(confluent: AdminClient) -> None:
    wanted = [
        NewTopic("rd", 2, 1, config={"retention.ms": "5000"}),
        NewTopic("rd2", -1, -1),
        NewTopic("rd3", 1, 2),
        NewTopic("rd4", 2, replica_assignment=[[0], [0]]),
    ]
    assert results(confluent.create_topics(wanted)) == [None, None, "INVALID_REPLICATION_FACTOR", None]
    assert results(confluent.create_topics([NewTopic("rd", 2, 1)])) == ["TOPIC_ALREADY_EXISTS"]
    assert results(confluent.create_topics([NewTopic("rd5", 2, 1)], validate_only=True)) == [None]
    assert results(confluent.create_partitions([NewPartitions("rd", 3, replica_assignment=[[0]])])) == [None]
    assert results(confluent.create_partitions([NewPartitions("rd", 3)])) == ["INVALID_PARTITIONS"]
    (described,) = results(confluent.describe_topics(TopicCollection(["rd"])))
    assert (described.name, len(described.partitions)) == ("rd", 3)
    topics = confluent.list_topics(timeout=WAIT_S).topics
    assert {"rd", "rd2", "rd4"} <= set(topics)
    assert not {"rd3", "rd5"} & set(topics)
    deleted = confluent.delete_topics(["rd", "rd2", "rd4", "rd5"])
    assert results(deleted) == [None, None, None, "UNKNOWN_TOPIC_OR_PART"]


def test_librdkafka_changes_settings(confluent: AdminClient) -> None:
    assert results(confluent.create_topics([NewTopic("rd-set", 1, 1)])) == [None]

    def incremental(operation: Any, name: str, value: str | None) -> list[Any]:
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfluentResource("topic", "rd-set", incremental_configs=[entry])
        return results(confluent.incremental_alter_configs([resource]))

    assert incremental(AlterConfigOpType.SET, "retention.ms", "7000") == [None]
    assert entries(confluent, "topic", "rd-set")["retention.ms"] == "7000"
    assert incremental(AlterConfigOpType.APPEND, "cleanup.policy", "delete") == [None]
    assert incremental(AlterConfigOpType.SET, "retention.ms", "soon") == ["INVALID_CONFIG"]
    with pytest.warns(DeprecationWarning, match="alter_configs"):
        replaced = confluent.alter_configs(
            [ConfluentResource("topic", "rd-set", set_config={"flush.ms": "5"})]
        )
    assert results(replaced) == [None]
    found = entries(confluent, "topic", "rd-set")
    assert (found["flush.ms"], found["retention.ms"]) == ("5", str(7 * 24 * 3600 * 1000))
    assert incremental(AlterConfigOpType.DELETE, "flush.ms", None) == [None]
    assert entries(confluent, "broker", "0")["node.id"] == "0"


def test_librdkafka_looks_inside(gateway: Gateway, confluent: AdminClient) -> None:
    assert results(confluent.create_topics([NewTopic("rd-in", 1, 1)])) == [None]
    produce(gateway, "rd-in", 5)
    (deleted,) = results(confluent.delete_records([ConfluentPartition("rd-in", 0, 2)]))
    assert deleted.low_watermark == 2
    (deleted,) = results(confluent.delete_records([ConfluentPartition("rd-in", 0, -1)]))
    assert deleted.low_watermark == 5
    cluster = confluent.describe_cluster().result(WAIT_S)
    assert (cluster.controller.id, cluster.nodes[0].port) == (0, gateway.port)


def test_librdkafka_finds_no_access_control(confluent: AdminClient) -> None:
    rule = ("x", ResourcePatternType.LITERAL, "User:a", "*", AclOperation.READ, AclPermissionType.ALLOW)
    assert results(confluent.create_acls([AclBinding(ResourceType.TOPIC, *rule)])) == ["SECURITY_DISABLED"]
    deleted = confluent.delete_acls([AclBindingFilter(ResourceType.TOPIC, *rule)])
    assert results(deleted) == ["SECURITY_DISABLED"]
