"""Cold reads of damaged segments and indexes: what is wrong is told, and what is right is still read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barbicel.errors import CorruptObject, ObjectMissing, StoreError
from barbicel.tier.cold_reader import ColdReader, TieredSegment
from tests.tier.segments import (
    MIB,
    WatchedStore,
    batches_of,
    flipped,
    object_bytes,
    put_segment,
    read_all,
    read_on,
    reader_of,
    same,
)


@pytest.fixture
def store(tmp_path: Path) -> WatchedStore:
    return WatchedStore(tmp_path)


def read_one(reader: ColdReader, segment: TieredSegment, offset: int) -> list[bytes] | CorruptObject:
    try:
        return read_all(reader.read([segment], offset, offset + 1, MIB, at_least_one=True))
    except CorruptObject as problem:
        return problem


@pytest.mark.parametrize("block_bytes", [600, MIB])
def test_flipped_byte_anywhere_costs_its_batches_and_no_others(tmp_path: Path, block_bytes: int) -> None:
    """The index knows every tenth batch, so that is how much one damage can take."""
    batches = batches_of(30, value_bytes=10)
    content, _ = object_bytes(batches)
    ends = [32 + sum(map(len, batches[: number + 1])) for number in range(30)]
    for position in range(0, len(content), 83):
        store = WatchedStore(tmp_path)
        segment = put_segment(store, batches, segment=flipped(content, position, 0x20))
        damaged = next((number for number, end in enumerate(ends) if position < end), 30)
        with reader_of(store, block_bytes=block_bytes) as reader:
            for number in sorted({0, 9, 10, 29, max(damaged - 1, 0), min(damaged, 29), min(damaged + 1, 29)}):
                found, item = read_one(reader, segment, number * 10), batches[number]
                if isinstance(found, CorruptObject):
                    assert found.key == segment.key
                    assert found.first_offset <= number * 10 < found.end_offset
                    assert 32 <= position < ends[-1]
                    assert number // 10 == damaged // 10
                    assert number >= damaged - 1  # whose end a raised offset of the next one contradicts
                else:
                    assert same(found, [item])


@pytest.mark.parametrize("block_bytes", [2000, 4000, MIB])
def test_flipped_leader_epoch_is_never_handed_out(tmp_path: Path, block_bytes: int) -> None:
    batches = batches_of(30)
    content, _ = object_bytes(batches)
    for number in range(30):
        at = 32 + sum(map(len, batches[:number]))
        for position, bits in ((12, 0x40), (12, 0x80), (15, 0x01), (15, 0x04)):
            store = WatchedStore(tmp_path)
            segment = put_segment(store, batches, segment=flipped(content, at + position, bits))
            with reader_of(store, block_bytes=block_bytes) as reader:
                assert same(list(read_on(reader, [segment], 0, 1000)), batches)


@pytest.mark.parametrize("position", [0, 7, 11, 16, 20, 22, 60, 200])
@pytest.mark.parametrize("number", [0, 7, 29])
def test_damage_is_told_and_what_is_before_and_behind_is_read(
    store: WatchedStore, number: int, position: int
) -> None:
    batches = batches_of(30)
    content, _ = object_bytes(batches)
    at = 32 + sum(map(len, batches[:number])) + position
    segment = put_segment(store, batches, segment=flipped(content, at))
    with reader_of(store, block_bytes=2000) as reader:
        before = reader.read([segment], 0, 300, MIB, at_least_one=True) if number else []
        assert same(read_all(before), batches[:number])
        with pytest.raises(CorruptObject) as caught:
            reader.read([segment], number * 10 + 5, 300, MIB, at_least_one=True)
        found = caught.value
        assert (found.key, found.path) == ("segment.kfs", "segment.kfs")
        assert found.first_offset == number * 10
        assert found.end_offset == (number // 10 + 1) * 100
        assert found.position is not None
        assert 0 <= at - found.position < len(batches[0])
        if found.end_offset < 300:
            behind = list(read_on(reader, [segment], found.end_offset, MIB))
            assert same(behind, batches[found.end_offset // 10 :])
        with pytest.raises(CorruptObject):
            list(reader.batches(segment))
        assert reader.maps.settled == 1, "it is read whole once, not at every try"


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    block_bytes=st.sampled_from([400, 1500, 5000, MIB]),
    spoils=st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=40)), max_size=3),
    index_spoils=st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=12)), max_size=2),
    offset=st.integers(0, 299),
)
def test_any_damage_is_told_or_does_no_harm(
    tmp_path: Path,
    block_bytes: int,
    spoils: list[tuple[float, bytes]],
    index_spoils: list[tuple[float, bytes]],
    offset: int,
) -> None:
    batches = batches_of(30, value_bytes=10)
    content, index = (bytearray(data) for data in object_bytes(batches))
    for data, wrongs in ((content, spoils), (index, index_spoils)):
        for where, wrong in wrongs:
            at = int(where * (len(data) - len(wrong)))
            data[at : at + len(wrong)] = wrong
    store = WatchedStore(tmp_path)
    segment = put_segment(store, batches, segment=bytes(content), index=bytes(index))
    with reader_of(store, block_bytes=block_bytes) as reader:
        found = read_one(reader, segment, offset)
        if isinstance(found, CorruptObject):
            assert bytes(content) != object_bytes(batches)[0]
            assert found.first_offset <= offset < found.end_offset
        else:
            assert same(found, [batches[offset // 10]])


def test_damaged_block_is_not_kept_and_a_mended_segment_is_read(store: WatchedStore) -> None:
    batches = batches_of(30)
    content, _ = object_bytes(batches)
    segment = put_segment(store, batches, segment=flipped(content, 100))
    with reader_of(store) as reader:
        with pytest.raises(CorruptObject):
            reader.read([segment], 0, 300, MIB, at_least_one=True)
        store.put(segment.key, content)
        reader.forget(segment)
        assert read_all(reader.read([segment], 0, 300, MIB, at_least_one=True)) == batches


@pytest.mark.parametrize("block_bytes", [600, MIB])
def test_every_flipped_byte_of_the_index_does_no_harm(tmp_path: Path, block_bytes: int) -> None:
    batches = batches_of(40, value_bytes=10)
    _, index = object_bytes(batches)
    for position in range(len(index)):
        store = WatchedStore(tmp_path)
        segment = put_segment(store, batches, index=flipped(index, position, 0x01))
        with reader_of(store, block_bytes=block_bytes) as reader:
            for offset in (0, 95, 100, 101, 205, 399):
                found = reader.read([segment], offset, 400, MIB, at_least_one=True)
                assert read_all(found) == batches[offset // 10 :]
            assert reader.maps.damaged == 0


@pytest.mark.parametrize("index", [b"", bytes(1000), b"IDX\0" + bytes(5000)])
def test_useless_index_is_made_anew(store: WatchedStore, index: bytes) -> None:
    batches = batches_of(40)
    segment = put_segment(store, batches, index=index)
    with reader_of(store) as reader:
        assert list(read_on(reader, [segment], 155, 2000)) == batches[15:]
        assert (reader.maps.settled, reader.maps.damaged) == (1, 0)


def test_missing_index_is_made_anew(store: WatchedStore) -> None:
    batches = batches_of(40)
    segment = put_segment(store, batches)
    store.delete(segment.index_key)
    with reader_of(store) as reader:
        assert list(read_on(reader, [segment], 155, 2000)) == batches[15:]


def test_another_segments_index_is_made_anew(store: WatchedStore) -> None:
    batches, others = batches_of(40), batches_of(40, value_bytes=51)
    segment = put_segment(store, batches, index=object_bytes(others)[1])
    with reader_of(store) as reader:
        assert list(read_on(reader, [segment], 155, 2000)) == batches[15:]


@pytest.mark.parametrize("block_bytes", [600, MIB])
def test_another_segment_in_its_place_is_refused(store: WatchedStore, block_bytes: int) -> None:
    batches = batches_of(40)
    wrong, index = object_bytes(batches_of(40, first_offset=1000))
    segment = put_segment(store, batches, segment=wrong, index=index)
    with reader_of(store, block_bytes=block_bytes) as reader, pytest.raises(CorruptObject):
        reader.read([segment], 0, 400, MIB, at_least_one=True)


def test_cut_and_missing_segments_are_errors(store: WatchedStore) -> None:
    batches = batches_of(40)
    segment = put_segment(store, batches)
    for size in (0, 10, 500, segment.object_bytes - 17, segment.object_bytes - 1):
        store.put(segment.key, object_bytes(batches)[0][:size])
        if size < segment.object_bytes - 16:
            with reader_of(store) as reader, pytest.raises(StoreError):
                list(read_on(reader, [segment], 0, MIB))
        with reader_of(store) as reader, pytest.raises(StoreError):
            list(reader.batches(segment))
    store.delete(segment.key)
    with reader_of(store) as reader, pytest.raises(ObjectMissing):
        reader.read([segment], 0, 400, MIB, at_least_one=True)


def test_what_is_before_and_behind_a_segment_that_cannot_be_read_is_read(store: WatchedStore) -> None:
    """A consumer asks for more than a segment: it must come up to the missing one, and go on behind it."""
    batches = batches_of(90)
    segments = [
        put_segment(store, batches[first : first + 30], name=f"s{first}") for first in range(0, 90, 30)
    ]
    whole, _ = object_bytes(batches[30:60])

    def look(error: type[StoreError]) -> None:
        with reader_of(store, block_bytes=MIB) as reader:
            assert read_all(reader.read(segments, 0, 900, MIB, at_least_one=True)) == batches[:30]
            assert read_all(reader.read(segments, 255, 900, MIB, at_least_one=True)) == batches[25:30]
            with pytest.raises(error):
                reader.read(segments, 300, 900, MIB, at_least_one=True)
            assert read_all(reader.read(segments[2:], 600, 900, MIB, at_least_one=True)) == batches[60:]

    def fail(key: str, start: int) -> None:
        if key == segments[1].key:
            raise StoreError("the store is away", is_passing=True)

    store.delete(segments[1].key)
    look(ObjectMissing)
    store.put(segments[1].key, whole[:100])
    look(StoreError)
    store.on_get = fail
    look(StoreError)


def test_failed_load_is_tried_again(store: WatchedStore) -> None:
    batches = batches_of(40)
    segment = put_segment(store, batches)

    def fail(key: str, start: int) -> None:
        raise StoreError("the store is away", is_passing=True)

    with reader_of(store) as reader:
        store.on_get = fail
        for _ in range(2):
            with pytest.raises(StoreError, match="away"):
                reader.read([segment], 0, 400, MIB, at_least_one=True)
        store.on_get = lambda key, start: None
        assert len(reader.read([segment], 0, 400, MIB, at_least_one=True)) == 40
