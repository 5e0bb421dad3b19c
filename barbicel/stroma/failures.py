"""Groups whose last write or sync failed, until their state lies in fresh files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from barbicel.errors import BarbicelError
from barbicel.stroma.names import GroupKey

__all__ = ["RETRY_MS", "FailedGroups", "Failure", "errors_of"]

# A group that could not be read or written is tried again after this time.
RETRY_MS = 1000


class Failure(NamedTuple):
    """What went wrong last, and which events it puts in doubt."""

    error: BarbicelError
    # When the oldest event that may not be durable was written; None if there is none.
    since_ms: int | None
    retry_ms: int


class FailedGroups:
    """A group is in it from its first failure to its recovery."""

    def __init__(self) -> None:
        self._failures: dict[GroupKey, Failure] = {}

    def __contains__(self, key: GroupKey) -> bool:
        return key in self._failures

    def note(self, key: GroupKey, error: BarbicelError, since_ms: int | None, now_ms: int) -> None:
        """The first failure may be tried again at once; what keeps failing waits in between."""
        known = self._failures.get(key)
        if known is None:
            self._failures[key] = Failure(error, since_ms, now_ms)
        else:
            self._failures[key] = Failure(error, _earlier(known.since_ms, since_ms), now_ms + RETRY_MS)

    def discard(self, key: GroupKey) -> None:
        self._failures.pop(key, None)

    def is_due(self, key: GroupKey, now_ms: int) -> bool:
        """Whether it is to be tried again. A clock that was set back holds nothing up."""
        return not 0 < self._failures[key].retry_ms - now_ms <= RETRY_MS

    def due(self, now_ms: int) -> list[GroupKey]:
        return [key for key in self._failures if self.is_due(key, now_ms)]

    @property
    def in_doubt(self) -> list[GroupKey]:
        """Those with events that may not be durable."""
        return [key for key, failure in self._failures.items() if failure.since_ms is not None]

    @property
    def since_ms(self) -> int | None:
        """When the oldest event that may not be durable was written."""
        found = (failure.since_ms for failure in self._failures.values())
        return min((since for since in found if since is not None), default=None)

    @property
    def errors(self) -> dict[GroupKey, BarbicelError]:
        return {key: failure.error for key, failure in self._failures.items()}


def errors_of(run: Callable[[GroupKey], None], keys: Iterable[GroupKey]) -> list[BarbicelError]:
    """Run it for every key, whatever happens to the others."""
    errors: list[BarbicelError] = []
    for key in keys:
        try:
            run(key)
        except BarbicelError as error:
            errors.append(error)
    return errors


def _earlier(one: int | None, other: int | None) -> int | None:
    return min((since for since in (one, other) if since is not None), default=None)
