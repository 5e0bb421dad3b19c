"""What a check finds, and what it looks at. A check changes nothing but for a file that it removes again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from barbicel.config.settings import Config
from barbicel.disk import Disk
from barbicel.gateway.broker.data_layout import DataLayout

__all__ = ["Check", "Finding", "Level", "Subject"]


class Level(IntEnum):
    """How bad it is; the number is the exit code that is due."""

    OK = 0
    # It works, and could be better.
    WARNING = 1
    # A server would not start, or would not keep what it promises.
    FAULT = 3


class Finding(NamedTuple):
    """`advice` is what to do; None where there is nothing to do."""

    level: Level
    what: str
    advice: str | None = None


class Subject(NamedTuple):
    """A machine, and a data directory with the settings that a server on it would have."""

    disk: Disk
    config: Config
    layout: DataLayout
    # The process that serves the directory now, as Disk.lock_holder tells it.
    holder: str | None
    # Read every record.
    is_deep: bool


Check: TypeAlias = Callable[[Subject], Iterator[Finding]]
