# ruff: noqa: T201 - what an example is for is what it prints
"""Look after topics and groups with kafka-python's admin client.

python examples/kafka_admin.py 127.0.0.1:9092
"""

import sys

from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.structs import OffsetAndMetadata

TOPIC, GROUP = "audit", "auditors"


def main(bootstrap: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        topics(admin)
        records(admin, bootstrap)
        groups(admin)
        admin.delete_topics([TOPIC])
        print(f"deleted: {TOPIC not in admin.list_topics()}")
    finally:
        admin.close()


def topics(admin: KafkaAdminClient) -> None:
    day_ms = 24 * 60 * 60 * 1000
    admin.create_topics({TOPIC: {"num_partitions": 2, "configs": {"retention.ms": str(day_ms)}}})
    admin.create_partitions({TOPIC: 3})
    (described,) = admin.describe_topics([TOPIC])
    print(f"{TOPIC} has {len(described['partitions'])} partitions")

    week = ConfigResource(ConfigResourceType.TOPIC, TOPIC, configs={"retention.ms": str(7 * day_ms)})
    admin.alter_configs([week])
    settings = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, TOPIC)], config_filter="all")
    for name in ("retention.ms", "cleanup.policy", "max.message.bytes"):
        print(f"{name} = {settings['topic'][TOPIC][name]['value']}")


def records(admin: KafkaAdminClient, bootstrap: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(5):
        producer.send(TOPIC, value=b"entry %d" % number, partition=0).get(timeout=30)
    producer.close()
    place = TopicPartition(TOPIC, 0)
    left = admin.delete_records({place: 2})[place]["low_watermark"]
    print(f"the first entry that is left has offset {left}")


def groups(admin: KafkaAdminClient) -> None:
    """A group without members can be set to where it is to begin."""
    place = TopicPartition(TOPIC, 0)
    admin.alter_group_offsets(GROUP, {place: OffsetAndMetadata(4, "begin here", -1)})
    offset = admin.list_group_offsets({GROUP: None})[GROUP][place]
    print(f"{GROUP} goes on at offset {offset.offset} ({offset.metadata})")
    print(f"its state is {admin.describe_groups([GROUP])[GROUP]['group_state']}")
    admin.delete_groups([GROUP])
    print(f"deleted: {GROUP not in {group['group_id'] for group in admin.list_groups()}}")


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["127.0.0.1:9092"]))
