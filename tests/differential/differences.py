"""What the gateway answers otherwise than Apache Kafka 4.3, on purpose, and why.

A row explains the differences that it matches, and must match at least one in a whole run: what no longer
differs is not to stay in the documents.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.differential.comparison import ABSENT, Difference
from tests.differential.talk import ANSWERED, CLOSED, SILENT

__all__ = ["DIFFERENCES", "Justified", "explanation"]

ANY = object()


class Justified(NamedTuple):
    """`path` and `where` ("conversation / label") are regular expressions for the whole text."""

    api: str
    what: str
    why: str
    path: str
    where: str = ".*"
    kafka: Any = ANY
    ours: Any = ANY

    def explains(self, difference: Difference) -> bool:
        place = f"{difference.conversation} / {difference.label}"
        return (
            self.api in ("all", difference.api)
            and re.fullmatch(self.path, difference.path) is not None
            and re.fullmatch(self.where, place) is not None
            and self.kafka in (ANY, difference.kafka)
            and self.ours in (ANY, difference.ours)
        )


_NO_TRANSACTIONS = "There are no transactions yet; a final error tells the producer so at once."
_NOT_OPENED = (
    "Batches are stored as they come, so what is wrong inside is for the consumer. One is opened, and refused"
    " for that, only where compression.type or a missing highest timestamp asks for it."
)
_FAULT = "Kafka fails in an unforeseen way here; the answer is the error that names what is wrong."
_FORGOTTEN = "A group without members and offsets is forgotten at once; Kafka does it some minutes later."
_STRICTER = "No client means this, and it cannot be a sound request: it is refused rather than guessed at."

DIFFERENCES: Sequence[Justified] = (
    Justified(
        "all",
        "the texts of error messages",
        "They are for people, and clients go by the codes. Where Kafka has none, ours says what is wrong.",
        r"(.*\.)?(batch_index_)?error_message",
    ),
    Justified(
        "ApiVersions",
        "fewer APIs",
        "What is offered is what works: no transactions, delegation tokens, reassignments,"
        " share groups, new consumer groups or telemetry.",
        r"api_keys\.\d+",
        ours=ABSENT,
    ),
    Justified(
        "ApiVersions",
        "no features",
        "Kafka's features are versions of its own metadata and of protocols that are not offered here.",
        r"(supported|finalized)_features\..*",
        ours=ABSENT,
    ),
    Justified(
        "ApiVersions",
        "no epoch of features",
        "Without features there is nothing that an epoch could be of.",
        "finalized_features_epoch",
        ours=-1,
    ),
    Justified(
        "Metadata",
        "a topic that was not there is there in the first answer",
        "Kafka answers UNKNOWN_TOPIC_OR_PARTITION while it creates the topic, and clients ask again; here the"
        " answer waits until it exists.",
        r"topics\.metadata-created-.*",
        "metadata that creates / the first time.*",
    ),
    Justified(
        "Metadata",
        "no internal topics",
        "Committed offsets and transactions are not kept in topics, so there are none of that kind to list.",
        r"topics\.__(consumer_offsets|transaction_state|share_group_state).*",
        ours=ABSENT,
    ),
    Justified("Metadata", "an id of zeros is UNKNOWN_TOPIC_ID", _FAULT, ".*", "metadata by id / zero.*"),
    Justified(
        "Metadata",
        "an id and a name in one request: both are answered",
        "Kafka passes over all names when there is any id; a client that asks for both wants to know both.",
        "topics.*",
        "metadata by id / an id and a name.*",
    ),
    Justified(
        "Produce",
        "records that are garbage behind a right CRC are stored",
        _NOT_OPENED,
        ".*",
        "produce garbage / .*",
    ),
    Justified(
        "Produce",
        "no errors of single records",
        "A batch is taken or refused as a whole, for what its header says.",
        r".*\.record_errors\[0\]",
        ours=ABSENT,
    ),
    Justified(
        "Produce",
        "an unknown codec is INVALID_RECORD",
        _FAULT,
        r".*\.error_code",
        "produce what is wrong / unknown codec.*",
        kafka=-1,
        ours=87,
    ),
    Justified(
        "Produce",
        "log_start_offset is -1 with every error",
        "With some errors Kafka tells it. Clients look at it with UNKNOWN_PRODUCER_ID alone, which is never"
        " answered.",
        r".*\.log_start_offset",
        kafka=0,
        ours=-1,
    ),
    Justified(
        "Produce",
        "a transaction's marker from a client is INVALID_RECORD",
        "Kafka misses a transactional id first, and would say the same as here if it had one.",
        r".*\.error_code",
        "produce what is wrong / control batch.*",
        kafka=53,
        ours=87,
    ),
    Justified(
        "Produce",
        "null for records is INVALID_RECORD",
        "Kafka never answers it, and nothing after it on the connection.",
        "",
        "produce null / .*",
        kafka=SILENT,
    ),
    Justified(
        "Produce",
        "timestamps below -1, and LogAppendTime set by a client, are INVALID_TIMESTAMP",
        _STRICTER,
        ".*",
        "produce at strange times / (negative|log append time from a client).*",
    ),
    Justified(
        "Produce",
        "a transactional id is TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        _NO_TRANSACTIONS,
        ".*",
        "produce within a transaction / .*",
    ),
    Justified(
        "Fetch",
        "no sessions",
        "Each fetch names what it wants, which every client does when the id is 0.",
        "session_id",
        ours=0,
    ),
    Justified(
        "Fetch",
        "only whole batches",
        "Kafka fills up the limit with a part of the next batch, which consumers throw away.",
        r".*\.records\.cut_bytes",
        ours=0,
    ),
    Justified(
        "Fetch",
        "what compression.type compresses anew has other bytes",
        "Each library compresses in its own way; the records are the same.",
        r".*\.batches\[\d\]\.(records|crc|batch_length)",
        "produce to be compressed / .*: headers",
    ),
    Justified(
        "Fetch",
        "an unknown isolation level is as the known ones",
        "There are no transactions that it could tell apart.",
        ".*",
        "fetch in every version / isolation level 9",
    ),
    Justified("Fetch", "negative limits are as 0", _FAULT, ".*", "fetch within limits / negative limits"),
    Justified(
        "Fetch",
        "replicas are refused as a whole",
        "There is one copy of everything, so nobody may fetch as a replica.",
        "error_code|responses.*",
        "fetch as a replica / .*",
    ),
    Justified(
        "ListOffsets",
        "an unknown isolation level is as the known ones",
        "There are no transactions that it could tell apart.",
        ".*",
        "offsets of what is not there / isolation level 9",
    ),
    Justified(
        "ListOffsets",
        "the highest timestamp is one of a record that is there",
        "Kafka tells also of one that DeleteRecords has deleted, with an offset that cannot be fetched.",
        ".*",
        "records deleted / the highest time .*",
    ),
    Justified(
        "OffsetForLeaderEpoch",
        "a negative epoch has no end",
        "There is no such epoch; Kafka gives it the log's start.",
        ".*",
        "leader epochs / epoch -5 .*",
    ),
    Justified(
        "bytes",
        "negative counts are refused",
        _STRICTER,
        "",
        "counts that cannot be / (topics of Metadata, negative|tagged fields)",
        kafka=ANSWERED,
        ours=CLOSED,
    ),
    Justified(
        "DescribeGroups",
        "a group that is named twice is described once",
        "A description is long and a name is short. Clients look it up by the name.",
        r"groups\[\d+\]",
        ours=ABSENT,
    ),
    Justified(
        "DescribeGroups",
        "a group that all have left is Dead (GROUP_ID_NOT_FOUND from version 6 on)",
        _FORGOTTEN,
        r"groups\[0\]\.(group_state|protocol_type|error_code)",
        "two members / .*: nobody: .*",
    ),
    Justified(
        "ListGroups",
        "a group that all have left is not listed",
        _FORGOTTEN,
        r"groups\..*",
        ours=ABSENT,
    ),
    Justified(
        "DeleteGroups",
        "a group that all have left is GROUP_ID_NOT_FOUND",
        _FORGOTTEN,
        r"results\.deleted\.error_code",
        kafka=0,
        ours=69,
    ),
    Justified(
        "OffsetCommit",
        "a generation of an unknown group is UNKNOWN_MEMBER_ID",
        "Members are not kept over a restart. This makes a consumer join again; GROUP_ID_NOT_FOUND, Kafka's"
        " answer from version 9 on, would end it.",
        r".*\.error_code",
        "commits of members / a generation of an unknown group.*",
        ours=25,
    ),
    Justified(
        "OffsetCommit",
        "a negative offset is INVALID_REQUEST",
        "Offset -1 means that nothing is committed; Kafka stores it all the same.",
        r".*\.error_code",
        "commits without a member / a negative offset.*",
        kafka=0,
        ours=42,
    ),
    Justified(
        "CreateTopics",
        "kestrel.queue is among a topic's settings",
        "It says that a topic is a Kestrel queue, and Kafka has none.",
        r".*\.configs\.kestrel\.queue.*",
        kafka=ABSENT,
    ),
    Justified(
        "CreateTopics",
        "no settings of throttled replication",
        "There is no replication.",
        r".*\.configs\.(leader\.replication|follower\.replication)\..*",
        ours=ABSENT,
    ),
    Justified(
        "CreateTopics",
        "min.insync.replicas is a default",
        "Kafka sets it for the cluster since eligible leader replicas; here it has no effect.",
        r".*\.configs\.min\.insync\.replicas\.config_source",
        kafka=3,
        ours=5,
    ),
    Justified(
        "CreateTopics",
        "no id where a request only validates",
        "An id leads to a topic, and there is none.",
        r".*\.topic_id",
        "topics validated / .*",
        ours=None,
    ),
    Justified(
        "CreateTopics",
        "cleanup.policy=compact is INVALID_CONFIG",
        "There is no compaction yet, and a topic that is never compacted must not say that it is.",
        r".*\.error_code",
        "topics compacted / .*",
        kafka=0,
        ours=40,
    ),
    Justified(
        "DescribeTopicPartitions",
        "a name that no topic can have is INVALID_TOPIC_EXCEPTION",
        _FAULT,
        r"topics\[\d\]\.(error_code|name|topic_authorized_operations)",
        "topic partitions / bad",
    ),
    Justified(
        "DescribeConfigs",
        "kestrel.queue is among a topic's settings",
        "It says that a topic is a Kestrel queue, and Kafka has none.",
        r".*\.configs\.kestrel\.queue.*",
        kafka=ABSENT,
    ),
    Justified(
        "DescribeConfigs",
        "no settings of throttled replication",
        "There is no replication.",
        r".*\.configs\.(leader\.replication|follower\.replication)\..*",
        ours=ABSENT,
    ),
    Justified(
        "DescribeConfigs",
        "min.insync.replicas is a default",
        "Kafka sets it for the cluster since eligible leader replicas; here it has no effect.",
        r".*\.configs\.min\.insync\.replicas\.(config_source|synonyms.*)",
    ),
    Justified(
        "DescribeConfigs",
        "the default of retention.ms is log.retention.ms, that of segment.ms is log.roll.ms",
        "log.retention.hours and log.roll.hours are other names for the same, and one is enough.",
        r".*\.configs\.(retention|segment)\.ms\.synonyms\[\d\].*",
    ),
    Justified(
        "DescribeConfigs",
        "the server's settings are read-only",
        "They are read once, at the start.",
        r".*\.read_only",
        kafka=False,
        ours=True,
    ),
    Justified(
        "IncrementalAlterConfigs",
        "an empty cleanup.policy is INVALID_CONFIG",
        "Kafka keeps everything then; retention.ms=-1 says the same.",
        r"responses\[0\]\.error_code",
        ".* / no cleanup policy",
        kafka=0,
        ours=40,
    ),
    Justified(
        "IncrementalAlterConfigs",
        "an unknown operation is INVALID_REQUEST",
        _FAULT,
        r"responses\[0\]\.error_code",
        ".* / an unknown operation.*",
        kafka=-1,
        ours=42,
    ),
    Justified(
        "IncrementalAlterConfigs",
        "one row for a topic that is named twice",
        "The error is the topic's, so it is told once.",
        r"responses\[1\]",
        ".* / a topic twice",
        ours=ABSENT,
    ),
)


def explanation(difference: Difference) -> Justified | None:
    """The first row that explains it; None if that is a fault."""
    return next((row for row in DIFFERENCES if row.explains(difference)), None)
