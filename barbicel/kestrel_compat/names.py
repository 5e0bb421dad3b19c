"""Names on both sides: a Kestrel queue and its Kafka topic, a fanout child and its Stroma group.

A queue name is a master, or `master+child`: the child is what follows the first '+'. Masters and topics map
one to one, both ways:

    orders      orders         letters, digits, '_' and '-' are themselves
    a:b         a.3Ab          any other character is '.' and its Latin-1 code, which no queue name contains
    orders%2Ev1 orders.v1      a topic that is no such escape is spelled with %2E for '.'

The last line is a queue in raw form. What looks raw is taken as an escape if its topic is already the escape
of another queue, so that no topic has two names: `topic_of` and `queue_of` undo each other over all names.

In Kestrel the master of `+x` is the queue '', to which nothing can be put: `+x` is a queue of its own here.
`q+` is the child of q whose name is empty. A name of nothing but '+' fails in Kestrel, and is refused.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from barbicel.config.queue_names import QUEUE_NAME
from barbicel.errors import BarbicelError

__all__ = [
    "MAIN_GROUP",
    "BadQueueName",
    "QueueName",
    "child_of",
    "group_of",
    "guard_group",
    "is_reserved_group",
    "parse_queue_name",
    "queue_of",
    "topic_of",
]

MAIN_GROUP = "kestrel"
MAX_TOPIC_CHARS = 249
MAX_CHILD_CHARS = 249

# Bounded like the names: what is refused is not kept.
_KEPT_NAMES = 8192
_CHILD_GROUP = f"{MAIN_GROUP}+"
_RAW_DOT = "%2E"
_TOPIC = re.compile(rf"(?!\.{{1,2}}\Z)[A-Za-z0-9._-]{{1,{MAX_TOPIC_CHARS}}}", re.ASCII)
_TO_ESCAPE = re.compile(r"[^A-Za-z0-9_-]", re.ASCII)
_ESCAPE = re.compile(r"\.([0-9A-F]{2})", re.ASCII)


class BadQueueName(BarbicelError):
    """A name that no queue can have."""


class QueueName(NamedTuple):
    """A queue, or the fanout child of one."""

    master: str
    child: str | None = None

    @property
    def text(self) -> str:
        return self.master if self.child is None else f"{self.master}+{self.child}"

    @property
    def group(self) -> str:
        return group_of(self.child)


@lru_cache(_KEPT_NAMES)
def parse_queue_name(name: str) -> QueueName:
    """Raises BadQueueName. What it returns has a topic."""
    if not QUEUE_NAME.fullmatch(name):
        raise BadQueueName(
            f"queue name {name[:100]!r}: it is empty, or has one of . / ~, a space, a control"
            " character or one beyond Latin-1"
        )
    if not name.strip("+"):
        raise BadQueueName(f"queue name {name[:100]!r} is nothing but '+'")
    master, plus, child = name.partition("+")
    parsed = QueueName(master, child if plus else None) if master else QueueName(name)
    topic_of(parsed.master)
    if len(child) > MAX_CHILD_CHARS:
        raise BadQueueName(f"a fanout's name has {len(child)} characters, allowed are {MAX_CHILD_CHARS}")
    return parsed


# --- groups ---------------------------------------------------------------------------------------------


def group_of(child: str | None) -> str:
    """The Stroma group that reads for the queue itself, or for its child."""
    return MAIN_GROUP if child is None else f"{_CHILD_GROUP}{child}"


def child_of(group: str) -> str | None:
    """The child that a reserved group reads for; None is the queue itself."""
    if not is_reserved_group(group):
        raise ValueError(f"{group!r} is no group of a Kestrel queue")
    return None if group == MAIN_GROUP else group.removeprefix(_CHILD_GROUP)


def is_reserved_group(group: str) -> bool:
    """Whether the group is a Kestrel queue's position, which nobody else may move."""
    return group == MAIN_GROUP or group.startswith(_CHILD_GROUP)


def guard_group(topic: str) -> str:
    """The group that holds the log of a topic while an import of journals is under way. It reads nothing."""
    return f"barbicel-import.{topic}"


# --- topics ---------------------------------------------------------------------------------------------


@lru_cache(_KEPT_NAMES)
def topic_of(master: str) -> str:
    """The topic of a master's name; raises BadQueueName if that would be too long."""
    topic = _raw(master) if _is_raw_form(master) else _escape(master)
    if len(topic) > MAX_TOPIC_CHARS:
        raise BadQueueName(
            f"queue name {master[:100]!r}…: its topic has {len(topic)} characters,"
            f" allowed are {MAX_TOPIC_CHARS}",
            hint="a character other than letters, digits, '_' and '-' counts as three",
        )
    return topic


@lru_cache(_KEPT_NAMES)
def queue_of(topic: str) -> str:
    """The master's name of a topic that Kafka allows; every such topic has one."""
    queue = _unescape(topic)
    if queue is not None and not _is_raw_form(queue):
        return queue
    return topic.replace(".", _RAW_DOT)


def _is_raw_form(queue: str) -> bool:
    """Whether %2E stands for '.' in this name. Each step looks at a shorter name."""
    if _RAW_DOT not in queue or not _TOPIC.fullmatch(_raw(queue)):
        return False
    other = _unescape(_raw(queue))
    return other is None or _is_raw_form(other)


def _raw(queue: str) -> str:
    return queue.replace(_RAW_DOT, ".")


def _escape(queue: str) -> str:
    return _TO_ESCAPE.sub(lambda found: f".{ord(found[0]):02X}", queue)


def _unescape(topic: str) -> str | None:
    """The queue of which the topic is the escape; None if it is none's."""
    queue = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), topic)
    return queue if _is_master(queue) and _escape(queue) == topic else None


def _is_master(name: str) -> bool:
    """By its letters: a '+' can only be in front, where it makes no child."""
    if not QUEUE_NAME.fullmatch(name):
        return False
    return "+" not in name or (name[0] == "+" and bool(name.strip("+")))
