"""Marks: batches say how far an import has come, whatever others append in between."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barbicel.codecs.kafka.new_batch import NewRecord, build_batch
from barbicel.gateway.migration import marks
from barbicel.gateway.migration.marks import (
    IMPORT_HEADER,
    Mark,
    StoredItem,
    cut_batches,
    imported_items,
    last_count,
    stored_item,
)
from barbicel.kestrel_compat.items import EXPIRY_HEADER, decode_stretch, new_record

OURS, OTHERS = "0123456789abcdef", "fedcba9876543210"


def records(number: int, size: int = 10) -> list[NewRecord]:
    return [new_record(b"%0*d" % (size, index), 0, None, None, index) for index in range(number)]


def as_stored(batches: Sequence[Sequence[NewRecord]], base: int = 0) -> list[StoredItem]:
    flat = [record for batch in batches for record in batch]
    return [
        stored_item(base + index, record.timestamp_ms, record.value or b"", record.headers)
        for index, record in enumerate(flat)
    ]


def test_the_last_record_of_a_batch_has_the_mark() -> None:
    (batch,) = cut_batches(records(3), OURS, 7)
    assert [record.headers for record in batch] == [(), (), ((IMPORT_HEADER, f"{OURS}:10".encode()),)]


def test_batches_are_bounded_in_bytes_and_records() -> None:
    assert [len(batch) for batch in cut_batches(records(9000), OURS)] == [4096, 4096, 808]
    large = list(cut_batches(records(3, marks.MAX_BATCH_BYTES), OURS))
    assert [len(batch) for batch in large] == [1, 1, 1]
    assert [stored.mark for stored in as_stored(large)] == [Mark(OURS, 1), Mark(OURS, 2), Mark(OURS, 3)]


@pytest.mark.parametrize(
    ("values", "expiry_ms"),
    [([b"5"], 5), ([b"9" * 21], None), ([b"9" * 5000], None), ([b"5", b"x"], None), ([b"x", b"5"], 5)],
)
def test_an_expiry_that_anybody_wrote_is_what_it_is_to_a_reader(
    values: list[bytes], expiry_ms: int | None
) -> None:
    """Or an export would give a queue other items than the gateway does, or none at all."""
    headers = tuple((EXPIRY_HEADER, value) for value in values)
    assert stored_item(0, 0, b"", headers).expiry_ms == expiry_ms
    batch = memoryview(build_batch([NewRecord(0, None, b"", headers)]))
    (item,) = decode_stretch([batch], 0, 1 << 20, 1 << 20).items
    assert item.expiry_ms == expiry_ms


def test_a_mark_that_somebody_has_put_into_the_topic_again_does_not_count() -> None:
    stored = as_stored([*cut_batches(records(9000), OURS)])
    assert last_count([*stored, stored[4095]], OURS) == 9000


def test_times_that_no_batch_can_hold_together_are_in_two() -> None:
    far = [new_record(b"x", 0, None, None, time) for time in (-(2**63), 2**63 - 1, 5)]
    batches = list(cut_batches(far, OURS))
    assert len(batches) == 3
    for batch in batches:
        build_batch(batch)


@pytest.mark.parametrize(
    "value", [None, b"", b"x", b"0123456789abcdef", b"0123456789ABCDEF:1", b"0123456789abcdef:-1"]
)
def test_what_is_no_mark_is_none(value: bytes | None) -> None:
    assert stored_item(0, 0, b"", ((IMPORT_HEADER, value),)).mark is None


def test_headers_are_read() -> None:
    record = new_record(b"data", 0, 99, frozenset({"kestrel", "kestrel+a"}), 5)
    assert stored_item(3, 5, b"data", record.headers) == StoredItem(
        3, b"data", 5, 99, frozenset({"kestrel", "kestrel+a"}), None
    )


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 4)), max_size=12))
def test_imported_items_are_found_between_others(turns: list[tuple[bool, int]]) -> None:
    mine: list[NewRecord] = []
    log: list[NewRecord] = []
    for is_mine, number in turns:
        fresh = [new_record(b"%d" % (len(log) + index), 0, None, None, 0) for index in range(number)]
        if is_mine:
            (batch,) = cut_batches(fresh, OURS, len(mine))
            mine += batch
            log += batch
        else:
            log += next(iter(cut_batches(fresh, OTHERS))) if number > 2 else fresh
    stored = as_stored([log])
    assert [item.data for item in imported_items(stored, OURS)] == [record.value for record in mine]
    assert last_count(stored, OURS) == len(mine)
