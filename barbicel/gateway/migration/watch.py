"""Somebody who looks on while journals are read and queues are brought over."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

__all__ = ["Quiet", "Watch", "watching"]


class Watch(Protocol):
    def replaying(self, queue: str, total_bytes: int) -> None: ...

    def replayed(self, passed_bytes: int) -> None: ...

    def importing(self, queue: str, total_items: int) -> None: ...

    def imported(self, items: int) -> None: ...


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        unit = task.fields.get("unit", "")
        return Text("" if task.speed is None else f"{task.speed:,.0f} {unit}/s")


class Quiet:
    def replaying(self, queue: str, total_bytes: int) -> None: ...

    def replayed(self, passed_bytes: int) -> None: ...

    def importing(self, queue: str, total_items: int) -> None: ...

    def imported(self, items: int) -> None: ...


class _Bars:
    """The queue that is being read, then brought over; above it all of them, if there are several.

    Of the whole, a queue is as much as its journals have bytes, and it passes as its items do.
    """

    def __init__(self, progress: Progress, verb: str, sizes_bytes: Sequence[int]) -> None:
        self._progress = progress
        self._verb = verb
        self._whole: TaskID | None = None
        if len(sizes_bytes) > 1:
            self._whole = progress.add_task("all queues", total=sum(sizes_bytes), unit="bytes")
        self._queue_bytes = self._queue_items = self._left_bytes = 0
        self._task = progress.add_task("", total=None, visible=False)

    def replaying(self, queue: str, total_bytes: int) -> None:
        self._pass(self._left_bytes)  # a queue that had no items, or failed
        self._queue_bytes = self._left_bytes = total_bytes
        self._show(f"reading {queue}", total_bytes, "bytes")

    def replayed(self, passed_bytes: int) -> None:
        self._progress.advance(self._task, passed_bytes)

    def importing(self, queue: str, total_items: int) -> None:
        self._queue_items = total_items
        self._show(f"{self._verb} {queue}", total_items, "items")

    def imported(self, items: int) -> None:
        self._progress.advance(self._task, items)
        self._pass(min(self._left_bytes, items * self._queue_bytes // max(1, self._queue_items)))

    def _pass(self, passed_bytes: int) -> None:
        self._left_bytes -= passed_bytes
        if self._whole is not None:
            self._progress.advance(self._whole, passed_bytes)

    def _show(self, what: str, total: int, unit: str) -> None:
        self._progress.remove_task(self._task)
        self._task = self._progress.add_task(what, total=total, unit=unit)


@contextmanager
def watching(verb: str, sizes_bytes: Sequence[int], *, is_quiet: bool) -> Iterator[Watch]:
    """Bars on the standard error, if it is a terminal and somebody looks, for queues of these sizes."""
    if is_quiet or not sys.stderr.isatty():
        yield Quiet()
        return
    with Progress(*_columns(), console=Console(stderr=True), transient=True) as progress:
        yield _Bars(progress, verb, sizes_bytes)


def _columns() -> list[ProgressColumn]:
    text = TextColumn("{task.description}", markup=False)
    return [text, BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn()]
