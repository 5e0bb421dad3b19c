"""Somebody who asked for an item that is not there yet, and how the answer is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from barbicel.gateway.kestrel.session import Session
from barbicel.gateway.twisted_types import Timer
from barbicel.kestrel_compat.items import Item

if TYPE_CHECKING:
    from barbicel.gateway.kestrel.line_reader import LineReader

__all__ = ["TakeDone", "Waiter"]

# None is a miss.
TakeDone: TypeAlias = Callable[[Item | Exception | None], None]


class Waiter:
    """Without a session it only wants to look at the item."""

    __slots__ = ("done", "is_open", "is_patient", "reader", "session", "timer")

    def __init__(
        self, reader: LineReader, session: Session | None, *, is_open: bool, is_patient: bool, done: TakeDone
    ) -> None:
        self.reader = reader
        self.session = session
        self.is_open = is_open
        # Or else the answer is a miss as soon as it is known that there is nothing.
        self.is_patient = is_patient
        self.done = done
        self.timer: Timer | None = None

    def cancel(self) -> None:
        """The client is gone: no item may go to it."""
        if self.timer is not None and self.timer.active():
            self.timer.cancel()
        self.reader.forget(self)
