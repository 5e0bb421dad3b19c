"""The place of one answer in the order of a connection."""

from __future__ import annotations

from barbicel.gateway.kafka.api import Api, Call, Pieces

__all__ = ["Slot"]


class Slot:
    """`head` stands in front of the answer, `size` is the request's."""

    __slots__ = ("answer", "api", "call", "head", "is_alone", "is_done", "size")

    def __init__(self, api: Api, call: Call, head: bytes, size: int) -> None:
        self.api = api
        self.call = call
        self.head = head
        self.size = size
        # While this is under way, nothing after it is served.
        self.is_alone = api.is_alone
        self.is_done = False
        self.answer: Pieces = ()

    @property
    def is_only_waiting(self) -> bool:
        """Nothing is under way for it but the wait for something to happen."""
        return self.call.on_lost is not None and not self.is_done
