"""Metadata: all topics, none, some; by name and by id; names that create a topic and names that cannot."""

from __future__ import annotations

from uuid import UUID

from barbicel.codecs.kafka.messages import Message, MetadataRequest
from tests.differential.asking import metadata, new_topic, versions
from tests.differential.script import Ask, Await, Steps, conversations_of

__all__ = ["CONVERSATIONS"]

Topic = MetadataRequest.MetadataRequestTopic
NULL_SINCE, BY_ID_SINCE, AUTHORIZED_SINCE = 1, 12, 8
BAD_NAMES = ("", ".", "..", "a b", "ä", "x" * 250, "a/b")
UNKNOWN_ID = UUID(int=0x1234)


def metadata_of_known_topics() -> Steps:
    yield from new_topic("metadata-1", 3)
    yield from new_topic("metadata-2")
    for version in versions(MetadataRequest):
        yield Ask(f"two topics, version {version}", metadata("metadata-1", "metadata-2"), version)
        yield Ask(f"all topics, version {version}", _all(version), version)
        if version >= NULL_SINCE:
            yield Ask(f"no topics, version {version}", metadata(), version)


def _all(version: int) -> Message:
    return MetadataRequest(topics=None if version >= NULL_SINCE else [], allow_auto_topic_creation=False)


def metadata_of_unknown_topics() -> Steps:
    for version in range(4, 14):
        yield Ask(f"unknown, version {version}", metadata(f"metadata-unknown-{version}"), version)
    yield Ask("known and unknown", metadata("metadata-1", "metadata-none"), 12)
    yield Ask("named twice", metadata("metadata-none", "metadata-none"), 12)
    for name in BAD_NAMES:
        yield Ask(f"bad name {name[:10]!r}", metadata(name), 12)
        yield Ask(f"creating bad name {name[:10]!r}", metadata(name, create=True), 12)


def metadata_that_creates() -> Steps:
    for version in (0, 1, 3, 4, 8, 12, 13):
        request = metadata(f"metadata-created-{version}", create=True)
        yield Ask(f"the first time, version {version}", request, version)
        yield Await(
            Ask(f"when it is there, version {version}", request, version),
            lambda answer: answer.topics[0].error_code == 0,
        )


def metadata_by_id() -> Steps:
    identity = yield from new_topic("metadata-by-id", 2)
    for version in (12, 13):
        for label, rows in (
            ("known", [Topic(name=None, topic_id=identity)]),
            ("unknown", [Topic(name=None, topic_id=UNKNOWN_ID)]),
            ("zero", [Topic(name=None, topic_id=None)]),
            ("name and id", [Topic(name="metadata-by-id", topic_id=identity)]),
            ("name and another id", [Topic(name="metadata-by-id", topic_id=UNKNOWN_ID)]),
            (
                "an id and a name",
                [Topic(name=None, topic_id=identity), Topic(name="metadata-by-id", topic_id=None)],
            ),
        ):
            request = MetadataRequest(topics=rows, allow_auto_topic_creation=True)
            yield Ask(f"{label}, version {version}", request, version)


def metadata_with_authorized_operations() -> Steps:
    yield from new_topic("metadata-authorized")
    for version in range(AUTHORIZED_SINCE, 14):
        request = MetadataRequest(
            topics=[Topic(name="metadata-authorized", topic_id=None)],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        )
        yield Ask(f"version {version}", request, version)


CONVERSATIONS = conversations_of(
    metadata_of_known_topics,
    metadata_of_unknown_topics,
    metadata_that_creates,
    metadata_by_id,
    metadata_with_authorized_operations,
)
