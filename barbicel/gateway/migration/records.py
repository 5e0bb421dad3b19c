"""The items of replayed lines as the records that are to be stored, each with whom it is for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from barbicel.codecs.kafka.new_batch import NewRecord
from barbicel.gateway.migration.merge import Merged, merge
from barbicel.gateway.migration.target import MAX_ITEM_BYTES
from barbicel.kestrel_compat.items import Audience, new_record
from barbicel.kestrel_compat.journals.queue import JournalItem, LargeItem, ReplayedQueue

__all__ = ["Audiences", "Skipped", "new_records", "storable_expiry", "storable_records", "storable_time"]

# The tuple's own constructor is Python, and this is done for every item.
_new = tuple.__new__


class Skipped(NamedTuple):
    """An item that was not imported."""

    file: str
    position: int
    what: str


def new_records(
    lines: Sequence[ReplayedQueue], audiences: Audiences, stored: int, skip: Callable[[Skipped], None]
) -> Iterator[NewRecord]:
    """What is to be stored behind the first so many."""
    if len(lines) == 1:
        return islice(_line_records(lines[0].items, audiences, skip), stored, None)
    merged = storable_records(lines, skip)
    for one in islice(merged, stored):
        audiences.of(one.lines)
    return _records(merged, audiences)


def _line_records(
    items: Iterable[JournalItem], audiences: Audiences, skip: Callable[[Skipped], None]
) -> Iterator[NewRecord]:
    """Most queues have one line, and nothing to merge: each step less is a tenth of the time."""
    audience = audiences.of((0,))
    audiences.take_count()
    for item in items:
        if item.__class__ is LargeItem:
            skip(_too_large(item))
            continue
        data, added_ms, expiry_ms, _, _ = item
        audiences.count += 1
        if expiry_ms is None and audience is None:
            yield _new(NewRecord, (added_ms if added_ms >= 0 else 0, None, data, ()))
        else:
            yield new_record(data, 0, storable_expiry(expiry_ms), audience, storable_time(added_ms))


def storable_records(
    lines: Sequence[ReplayedQueue], skip: Callable[[Skipped], None] = lambda skipped: None
) -> Iterator[Merged]:
    """What is to be stored of these lines, in order, always the same."""
    return merge([_storable(line.items, skip) for line in lines])


def _storable(items: Iterable[JournalItem], skip: Callable[[Skipped], None]) -> Iterator[JournalItem]:
    for item in items:
        if isinstance(item, LargeItem):
            skip(_too_large(item))
        else:
            yield item


def _too_large(item: LargeItem) -> Skipped:
    what = f"an item of {item.size_bytes:,} bytes, {MAX_ITEM_BYTES:,} is the most that a log takes"
    return Skipped(item.file, item.position, what)


def storable_expiry(expiry_ms: int | None) -> int | None:
    """A header has no room for what is before 1970, and it is past in any case."""
    return None if expiry_ms is None else max(expiry_ms, 1)


def storable_time(added_ms: int) -> int:
    """Kafka has no time before 1970."""
    return max(added_ms, 0)


class Audiences:
    """Lines' numbers → for whom a record is; counts what it was asked for."""

    def __init__(self, groups: Sequence[str], of_queue: frozenset[str]) -> None:
        self._groups = groups
        self._of_queue = of_queue
        self._known: dict[tuple[int, ...], Audience] = {}
        self.count = 0

    def of(self, lines: tuple[int, ...]) -> Audience:
        self.count += len(lines)
        if lines not in self._known:
            chosen = frozenset(self._groups[number] for number in lines)
            self._known[lines] = None if chosen >= self._of_queue else chosen
        return self._known[lines]

    def take_count(self) -> int:
        count, self.count = self.count, 0
        return count


def _records(merged: Iterable[Merged], audiences: Audiences) -> Iterator[NewRecord]:
    of = audiences.of
    for (data, added_ms, expiry_ms, _, _), lines in merged:
        yield new_record(data, 0, storable_expiry(expiry_ms), of(lines), storable_time(added_ms))
