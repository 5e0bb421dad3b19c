"""What a conversation is made of. Pure: a conversation says what to do, another module does it.

A conversation is a generator of steps. What comes back from a step is the decoded answer, or None where
there is none: the connection was closed, or nothing was waited for. So later steps can use ids that a server
has given out.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from barbicel.codecs.kafka.messages import Message

__all__ = [
    "Answer",
    "Ask",
    "Await",
    "Conversation",
    "Receive",
    "Send",
    "SendBytes",
    "Step",
    "Steps",
    "conversations_of",
]


@dataclass(frozen=True)
class Send:
    """A request, of which the answer is received later or never."""

    label: str
    request: Message
    version: int
    on: str = "a"


@dataclass(frozen=True)
class Ask(Send):
    """A request, and its answer. `patience_s` is for what a server may leave without one."""

    patience_s: float = 20.0


@dataclass(frozen=True)
class Receive:
    """The next answer on a connection."""

    label: str
    on: str = "a"


@dataclass(frozen=True)
class Await:
    """Ask until the answer is as wanted; only the last one counts. For what servers do in their own time."""

    asked: Ask
    until: Callable[[Any], bool]


@dataclass(frozen=True)
class SendBytes:
    """Bytes as they are, on a connection of their own: what comes back, or that it is closed.

    `answer` is the API key and version of the answer; without it, its bytes are compared.
    """

    label: str
    data: bytes
    answer: tuple[int, int] | None = None


Step: TypeAlias = Send | Receive | Await | SendBytes
Answer: TypeAlias = Any
Steps: TypeAlias = Generator[Step, Answer, Any]
Conversation: TypeAlias = Callable[[], Steps]


def conversations_of(*conversations: Conversation) -> Mapping[str, Conversation]:
    """By their names, as people read them."""
    return {conversation.__name__.replace("_", " "): conversation for conversation in conversations}
