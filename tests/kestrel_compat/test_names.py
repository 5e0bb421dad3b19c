"""Queue names, topics and groups: what is refused, and that no two names are ever one."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from barbicel.config.queue_names import wire_name
from barbicel.kestrel_compat.names import (
    BadQueueName,
    QueueName,
    child_of,
    group_of,
    is_reserved_group,
    parse_queue_name,
    queue_of,
    topic_of,
)

LEGAL = "".join(chr(code) for code in range(0x21, 0x100) if chr(code) not in "./~\x7f")
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


@pytest.mark.parametrize(
    ("name", "master", "child"),
    [
        ("q", "q", None),
        ("q+audit", "q", "audit"),
        ("q+a+b", "q", "a+b"),
        ("q+", "q", ""),
        ("q++", "q", "+"),
        ("+x", "+x", None),
        ("+x+y", "+x+y", None),
        ("\xc3\xa9", "\xc3\xa9", None),
        ("a%2Eb+c%2Ed", "a%2Eb", "c%2Ed"),
    ],
)
def test_a_name_is_a_master_and_maybe_a_child(name: str, master: str, child: str | None) -> None:
    parsed = parse_queue_name(name)
    assert parsed == QueueName(master, child)
    assert parsed.text == name
    assert parsed.group == group_of(child)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a.b",
        "a/b",
        "a~b",
        "~",
        ".",
        "a b",
        "a\tb",
        "a\nb",
        "a\rb",
        "a\0b",
        "a\x7f",
        "\u0100",
        "é€",
        "+",
        "++++",
        "q+a.b",
        "q+a/b",
        "q+a b",
        "\ud800",
    ],
)
def test_names_that_no_queue_can_have(name: str) -> None:
    with pytest.raises(BadQueueName):
        parse_queue_name(name)


def test_lengths() -> None:
    longest = "q" * 249
    assert parse_queue_name(f"{longest}+{longest}") == QueueName(longest, longest)
    for name in ("q" * 250, ":" * 84, f"q+{'c' * 250}", "q" * 1_000_000):
        with pytest.raises(BadQueueName, match="characters, allowed are 249"):
            parse_queue_name(name)
    assert len(topic_of(":" * 83)) == 249
    # In raw form the topic's length counts, not the name's.
    topic = "a." * 124
    assert parse_queue_name(queue_of(topic)).master == "a%2E" * 124


@pytest.mark.parametrize(
    ("queue", "topic"),
    [
        ("orders_2-x", "orders_2-x"),
        ("a:b", "a.3Ab"),
        ("\xff", ".FF"),
        ("100%", "100.25"),
        ("+x", ".2Bx"),
        ("orders%2Ev1", "orders.v1"),
        # The topic is the escape of a queue already.
        ("a%2E3Ab", "a.252E3Ab"),
        # No escapes: lower case, of a letter, of what no queue may have, of '+' alone or inside.
        ("a%2E3ab", "a.3ab"),
        ("a%2E41", "a.41"),
        ("a%2E2E", "a.2E"),
        ("a%2E20", "a.20"),
        ("%2E2B", ".2B"),
        ("a%2E2Bx", "a.2Bx"),
        # Names that Kafka refuses are never a topic's.
        ("%2E", ".252E"),
        ("%2E%2E", ".252E.252E"),
        ("%2E%2E%2E", "..."),
        ("%2e", ".252e"),
        # The escape of a raw name is free, so it is somebody's raw form; that of an escaped name is not.
        ("orders%2E252Ev1", "orders.252Ev1"),
        ("a%2E252E3Ab", "a.252E252E3Ab"),
    ],
)
def test_queues_and_their_topics(queue: str, topic: str) -> None:
    assert topic_of(queue) == topic
    assert queue_of(topic) == queue


masters = st.one_of(
    st.text(LEGAL, min_size=1, max_size=83),
    # Dense in what could be confused.
    st.lists(
        st.sampled_from(["%", "%2E", "2E", "25", "252E", "3A", ":", "a", "2B", "+", "%252E"]), min_size=1
    ).map("".join),
)
topics = st.one_of(
    st.from_regex(TOPIC, fullmatch=True),
    st.lists(
        st.sampled_from([".", ".25", "2E", ".252E", "252E", ".3A", ".3a", ".2B", "a", "25"]), min_size=1
    ).map("".join),
)


@given(masters)
@example("%2E" * 83)
@example("a%2E252E252E252E3Ab")
def test_a_queue_comes_back_from_its_topic(name: str) -> None:
    try:
        parsed = parse_queue_name(name)
    except BadQueueName:
        assume(False)
    assume(parsed.child is None)
    topic = topic_of(name)
    assert TOPIC.fullmatch(topic)
    assert topic not in (".", "..")
    assert queue_of(topic) == name


@given(topics)
@example(".252E" * 49)
def test_a_topic_comes_back_from_its_queue(topic: str) -> None:
    assume(len(topic) <= 249 and topic not in (".", ".."))
    queue = queue_of(topic)
    assert parse_queue_name(queue) == QueueName(queue, None)
    assert topic_of(queue) == topic


def test_no_two_short_names_share_a_topic() -> None:
    parts = ["", "%2E", "25", "2E", "3A", ":", "%", "a"]
    names = {a + b + c + d for a in parts for b in parts for c in parts for d in parts} - {""}
    assert len({topic_of(name) for name in names}) == len(names)


def test_groups() -> None:
    assert [group_of(child) for child in (None, "", "audit", "a+b")] == [
        "kestrel",
        "kestrel+",
        "kestrel+audit",
        "kestrel+a+b",
    ]
    for child in (None, "", "audit", "a+b", "+"):
        assert child_of(group_of(child)) == child
        assert is_reserved_group(group_of(child))
    for group in ("", "kestre", "kestrel-x", "kestrels", "Kestrel", " kestrel", "audit"):
        assert not is_reserved_group(group)
        with pytest.raises(ValueError, match="no group of a Kestrel queue"):
            child_of(group)


def test_settings_spell_names_as_clients_do() -> None:
    assert wire_name("orders") == "orders"
    assert wire_name("é").encode("latin-1") == "é".encode()
    assert parse_queue_name(wire_name("größe€")).master == wire_name("größe€")
