"""Somebody who looks on while journals are read and queues are brought over."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
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
    """The queue that is being read, and the one that is being brought over."""

    def __init__(self, progress: Progress, verb: str) -> None:
        self._progress = progress
        self._verb = verb
        self._task = progress.add_task("", total=None)

    def replaying(self, queue: str, total_bytes: int) -> None:
        self._show(f"reading {queue}", total_bytes, "bytes")

    def replayed(self, passed_bytes: int) -> None:
        self._progress.advance(self._task, passed_bytes)

    def importing(self, queue: str, total_items: int) -> None:
        self._show(f"{self._verb} {queue}", total_items, "items")

    def imported(self, items: int) -> None:
        self._progress.advance(self._task, items)

    def _show(self, what: str, total: int, unit: str) -> None:
        self._progress.remove_task(self._task)
        self._task = self._progress.add_task(what, total=total, unit=unit)


@contextmanager
def watching(verb: str, *, is_quiet: bool) -> Iterator[Watch]:
    """Bars on the standard error, if it is a terminal and somebody looks."""
    if is_quiet or not sys.stderr.isatty():
        yield Quiet()
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), _Rate())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as progress:
        yield _Bars(progress, verb)
