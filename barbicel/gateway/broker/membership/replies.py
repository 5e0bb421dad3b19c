"""Answers on their way: each is given exactly once, and only when the state it speaks of is complete.

Whoever gets an answer may ask the next thing at once. So answers are collected while a group changes and
handed out after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["Outbox", "PendingReply"]

Answer = TypeVar("Answer")


class PendingReply(Generic[Answer]):
    """One question's answer, now or later."""

    __slots__ = ("_receive", "is_answered")

    def __init__(self, receive: Callable[[Answer], None]) -> None:
        self._receive: Callable[[Answer], None] | None = receive
        self.is_answered = False

    def forget(self) -> None:
        """Nobody is left to read the answer. The member waits on: a lost connection ends no session."""
        self._receive = None

    def send(self, answer: Answer) -> None:
        receive, self._receive = self._receive, None
        if receive is not None:
            receive(answer)


class Outbox:
    __slots__ = ("_queue",)

    def __init__(self) -> None:
        # A reply and its own kind of answer: `put` is where the types meet.
        self._queue: deque[tuple[PendingReply[Any], Any]] = deque()

    def put(self, reply: PendingReply[Answer], answer: Answer) -> None:
        assert not reply.is_answered, "a question was answered twice"
        reply.is_answered = True
        self._queue.append((reply, answer))

    def deliver(self) -> None:
        """Hand out everything. One receiver's failure keeps no answer from the others."""
        failures: list[Exception] = []
        while self._queue:
            reply, answer = self._queue.popleft()
            try:
                reply.send(answer)
            except Exception as failure:
                failures.append(failure)
        if failures:
            raise ExceptionGroup("an answer could not be handed out", failures)
