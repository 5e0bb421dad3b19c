"""Where in a partition: its beginning, its end, an offset, or a time."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, NamedTuple

import click
from kafka.admin import OffsetSpec, OffsetTimestamp

from barbicel.clock import wall_clock_ms

__all__ = ["WHERE_HELP", "Place", "parse_place", "place_given"]

WHERE_HELP = "beginning, end, an offset, a time (2026-05-01T12:00, UTC unless it says otherwise), or -15m"

_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGO = re.compile(r"-([0-9]{1,9})([smhd])", re.ASCII)
_OFFSET = re.compile(r"[0-9]{1,18}", re.ASCII)


class Place(NamedTuple):
    """One of the three; without any it is the beginning."""

    offset: int | None = None
    time_ms: int | None = None
    is_end: bool = False

    @property
    def is_point(self) -> bool:
        """An offset or a time."""
        return self.offset is not None or self.time_ms is not None

    def spec(self) -> Any:
        """What kafka-python is asked for."""
        if self.offset is not None:
            return self.offset
        if self.time_ms is not None:
            return OffsetTimestamp(self.time_ms)
        return OffsetSpec.LATEST if self.is_end else OffsetSpec.EARLIEST


def parse_place(text: str, now_ms: int) -> Place:
    """Raises ValueError."""
    if text == "beginning":
        return Place()
    if text == "end":
        return Place(is_end=True)
    if _OFFSET.fullmatch(text):
        return Place(offset=int(text))
    if ago := _AGO.fullmatch(text):
        return Place(time_ms=max(0, now_ms - int(ago[1]) * _UNITS_MS[ago[2]]))
    moment = datetime.fromisoformat(text)
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return Place(time_ms=int(moment.timestamp() * 1000))


def place_given(ctx: click.Context, param: click.Parameter, value: str | None) -> Place | None:
    """The callback of an option."""
    if value is None:
        return None
    try:
        return parse_place(value, wall_clock_ms())
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{value!r} is none of: {WHERE_HELP}", ctx, param) from None
