"""The rows of the table in docs/compatibility.md: what a client is seen to do, by section.

The checks of the Java scenarios have names of their own; JAVA_CHECKS says which rows they prove.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = [
    "CODECS",
    "DELETE_GROUPS",
    "FEATURES",
    "HEADERS",
    "JAVA_CHECKS",
    "NULLS",
    "READING",
    "SET_OFFSETS",
    "codec_feature",
    "reads_feature",
]

# The section of the rows that name their writer.
READING = "Read"

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def codec_feature(codec: str) -> str:
    return "without compression" if codec == "none" else f"compressed with {codec}"


def reads_feature(writer: str) -> str:
    return f"what {writer} wrote, in every codec"


NULLS = "null and empty keys and values"
HEADERS = "headers: repeated, null, empty"
ACKS = "acks 0, 1 and all"
AUTO_CREATION = "a topic that its first record creates"
TOO_LARGE = "a record that is too large is refused, and the next is stored"
IDEMPOTENT = "idempotent, many small batches in order"
IDEMPOTENT_KILL = "idempotent over a `kill -9` of the gateway: each record once, in order"

ASSIGNMENT = "by assignment, from any offset"
BY_TIME = "seek by time"
WAITING = "records that arrive while it waits"
CONSUME_KILL = "goes on after a `kill -9` of the gateway"

SHARING = "two members share the partitions, each record goes to one"
LEAVING = "a member that leaves hands over"
CRASH = "a member that is killed is replaced"
RESUME = "commit, and resume as a new member"
RESUME_KILL = "commit, and resume after a `kill -9` of the gateway"
MEMBER_KILL = "a member goes on after a `kill -9` of the gateway"
STATIC = "a static member returns without a rebalance"

CLUSTER = "describe the cluster"
TOPICS = "create, list, describe and delete topics"
PARTITIONS = "add partitions"
SETTINGS = "read and change a topic's settings"
DELETE_RECORDS = "delete records"
GROUPS = "list and describe groups, read their offsets"
SET_OFFSETS = "set the offsets of a group"
DELETE_GROUPS = "delete groups"
NO_ACCESS_CONTROL = "access control is reported as switched off"

# Section → its rows.
FEATURES: Mapping[str, Sequence[str]] = {
    "Produce": (
        *map(codec_feature, CODECS),
        NULLS,
        HEADERS,
        ACKS,
        AUTO_CREATION,
        TOO_LARGE,
        IDEMPOTENT,
        IDEMPOTENT_KILL,
    ),
    "Consume": (ASSIGNMENT, BY_TIME, WAITING, CONSUME_KILL),
    "Groups": (SHARING, LEAVING, CRASH, RESUME, RESUME_KILL, MEMBER_KILL, STATIC),
    "Administration": (
        CLUSTER,
        TOPICS,
        PARTITIONS,
        SETTINGS,
        DELETE_RECORDS,
        GROUPS,
        SET_OFFSETS,
        DELETE_GROUPS,
        NO_ACCESS_CONTROL,
    ),
}

# Row → the checks of tests/rig/java that must all have passed for it.
JAVA_CHECKS: Mapping[str, Sequence[str]] = {
    **{codec_feature(codec): (f"codec {codec}",) for codec in CODECS},
    NULLS: ("codec none",),
    HEADERS: ("codec none",),
    ACKS: ("acks 0", "acks 1", "acks all"),
    AUTO_CREATION: ("a topic that is created by its first record",),
    TOO_LARGE: ("too large a record",),
    IDEMPOTENT: ("idempotent order of many small batches",),
    ASSIGNMENT: ("seek", "seek to both ends", "small fetches"),
    BY_TIME: ("offsets for times", "seek by time"),
    WAITING: ("records that arrive while it waits",),
    SHARING: ("two members share the partitions", "each record goes to one member"),
    LEAVING: ("a member that leaves hands over",),
    CRASH: ("a member that crashes",),
    RESUME: ("commit and resume",),
    STATIC: ("a static member returns without a rebalance",),
    CLUSTER: ("describe cluster",),
    TOPICS: ("create topics", "describe topics", "delete topics"),
    PARTITIONS: ("add partitions",),
    SETTINGS: ("describe and alter configs",),
    DELETE_RECORDS: ("delete records",),
    GROUPS: ("a group with a member", "offsets of a group without members"),
    SET_OFFSETS: ("offsets of a group without members",),
    DELETE_GROUPS: ("delete groups",),
    NO_ACCESS_CONTROL: ("access control is off",),
}
