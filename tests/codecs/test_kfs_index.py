"""`.index` against goldens that were written from the specification (tests/golden/kfs), cut and flipped."""

from __future__ import annotations

import tracemalloc
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barbicel.codecs.kfs_index import IndexBuilder, KfsIndex, decode_index, encode_index
from barbicel.errors import CorruptFile, UnknownVersion
from tests.golden import load, names

ONE = "kfs/index-one"
ALL_KINDS = "kfs/index-all-kinds"
DOCUMENTED = "kfs/index-documented-magic"


def index_of(*entries: tuple[int, int], interval: int = 100) -> KfsIndex:
    return KfsIndex(
        array("q", [offset for offset, _ in entries]), array("q", [at for _, at in entries]), interval
    )


INDEXES = {
    ONE: index_of((5, 32)),
    ALL_KINDS: index_of((100, 32), (2**32, 1414)),
    DOCUMENTED: index_of((100, 32), (2**32, 1414)),
}
ENTRY_1 = 16 + 12


def with_bytes(data: bytes, position: int, new: str) -> bytes:
    raw = bytes.fromhex(new)
    return data[:position] + raw + data[position + len(raw) :]


# --- goldens --------------------------------------------------------------------------------------


def test_every_golden_index_is_used() -> None:
    assert {name for name in names("kfs") if "index" in name} == INDEXES.keys()


@pytest.mark.parametrize("name", INDEXES)
def test_golden_decodes(name: str) -> None:
    assert decode_index(load(name)) == INDEXES[name]


@pytest.mark.parametrize("name", [ONE, ALL_KINDS])
def test_golden_encodes(name: str) -> None:
    assert encode_index(INDEXES[name]) == load(name)


def test_magic_that_is_written_is_the_one_of_the_programs() -> None:
    assert encode_index(INDEXES[DOCUMENTED]) == load(ALL_KINDS) != load(DOCUMENTED)


# --- which batches get an entry, and finding them -------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "indexed"),
    [
        ([1], [0]),
        ([100, 1], [0, 1]),
        ([99, 1, 1], [0, 2]),
        ([99, 0, 1, 1], [0, 3]),
        ([1000, 1000, 1], [0, 1, 2]),
        ([50] * 7, [0, 2, 4, 6]),
        ([0] * 5, [0]),
        ([1] * 201, [0, 100, 200]),
    ],
)
def test_first_batch_and_each_after_100_messages_get_an_entry(counts: list[int], indexed: list[int]) -> None:
    builder = IndexBuilder()
    for number, count in enumerate(counts):
        builder.note(1000 + number, 32 + 70 * number, count)
    assert list(builder.index.offsets) == [1000 + number for number in indexed]
    assert list(builder.index.positions) == [32 + 70 * number for number in indexed]


@pytest.mark.parametrize(
    ("offset", "position"), [(0, 32), (10, 32), (19, 32), (20, 100), (39, 100), (40, 900), (2**62, 900)]
)
def test_locate(offset: int, position: int) -> None:
    assert index_of((10, 32), (20, 100), (40, 900)).locate(offset) == position


# --- cut short, damage and lies -------------------------------------------------------------------


@pytest.mark.parametrize("name", INDEXES)
def test_every_prefix_is_refused(name: str) -> None:
    for size in range(len(load(name))):
        with pytest.raises(CorruptFile):
            decode_index(load(name)[:size])


@pytest.mark.parametrize("trailing", [b"\0", bytes(11), bytes(12), b"\x7f" * 12, bytes(24)])
def test_trailing_data_is_refused(trailing: bytes) -> None:
    with pytest.raises(CorruptFile, match="entries in"):
        decode_index(load(ALL_KINDS) + trailing)


@pytest.mark.parametrize(
    ("position", "new", "error", "at"),
    [
        (0, "49445801", CorruptFile, 0),
        (4, "0002", UnknownVersion, 4),
        (6, "00000000", CorruptFile, 6),
        (6, "00000001", CorruptFile, 6),
        (6, "00000003", CorruptFile, 6),
        (6, "7fffffff", CorruptFile, 6),
        (6, "fffffffe", CorruptFile, 6),
        (10, "00000000", CorruptFile, 10),
        (10, "ffffffff", CorruptFile, 10),
        (14, "0001", UnknownVersion, 14),
        (16, "ffffffffffffffff", CorruptFile, 16),
        (24, "00000021", CorruptFile, 16),
        (24, "ffffffff", CorruptFile, 16),
        (ENTRY_1, "0000000000000064", CorruptFile, ENTRY_1),
        (ENTRY_1, "ffffffffffffffff", CorruptFile, ENTRY_1),
        (ENTRY_1 + 8, "00000020", CorruptFile, ENTRY_1),
        (ENTRY_1 + 8, "80000000", CorruptFile, ENTRY_1),
    ],
)
def test_index_that_lies(position: int, new: str, error: type[CorruptFile], at: int) -> None:
    with pytest.raises(CorruptFile) as caught:
        decode_index(with_bytes(load(ALL_KINDS), position, new))
    assert type(caught.value) is error
    assert caught.value.position == at


@pytest.mark.parametrize("count", ["7fffffff", "00ffffff", "ffffffff"])
def test_declared_counts_allocate_nothing(count: str) -> None:
    lie = with_bytes(load(ALL_KINDS), 6, count)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptFile):
            decode_index(lie)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 * 1024


# --- round trips and garbage ----------------------------------------------------------------------


@st.composite
def indexes(draw: st.DrawFn) -> KfsIndex:
    steps = draw(st.lists(st.tuples(st.integers(1, 2**40), st.integers(1, 2**20)), max_size=50))
    entries = [(draw(st.integers(0, 2**40)), 32)]
    for offset_step, position_step in steps:
        offset, position = entries[-1]
        entries.append((offset + offset_step, position + position_step))
    return index_of(*entries, interval=draw(st.integers(1, 2**31 - 1)))


@given(indexes())
def test_round_trip(index: KfsIndex) -> None:
    encoded = encode_index(index)
    assert len(encoded) == 16 + 12 * len(index)
    assert decode_index(encoded) == index
    for offset, position in zip(index.offsets, index.positions, strict=True):
        assert index.locate(offset) == position


@given(st.integers(0, 15), st.binary(max_size=100))
def test_garbage_is_a_corrupt_file_or_what_it_says(kept: int, tail: bytes) -> None:
    data = load(ALL_KINDS)[:kept] + tail
    try:
        index = decode_index(data)
    except CorruptFile:
        return
    assert encode_index(index)[4:] == data[4:]
