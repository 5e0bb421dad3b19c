"""What Apache Kafka 4.3 offers to producers, consumers and administrators, beside which ours is shown.

What manages a cluster of brokers (elections, reassignments, features) is not listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["KAFKA_APIS", "KafkaApi"]


class KafkaApi(NamedTuple):
    name: str
    first_version: int
    last_version: int


# API key → its versions in Kafka 4.3, as ApiVersions tells them.
KAFKA_APIS: Mapping[int, KafkaApi] = {
    0: KafkaApi("Produce", 0, 13),
    1: KafkaApi("Fetch", 4, 18),
    2: KafkaApi("ListOffsets", 1, 11),
    3: KafkaApi("Metadata", 0, 13),
    8: KafkaApi("OffsetCommit", 2, 10),
    9: KafkaApi("OffsetFetch", 1, 10),
    10: KafkaApi("FindCoordinator", 0, 6),
    11: KafkaApi("JoinGroup", 0, 9),
    12: KafkaApi("Heartbeat", 0, 4),
    13: KafkaApi("LeaveGroup", 0, 5),
    14: KafkaApi("SyncGroup", 0, 5),
    15: KafkaApi("DescribeGroups", 0, 6),
    16: KafkaApi("ListGroups", 0, 5),
    17: KafkaApi("SaslHandshake", 0, 1),
    18: KafkaApi("ApiVersions", 0, 4),
    19: KafkaApi("CreateTopics", 2, 7),
    20: KafkaApi("DeleteTopics", 1, 6),
    21: KafkaApi("DeleteRecords", 0, 2),
    22: KafkaApi("InitProducerId", 0, 5),
    23: KafkaApi("OffsetForLeaderEpoch", 2, 4),
    24: KafkaApi("AddPartitionsToTxn", 0, 5),
    25: KafkaApi("AddOffsetsToTxn", 0, 4),
    26: KafkaApi("EndTxn", 0, 5),
    28: KafkaApi("TxnOffsetCommit", 0, 5),
    29: KafkaApi("DescribeAcls", 1, 3),
    30: KafkaApi("CreateAcls", 1, 3),
    31: KafkaApi("DeleteAcls", 1, 3),
    32: KafkaApi("DescribeConfigs", 1, 4),
    33: KafkaApi("AlterConfigs", 0, 2),
    35: KafkaApi("DescribeLogDirs", 1, 5),
    36: KafkaApi("SaslAuthenticate", 0, 2),
    37: KafkaApi("CreatePartitions", 0, 3),
    42: KafkaApi("DeleteGroups", 0, 2),
    44: KafkaApi("IncrementalAlterConfigs", 0, 1),
    47: KafkaApi("OffsetDelete", 0, 0),
    48: KafkaApi("DescribeClientQuotas", 0, 1),
    49: KafkaApi("AlterClientQuotas", 0, 1),
    50: KafkaApi("DescribeUserScramCredentials", 0, 0),
    51: KafkaApi("AlterUserScramCredentials", 0, 0),
    60: KafkaApi("DescribeCluster", 0, 2),
    61: KafkaApi("DescribeProducers", 0, 0),
    65: KafkaApi("DescribeTransactions", 0, 0),
    66: KafkaApi("ListTransactions", 0, 2),
    68: KafkaApi("ConsumerGroupHeartbeat", 0, 1),
    69: KafkaApi("ConsumerGroupDescribe", 0, 1),
    75: KafkaApi("DescribeTopicPartitions", 0, 0),
    76: KafkaApi("ShareGroupHeartbeat", 1, 1),
    77: KafkaApi("ShareGroupDescribe", 1, 1),
    78: KafkaApi("ShareFetch", 1, 2),
    79: KafkaApi("ShareAcknowledge", 1, 2),
}
