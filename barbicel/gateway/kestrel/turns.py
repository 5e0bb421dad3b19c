"""The events of all lines, written a turn of the reactor at a time, and the answers that wait for that.

While one turn is being written the next one gathers, so the more there is to do the more goes in one write.
Reactor thread only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from twisted.python.failure import Failure

from barbicel.codecs.stroma_events import Event
from barbicel.errors import BarbicelError
from barbicel.gateway.broker.consumption import Errors
from barbicel.gateway.broker.queue_groups import QueueGroups
from barbicel.gateway.twisted_types import Reactor
from barbicel.stroma import GroupKey

__all__ = ["EventSource", "Turns"]

_log = logging.getLogger(__name__)


class EventSource(Protocol):
    """A line, as far as its events go."""

    @property
    def key(self) -> GroupKey: ...

    def take_events(self) -> list[Event]:
        """Raises BarbicelError if they must not be written any more."""

    def fail(self, error: BarbicelError) -> None:
        """Its events could not be written: what it holds in memory is not what counts."""


_Answer: TypeAlias = tuple[EventSource | None, Callable[[Any], None], Any]


class Turns:
    """See the module."""

    def __init__(self, groups: QueueGroups, reactor: Reactor) -> None:
        self._groups = groups
        self._reactor = reactor
        self._touched: dict[EventSource, None] = {}
        # What waits for the next turn to be written, and for the one that is being written.
        self._answers: list[_Answer] = []
        self._being_written: list[_Answer] = []
        self._is_scheduled = False
        self._is_writing = False

    def touch(self, source: EventSource) -> None:
        """The line has events."""
        self._touched[source] = None
        if not self._is_scheduled and not self._is_writing:
            self._is_scheduled = True
            self._reactor.callLater(0, self._write)

    def answer(self, source: EventSource, done: Callable[[Any], None], value: Any) -> None:
        """Call `done` with the value once the line's events are written, or with the error."""
        self._touched[source] = None
        self._answers.append((source, done, value))
        if not self._is_scheduled and not self._is_writing:
            self._is_scheduled = True
            self._reactor.callLater(0, self._write)

    def settled(self, done: Callable[[Exception | None], None]) -> None:
        """Call `done` once everything that happened so far is written; at once if it is."""
        if self._touched:
            self._answers.append((None, done, None))
        elif self._is_writing:
            self._being_written.append((None, done, None))
        else:
            done(None)

    def _write(self) -> None:
        self._is_scheduled = False
        touched, self._touched = self._touched, {}
        self._being_written, self._answers = self._answers, []
        turn: list[tuple[GroupKey, list[Event]]] = []
        lost: dict[EventSource, BarbicelError] = {}
        for source in touched:
            try:
                if events := source.take_events():
                    turn.append((source.key, events))
            except BarbicelError as error:
                lost[source] = error
        self._is_writing = True
        if turn:
            self._groups.record(turn).addCallbacks(
                lambda errors: self._written(touched, lost, errors),
                lambda failure: self._written(touched, lost, _all_failed(touched, failure)),
            )
        else:
            self._written(touched, lost, {})

    def _written(
        self, touched: dict[EventSource, None], lost: dict[EventSource, BarbicelError], errors: Errors
    ) -> None:
        answers, self._being_written = self._being_written, []
        self._is_writing = False
        if errors:
            for source in touched:
                if source.key in errors:
                    lost[source] = errors[source.key]
                    source.fail(errors[source.key])
        _answer_all(answers, lost)
        if self._touched and not self._is_scheduled:
            self._is_scheduled = True
            self._reactor.callLater(0, self._write)


def _answer_all(answers: list[_Answer], lost: dict[EventSource, BarbicelError]) -> None:
    """One that raises keeps nobody else from their answer."""
    any_error = next(iter(lost.values()), None)
    left = iter(answers)
    while True:
        try:
            for asker, done, value in left:
                if asker is None:
                    done(any_error)
                else:
                    done(lost.get(asker, value) if lost else value)
            return
        except Exception:
            _log.exception("somebody could not be answered")


def _all_failed(touched: dict[EventSource, None], failure: Failure) -> Errors:
    error = failure.value
    if not isinstance(error, BarbicelError):
        error = BarbicelError(f"events could not be written: {error!r}")
    return {source.key: error for source in touched}
