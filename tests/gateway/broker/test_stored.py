"""One partition in two places: reads across the border, and while it moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from barbicel.codecs.kafka.record_batch import decode_header
from barbicel.codecs.keratin_record import Payloads, encode_lost
from barbicel.errors import OffsetOutOfRange, StoreError
from barbicel.gateway.broker.stored import Stored
from barbicel.keratin import Log, LogSettings, NewRecord
from barbicel.tier.local_log import StoredBatch
from tests.tier.segments import T, batch

END = 8


class ListedStore:
    """A store that has all batches below an offset. `on_read` is called before one is read from it."""

    def __init__(self, log: Log, end_offset: int) -> None:
        self._log = log
        self.end_offset: int | None = end_offset
        self.start_offset = 0
        self.on_read: Callable[[], object] = lambda: None

    def read(self, offset: int, end_offset: int, max_bytes: int, *, at_least_one: bool) -> list[memoryview]:
        self.on_read()
        if offset < self.start_offset:
            raise OffsetOutOfRange(offset, self.start_offset, END, "/store")
        return [memoryview(batch(number)) for number in range(offset, min(end_offset, self.end_offset or 0))]

    def from_time(self, timestamp_ms: int, below_offset: int) -> Iterator[StoredBatch]:
        for number in range(self.start_offset, min(below_offset, self.end_offset or 0)):
            self.on_read()
            if T + number >= timestamp_ms:
                yield StoredBatch(number, T + number, memoryview(batch(number)))

    def max_timestamp_ms(self, below_offset: int) -> int:
        return T + min(below_offset, self.end_offset or 0) - 1 if below_offset else -1

    def drop_before(self, offset: int) -> None:
        self.start_offset = max(self.start_offset, offset)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """A record a segment: it can begin at any offset."""
    with Log.open(str(tmp_path / "log"), settings=LogSettings(segment_max_bytes=69)) as log:
        for number in range(END):
            log.append([NewRecord(batch(number), timestamp_ms=T + number)])
        yield log


def offsets(views: list[memoryview]) -> list[int]:
    return [decode_header(view).base_offset for view in views]


def test_without_a_store_the_log_is_all_there_is(log: Log) -> None:
    stored = Stored(log, None)
    log.truncate_before(3)
    assert (stored.start_offset, stored.is_remote(0)) == (3, False)
    assert offsets(stored.read(3, END, 1 << 20, at_least_one=True)) == [3, 4, 5, 6, 7]
    assert [found.offset for found in stored.from_time(T + 5)] == [5, 6, 7]
    with pytest.raises(OffsetOutOfRange):
        stored.read(2, END, 1 << 20, at_least_one=True)


def test_each_offset_comes_from_where_it_is(log: Log) -> None:
    stored = Stored(log, ListedStore(log, 5))
    log.truncate_before(4)
    assert (stored.start_offset, stored.is_remote(3), stored.is_remote(4)) == (0, True, False)
    assert offsets(stored.read(0, END, 1 << 20, at_least_one=True)) == [0, 1, 2, 3, 4]
    assert offsets(stored.read(4, END, 1 << 20, at_least_one=True)) == [4, 5, 6, 7]


def test_what_left_the_disk_between_two_looks_is_read_from_the_store(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = Stored(log, ListedStore(log, 5))
    true_read = log.read

    def read(offset: int, end_offset: int, max_bytes: int) -> Payloads:
        log.truncate_before(4)
        return true_read(offset, end_offset, max_bytes)

    monkeypatch.setattr(log, "read", read)
    assert offsets(stored.read(2, END, 1 << 20, at_least_one=True)) == [2, 3, 4]


def test_segments_are_read_one_after_the_other(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(log.segments) > 2
    monkeypatch.setattr(log, "scan", None)
    assert offsets(Stored(log, None).read(1, END - 1, 1 << 20, at_least_one=True)) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("number", range(6))
def test_what_leaves_the_disk_at_any_moment_of_a_read_is_not_left_out(
    log: Log, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The border moves after it was looked at so many times."""
    stored = Stored(log, ListedStore(log, 5))
    looks = 0
    true_start = Log.start_offset

    def start_offset(self: Log) -> int:
        nonlocal looks
        found: int = true_start.fget(self)  # type: ignore[attr-defined]  # a property, seen from its class
        looks += 1
        if looks == number + 1:
            self.truncate_before(4)
        return found

    monkeypatch.setattr(Log, "start_offset", property(start_offset))
    assert offsets(stored.read(2, END, 1 << 20, at_least_one=True))[:3] == [2, 3, 4]


@pytest.mark.parametrize("max_bytes", [1, 40, 1000])
def test_a_large_batch_behind_what_was_given_up_is_found(tmp_path: Path, max_bytes: int) -> None:
    path = tmp_path / "log"
    Log.open(str(path)).close()
    with next(path.glob("segments/*.log")).open("ab") as file:
        file.write(encode_lost(0, 5, T))
    with Log.open(str(path)) as log:
        log.append([NewRecord(bytes(100_000))])
        (found,) = Stored(log, None).read(0, log.end_offset, max_bytes, at_least_one=True)
        assert len(found) == 100_000


def test_a_search_by_time_misses_nothing_that_leaves_the_disk_meanwhile(log: Log) -> None:
    """The store is slow, and while it is read segments leave the disk."""
    remote = ListedStore(log, 6)
    stored = Stored(log, remote)
    log.truncate_before(2)
    borders = iter([3, 4, 5, 6])
    remote.on_read = lambda: log.truncate_before(next(borders, 6))
    assert [found.offset for found in stored.from_time(T)] == list(range(END))


def test_a_search_by_time_for_what_left_the_disk_meanwhile_finds_it(log: Log) -> None:
    remote = ListedStore(log, 6)
    stored = Stored(log, remote)
    log.truncate_before(2)
    remote.on_read = lambda: log.truncate_before(6)
    assert next(stored.from_time(T + 3)).offset == 3


def test_a_search_by_time_does_not_begin_again_when_a_segment_leaves_while_it_is_on_the_disk(
    log: Log,
) -> None:
    stored = Stored(log, ListedStore(log, 6))
    log.truncate_before(2)
    found = stored.from_time(T)
    seen = [next(found).offset for _ in range(3)]
    log.truncate_before(4)
    with suppress(OffsetOutOfRange):
        seen += [one.offset for one in found]
    assert seen == sorted(set(seen))


def test_the_latest_is_found_wherever_it_is(log: Log) -> None:
    remote = ListedStore(log, END)
    stored = Stored(log, remote)
    latest = stored.latest(END)
    assert latest is not None
    assert latest.offset == 7
    log.append([NewRecord(batch(8), timestamp_ms=1)])
    log.truncate_before(8)
    latest = stored.latest(9)
    assert latest is not None
    assert latest.offset == 7


def test_deleted_records_are_gone_in_both_places(log: Log) -> None:
    stored = Stored(log, ListedStore(log, 5))
    log.truncate_before(2)
    assert stored.drop_before(1) == 1
    assert log.start_offset == 2
    assert stored.drop_before(6) == 6
    assert log.start_offset == 6


def test_an_error_of_the_store_is_the_readers(log: Log) -> None:
    remote = ListedStore(log, 5)
    stored = Stored(log, remote)
    log.truncate_before(4)

    def fail() -> None:
        raise StoreError("away", is_passing=True)

    remote.on_read = fail
    with pytest.raises(StoreError, match="away"):
        stored.read(0, END, 1 << 20, at_least_one=True)
    assert offsets(stored.read(4, END, 1 << 20, at_least_one=True)) == [4, 5, 6, 7]
