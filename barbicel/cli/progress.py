"""A bar on the standard error while a command works through something, if somebody looks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(
    what: str, total: int | None, *, is_quiet: bool, in_bytes: bool = False
) -> Iterator[Callable[[int], None]]:
    """What is given is to be called with how much further it is. Without a total there is no bar."""
    if is_quiet or total is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    done = DownloadColumn() if in_bytes else MofNCompleteColumn()
    text = TextColumn("{task.description}", markup=False)
    with Progress(
        text, BarColumn(), done, TimeRemainingColumn(), console=Console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task(what, total=total)
        yield lambda step: bar.advance(task, step)
