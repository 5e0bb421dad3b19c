"""Cold reads: every offset and limit, memory, one load for many, reading ahead. See test_cold_damage.py."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from weakref import ref

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barbicel.codecs.kafka.record_batch import decode_header
from barbicel.errors import StoreError
from barbicel.tier.cold_reader import TieredSegment
from tests.tier.segments import (
    BLOCK,
    MIB,
    WatchedStore,
    batch,
    batches_of,
    put_segment,
    read_all,
    read_on,
    reader_of,
)

WAIT_SECONDS = 10


@pytest.fixture
def store(tmp_path: Path) -> WatchedStore:
    return WatchedStore(tmp_path)


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(WAIT_SECONDS * 1000):
        if condition():
            return
        threading.Event().wait(0.001)
    raise AssertionError("that did not happen")


# --- what is read ---------------------------------------------------------------------------------


def test_who_was_given_a_little_of_a_block_does_not_keep_all_of_it_in_memory(store: WatchedStore) -> None:
    """Any number of slow consumers, each with one batch of another block, would be out of every budget."""
    batches = batches_of(60)
    segment = put_segment(store, batches)
    with reader_of(store, block_bytes=MIB) as reader:
        (little,) = reader.read([segment], 300, 600, 1, at_least_one=True)
        much = reader.read([segment], 10, 600, MIB, at_least_one=True)
    assert bytes(little) == batches[30]
    assert memoryview(little.obj).nbytes == len(batches[30])
    assert read_all(much) == batches[1:]
    assert {memoryview(view.obj).nbytes for view in much} == {sum(map(len, batches))}  # not copied


@pytest.mark.parametrize("block_bytes", [300, BLOCK, MIB])
def test_every_offset_begins_with_its_batch(store: WatchedStore, block_bytes: int) -> None:
    batches = batches_of(60)
    segment = put_segment(store, batches)
    with reader_of(store, block_bytes=block_bytes) as reader:
        for offset in range(600):
            assert (
                read_all(reader.read([segment], offset, 600, MIB, at_least_one=True))
                == batches[offset // 10 :]
            )
        assert reader.maps.damaged == 0


@pytest.mark.parametrize("max_bytes", [1, 700, 5000, 20_000, MIB])
def test_reading_on_through_segments(store: WatchedStore, max_bytes: int) -> None:
    batches = batches_of(90)
    segments = [
        put_segment(store, batches[first : first + 30], name=f"s{first}") for first in range(0, 90, 30)
    ]
    with reader_of(store, threads=2) as reader:
        assert list(read_on(reader, segments, 0, max_bytes)) == batches


def test_limits(store: WatchedStore) -> None:
    batches = batches_of(20)
    segment, size = put_segment(store, batches), len(batches[0])
    assert {len(item) for item in batches} <= {size - 1, size, size + 1}
    with reader_of(store) as reader:

        def count(end_offset: int, max_bytes: int, at_least_one: bool) -> int:
            return len(reader.read([segment], 50, end_offset, max_bytes, at_least_one=at_least_one))

        assert count(200, 3 * size + 10, True) == 3
        assert count(200, 0, True) == 1
        assert count(200, 0, False) == 0
        assert count(200, size - 5, False) == 0
        assert count(71, MIB, True) == 3
        assert count(70, MIB, True) == 2
        assert count(50, MIB, True) == 0
        assert reader.read([], 0, 10, MIB, at_least_one=True) == []
        assert reader.read([segment], 200, 300, MIB, at_least_one=True) == []


@pytest.mark.parametrize("block_bytes", [300, BLOCK, MIB])
def test_gaps_in_between_before_and_behind(store: WatchedStore, block_bytes: int) -> None:
    batches = [batch(base, 10) for base in (20, 30, 70, 80, 500)]
    segment = put_segment(store, batches, base_offset=5, end_offset=600)
    later = put_segment(store, [batch(700, 10)], name="later")
    starts = {0: 0, 5: 0, 29: 0, 30: 1, 40: 2, 69: 2, 70: 2, 79: 2, 90: 4, 509: 4}
    with reader_of(store, block_bytes=block_bytes) as reader:
        for offset, first in starts.items():
            found = read_all(reader.read([segment, later], offset, 1000, MIB, at_least_one=True))
            assert found == [*batches[first:], batch(700, 10)]
        for offset in (510, 599, 650, 700):
            found = read_all(reader.read([segment, later], offset, 1000, MIB, at_least_one=True))
            assert found == [batch(700, 10)]
        assert reader.maps.damaged == 0


@pytest.mark.parametrize("max_bytes", [0, 1])
def test_who_asks_for_next_to_nothing_passes_a_gap_at_the_end_of_a_block(
    store: WatchedStore, max_bytes: int
) -> None:
    batches = [*batches_of(10), batch(101, 1)]
    segment = put_segment(store, batches)
    with reader_of(store, block_bytes=100) as reader:
        assert list(read_on(reader, [segment], 0, max_bytes)) == batches
        assert reader.read([segment], 100, 200, 0, at_least_one=False) == []


def test_batch_larger_than_a_block(store: WatchedStore) -> None:
    batches = [batch(0, 1, 10_000), batch(1, 1, 50), batch(2, 1, 30_000), batch(3, 1, 20), batch(4, 1, 9000)]
    segment = put_segment(store, batches)
    with reader_of(store) as reader:
        for offset in range(5):
            assert list(read_on(reader, [segment], offset, 100)) == batches[offset:]


def test_hole_in_the_index_is_walked_through_once(store: WatchedStore) -> None:
    """99 messages fit between two entries, however large they are."""
    batches = [batch(number, 1, 3000) for number in range(99)]
    segment = put_segment(store, batches)
    with reader_of(store, cache_bytes=3 * BLOCK) as reader:
        assert list(read_on(reader, [segment], 0, 4000)) == batches
        loaded = sum(length or 0 for key, _, length in store.gets if key == segment.key)
        assert loaded < 3 * segment.object_bytes
        store.gets.clear()
        assert read_all(reader.read([segment], 77, 78, MIB, at_least_one=True)) == [batches[77]]
        assert len(store.gets) <= 2


def test_epochs_that_rise_are_no_doubt_and_others_are_settled(store: WatchedStore) -> None:
    rising = [batch(number * 10, 10, leader_epoch=number // 18) for number in range(60)]
    falling = [batch(number * 10, 10, leader_epoch=-1 if number % 2 else 0) for number in range(60)]
    with reader_of(store) as reader:
        for name, batches, settled in (("rising", rising, 0), ("falling", falling, 1)):
            segment = put_segment(store, batches, name=name)
            assert list(read_on(reader, [segment], 0, 1000)) == batches
            assert reader.maps.settled == settled
        assert reader.maps.damaged == 0


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 40), st.integers(0, 600)), min_size=1, max_size=40
    ),
    block_bytes=st.integers(100, 5000),
    cache_bytes=st.integers(0, 20_000),
    max_bytes=st.integers(0, 5000),
    data=st.data(),
)
def test_any_segment(
    tmp_path: Path,
    steps: list[tuple[int, int, int]],
    block_bytes: int,
    cache_bytes: int,
    max_bytes: int,
    data: st.DataObject,
) -> None:
    batches, offset = [], 0
    for gap, count, value_bytes in steps:
        batches.append(batch(offset + gap, count, value_bytes))
        offset += gap + count
    store = WatchedStore(tmp_path)
    segment = put_segment(store, batches, base_offset=0)
    start = data.draw(st.integers(0, offset - 1))
    expected = [item for item in batches if decode_header(memoryview(item)).end_offset > start]
    with reader_of(
        store, block_bytes=block_bytes, cache_bytes=cache_bytes, index_bytes=cache_bytes
    ) as reader:
        assert list(read_on(reader, [segment], start, max_bytes)) == expected
        assert read_all(reader.batches(segment)) == batches


# --- memory, threads, reading ahead ---------------------------------------------------------------


def test_memory_is_bounded_whatever_the_size(store: WatchedStore) -> None:
    template = batch(0, 1, 50_000)
    batches = [number.to_bytes(8, "big") + template[8:] for number in range(500)]
    segment = put_segment(store, batches)
    del batches
    budget = 3 * MIB
    with reader_of(store, block_bytes=MIB // 2, cache_bytes=budget) as reader:
        gc.collect()
        tracemalloc.start()
        try:
            count = sum(1 for _ in read_on(reader, [segment], 0, 200_000))
            count += sum(1 for _ in reader.batches(segment))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert reader.blocks.held_bytes <= budget
    assert count == 1000
    assert segment.object_bytes > 23 * MIB
    assert peak < budget + 4 * MIB


def test_view_keeps_its_block_alive_and_nothing_else(store: WatchedStore) -> None:
    batches = batches_of(60)
    segment = put_segment(store, batches)
    with reader_of(store, cache_bytes=0) as reader:
        (view, *_) = reader.read([segment], 0, 600, MIB, at_least_one=True)
        assert isinstance(view.obj, bytes)
        assert len(view.obj) <= BLOCK
    gone = ref(reader)
    del reader
    gc.collect()
    assert gone() is None
    assert bytes(view) == batches[0]


def test_second_read_asks_nothing_of_the_store(store: WatchedStore) -> None:
    batches = batches_of(60)
    segment = put_segment(store, batches)
    with reader_of(store, block_bytes=2 * BLOCK) as reader:
        assert list(read_on(reader, [segment], 0, 3000)) == batches
        loaded = [(start, length) for key, start, length in store.gets if key == segment.key]
        assert len(loaded) == len(set(loaded)), "no block is loaded twice"
        assert sum(length or 0 for _, length in loaded) == segment.object_bytes - 48
        store.gets.clear()
        assert list(read_on(reader, [segment], 0, 3000)) == batches
        assert store.gets == []


def test_small_segment_is_one_request(store: WatchedStore) -> None:
    segment = put_segment(store, batches_of(5))
    with reader_of(store) as reader:
        assert len(reader.read([segment], 0, 50, MIB, at_least_one=True)) == 5
        assert store.gets == [(segment.key, 0, segment.object_bytes)]


def test_many_threads_share_one_load(store: WatchedStore) -> None:
    batches = batches_of(60)
    segment = put_segment(store, batches)
    may_go_on = threading.Event()
    store.on_get = lambda key, start: (
        None if may_go_on.wait(WAIT_SECONDS) else pytest.fail("nobody let it go")
    )
    results: list[list[bytes]] = []
    with reader_of(store) as reader:

        def work() -> None:
            results.append(read_all(reader.read([segment], 0, 10, MIB, at_least_one=True)))

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        wait_for(lambda: reader.maps.cache.joins == 5)
        may_go_on.set()
        for thread in threads:
            thread.join(WAIT_SECONDS)
    assert results == [batches[:1]] * 6
    assert len(store.gets) == 2, "the index and one block"


def positions_read(store: WatchedStore, segment: TieredSegment) -> set[int]:
    return {start for key, start, _ in store.gets if key == segment.key}


def test_who_reads_on_finds_the_next_blocks_loaded(store: WatchedStore) -> None:
    """120 batches are twelve blocks."""
    firsts = (0, 1200, 2400, 3600)
    segments = [put_segment(store, batches_of(120, first_offset=first), name=f"s{first}") for first in firsts]
    with reader_of(store, threads=2, block_bytes=2 * BLOCK) as reader:
        reader.read(segments, 0, 4800, 100, at_least_one=True)
        wait_for(lambda: reader.readahead.asked == 8 and reader.readahead.waiting == 0)
        assert len(positions_read(store, segments[0])) == 1 + 8
        assert positions_read(store, segments[1]) == set()
        assert len(list(read_on(reader, segments[:1], 0, 100))) == 120
        reader.read(segments, 1190, 4800, 100, at_least_one=True)
        reader.read(segments[1:], 1200, 4800, 100, at_least_one=True)
        wait_for(lambda: reader.readahead.waiting == 0)
        assert len(positions_read(store, segments[1])) == 1 + 8
        assert list(read_on(reader, segments, 0, 5000)) == batches_of(480)
        assert reader.readahead.failures == 0


def test_first_blocks_of_the_next_segments_are_loaded_at_the_end_of_one(store: WatchedStore) -> None:
    firsts = (0, 300, 600, 900)
    segments = [put_segment(store, batches_of(30, first_offset=first), name=f"s{first}") for first in firsts]
    with reader_of(store, threads=2, block_bytes=2 * BLOCK) as reader:
        reader.read(segments, 0, 1200, 100, at_least_one=True)
        wait_for(lambda: reader.readahead.asked == 4 and reader.readahead.waiting == 0)
        assert [len(positions_read(store, segment)) for segment in segments] == [3, 1, 1, 0]


def test_who_reads_here_and_there_causes_no_reading_ahead(store: WatchedStore) -> None:
    segment = put_segment(store, batches_of(300))
    with reader_of(store, threads=2) as reader:
        for offset in (1505, 700, 2200):
            reader.read([segment], offset, 3000, 100, at_least_one=True)
        assert reader.readahead.asked == 0


def test_small_cache_is_not_read_ahead_into(store: WatchedStore) -> None:
    segment = put_segment(store, batches_of(60))
    with reader_of(store, threads=2, cache_bytes=2 * BLOCK) as reader:
        assert list(read_on(reader, [segment], 0, 1000)) == batches_of(60)
        assert reader.readahead.asked == 0


def test_failure_ahead_is_told_to_who_gets_there(store: WatchedStore) -> None:
    batches = batches_of(60)
    segment = put_segment(store, batches)

    def fail(key: str, start: int) -> None:
        if key == segment.key and start > 2 * BLOCK:
            raise StoreError("the store is away", is_passing=True)

    store.on_get = fail
    with reader_of(store, threads=2) as reader:
        assert read_all(reader.read([segment], 0, 600, 1000, at_least_one=True)) == batches[:1]
        wait_for(lambda: reader.readahead.failures > 0)
        wait_for(lambda: reader.readahead.waiting == 0)
        with pytest.raises(StoreError, match="away"):
            list(read_on(reader, [segment], 0, 1000))
        store.on_get = lambda key, start: None
        assert list(read_on(reader, [segment], 0, 1000)) == batches


def test_close_does_not_wait_for_what_has_not_begun(store: WatchedStore) -> None:
    segment = put_segment(store, batches_of(60))
    held, go_on = threading.Event(), threading.Event()

    def hold(key: str, start: int) -> None:
        if threading.current_thread().name.startswith("barbicel-readahead"):
            held.set()
            assert go_on.wait(WAIT_SECONDS)

    store.on_get = hold
    reader = reader_of(store, threads=1)
    reader.read([segment], 0, 600, 100, at_least_one=True)
    assert held.wait(WAIT_SECONDS)
    closing = threading.Thread(target=reader.close)
    closing.start()
    go_on.set()
    closing.join(WAIT_SECONDS)
    assert not closing.is_alive()
    count = len(store.gets)
    assert count <= 4
    reader.read([segment], 0, 600, 100, at_least_one=True)
    assert reader.readahead.asked <= 8
