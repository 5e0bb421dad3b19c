"""The topics in a member's metadata, whatever bytes it sends."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barbicel.gateway.broker.membership.subscription import Subscriptions, read_topics
from tests.gateway.broker.membership.builders import subscription

TOPICS = ["one", "zwölf", ""]


@pytest.mark.parametrize("version", [0, 1, 3, 32_767])
def test_every_version_begins_alike(version: int) -> None:
    assert read_topics(subscription(TOPICS, version, b"whatever follows")) == frozenset(TOPICS)


def test_no_topics_are_a_subscription_too() -> None:
    assert read_topics(subscription([])) == frozenset()


def test_every_truncation_is_noticed() -> None:
    whole = subscription(TOPICS, rest=b"")
    assert read_topics(whole) == frozenset(TOPICS)
    assert [read_topics(whole[:end]) for end in range(len(whole))] == [None] * len(whole)


@pytest.mark.parametrize(
    "metadata",
    [
        subscription(TOPICS, version=-1),
        pack(">hi", 0, -1),
        pack(">hi", 0, 2**31 - 1) + b"\0" * 100,
        pack(">hih", 0, 1, -1) + b"\0" * 100,
        pack(">hih", 0, 1, 2) + b"\xff\xff",
    ],
    ids=["version", "null", "count", "length", "not text"],
)
def test_what_no_consumer_writes_is_not_understood(metadata: bytes) -> None:
    assert read_topics(metadata) is None


@given(st.binary(max_size=60))
def test_any_bytes_are_topics_or_nothing(metadata: bytes) -> None:
    topics = read_topics(metadata)
    assert topics is None or sum(len(topic.encode()) for topic in topics) < len(metadata)


def test_one_member_that_is_not_understood_could_read_anything() -> None:
    assert not Subscriptions([subscription(["a"])]).include("b")
    assert Subscriptions([subscription(["a"]), b""]).include("b")
