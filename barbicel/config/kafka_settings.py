"""Settings of storage, and of what Kafka clients use: rows of the table in settings.py."""

from __future__ import annotations

from dataclasses import dataclass

from barbicel.config.listeners import Listener, Listeners
from barbicel.config.setting import row
from barbicel.config.values import INT_MAX, LONG_MAX, Choice, Switch, Text, Whole

__all__ = ["KafkaSettings"]

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
DAY_MS = 24 * 60 * MINUTE_MS


@dataclass(frozen=True, kw_only=True)
class KafkaSettings:
    """A field is a setting."""

    data_directory: str = row(
        "data.directory",
        "./data",
        Text(),
        "Everything that is stored lies here. A relative path starts where the server is started."
        " One server at a time.",
        section="Storage",
    )
    durability: str = row(
        "durability",
        "fsync",
        Choice(("fsync", "write")),
        "What an answer to a produce promises. fsync: it survives a power cut. write: it survives a sudden"
        " end of the server; a power cut may take what was answered in the last flush.ms.",
    )
    flush_ms: int = row(
        "flush.ms",
        100,
        Whole(1, MINUTE_MS),
        "With durability = write: what was answered is synced to the disk within so many milliseconds.",
    )
    writer_shards: int = row(
        "writer.shards",
        2,
        Whole(1, 64),
        "Writers that work side by side. Every partition belongs to one of them, and each syncs on its own.",
    )
    background_threads: int = row(
        "background.threads",
        10,
        Whole(1, 1000),
        "Threads for all other work that waits for the disk: reading old data, creating topics, retention.",
    )
    tail_partition_bytes: int = row(
        "tail.partition.bytes",
        4 * MIB,
        Whole(0, LONG_MAX),
        "The newest data of each partition stays in memory up to this size, so that consumers who keep up"
        " never wait for the disk.",
    )
    tail_bytes: int = row(
        "tail.bytes",
        40 * MIB,
        Whole(0, LONG_MAX),
        "The same, for all partitions together.",
    )

    listeners: tuple[Listener, ...] = row(
        "listeners",
        (Listener("PLAINTEXT", "127.0.0.1", 9092),),
        Listeners(),
        "Where Kafka clients connect. Only this machine can, unless you change it:"
        " PLAINTEXT://0.0.0.0:9092 lets everybody in who can reach the port. SSL, SASL_SSL and"
        " SASL_PLAINTEXT are under Security.",
        section="Kafka clients",
    )
    advertised_listeners: tuple[Listener, ...] = row(
        "advertised.listeners",
        (),
        Listeners(advertised=True),
        "The address that clients are told to use, if it is not the one above: in a container, for example."
        " Left empty, each client is told the address on which it has reached the server.",
    )
    node_id: int = row("node.id", 0, Whole(0), "The number of this broker, as clients see it.")
    max_connections: int = row(
        "max.connections",
        20_000,
        Whole(1),
        "Connections at a time. Each needs an open file, see ulimit -n.",
    )
    max_connections_per_ip: int = row(
        "max.connections.per.ip",
        INT_MAX,
        Whole(1),
        "Connections at a time from one address.",
    )
    connections_max_idle_ms: int = row(
        "connections.max.idle.ms",
        10 * MINUTE_MS,
        Whole(1000, LONG_MAX),
        "A connection on which nothing happens is closed after this time.",
    )
    socket_request_max_bytes: int = row(
        "socket.request.max.bytes",
        100 * MIB,
        Whole(1 * KIB),
        "The largest request. A connection that announces more is closed before anything is read. Those"
        " without records have at most 2 MiB, those with members' metadata or committed offsets 8 MiB.",
    )
    queued_max_request_bytes: int = row(
        "queued.max.request.bytes",
        256 * MIB,
        Whole(1 * KIB, LONG_MAX),
        "Memory for requests that are being worked on, of all connections together. When it is used up,"
        " connections are not read until there is room. As much again is for answers that clients leave"
        " unread; a quarter beyond that the one that has read nothing for longest is closed. Kestrel's"
        " connections have the same beside Kafka's.",
    )
    fetch_max_bytes: int = row(
        "fetch.max.bytes",
        55 * MIB,
        Whole(1 * KIB),
        "The most that one fetch is answered with, whatever the client asks for. One whole batch is sent"
        " in any case.",
    )

    auto_create_topics_enable: bool = row(
        "auto.create.topics.enable",
        True,
        Switch(),
        "A topic that does not exist is created when a client asks for it.",
        section="Topics (a topic's own settings come first)",
    )
    delete_topic_enable: bool = row("delete.topic.enable", True, Switch(), "Clients may delete topics.")
    num_partitions: int = row(
        "num.partitions",
        1,
        Whole(1, 10_000),
        "Partitions of a topic that is created without saying how many.",
    )
    message_max_bytes: int = row(
        "message.max.bytes",
        MIB + 12,
        Whole(0),
        "The largest batch of records, as the producer compressed it. Topics: max.message.bytes.",
    )
    log_retention_ms: int = row(
        "log.retention.ms",
        7 * DAY_MS,
        Whole(-1, LONG_MAX),
        "Data older than this is deleted, a whole segment at a time; -1 keeps it. Topics: retention.ms.",
    )
    log_retention_bytes: int = row(
        "log.retention.bytes",
        -1,
        Whole(-1, LONG_MAX),
        "The oldest segments of a partition are deleted when it is larger than this; -1 sets no limit."
        " Topics: retention.bytes.",
    )
    log_retention_check_interval_ms: int = row(
        "log.retention.check.interval.ms",
        5 * MINUTE_MS,
        Whole(1, LONG_MAX),
        "How often old data is looked for.",
    )
    log_segment_bytes: int = row(
        "log.segment.bytes",
        GIB,
        Whole(MIB),
        "A segment is full at this size. Topics: segment.bytes.",
    )
    log_roll_ms: int = row(
        "log.roll.ms",
        7 * DAY_MS,
        Whole(1, LONG_MAX),
        "A segment is full at this age. Topics: segment.ms.",
    )
    log_message_timestamp_type: str = row(
        "log.message.timestamp.type",
        "CreateTime",
        Choice(("CreateTime", "LogAppendTime")),
        "A record's time is the producer's (CreateTime), or when it was stored (LogAppendTime)."
        " Topics: message.timestamp.type.",
    )
    log_message_timestamp_before_max_ms: int = row(
        "log.message.timestamp.before.max.ms",
        LONG_MAX,
        Whole(0, LONG_MAX),
        "With CreateTime: a batch that is older than this by its producer's clock is refused."
        " Topics: message.timestamp.before.max.ms.",
    )
    log_message_timestamp_after_max_ms: int = row(
        "log.message.timestamp.after.max.ms",
        60 * MINUTE_MS,
        Whole(0, LONG_MAX),
        "With CreateTime: a batch that is so far in the future by its producer's clock is refused."
        " Topics: message.timestamp.after.max.ms.",
    )

    group_min_session_timeout_ms: int = row(
        "group.min.session.timeout.ms",
        6 * SECOND_MS,
        Whole(1),
        "The shortest session timeout that a member may ask for.",
        section="Consumer groups and producers",
    )
    group_max_session_timeout_ms: int = row(
        "group.max.session.timeout.ms",
        30 * MINUTE_MS,
        Whole(1),
        "The longest session timeout that a member may ask for.",
    )
    group_initial_rebalance_delay_ms: int = row(
        "group.initial.rebalance.delay.ms",
        3 * SECOND_MS,
        Whole(0),
        "A group that was empty waits so long for more members before it shares out partitions.",
    )
    group_max_size: int = row("group.max.size", INT_MAX, Whole(1), "The most members that a group may have.")
    offset_metadata_max_bytes: int = row(
        "offset.metadata.max.bytes",
        4 * KIB,
        # 0xFFFF stands for null in Stroma's files.
        Whole(0, 0xFFFE),
        "The longest text that a consumer may store with a committed offset.",
    )
    producer_id_expiration_ms: int = row(
        "producer.id.expiration.ms",
        DAY_MS,
        Whole(1),
        "An idempotent producer that is silent for so long is forgotten: what it repeats then counts as new.",
    )
