"""Kestrel's journal entries against goldens that were written from the specification (tests/golden/kestrel).

Each golden is decoded whole, byte by byte, cut at every byte, and with more behind it.
"""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from barbicel.codecs.kestrel_journal import (
    Bad,
    Entry,
    Flaw,
    Op,
    decode_entries,
    decode_entry,
    encode_add,
    encode_add_xid,
    encode_addx,
    encode_confirm_remove,
    encode_continue,
    encode_remove,
    encode_remove_tentative,
    encode_save_xid,
    encode_state_dump,
    encode_unremove,
)
from barbicel.codecs.kestrel_journal_format import HEAD_BYTES_MAX, YEAR_2500_MS
from tests.golden import load, names

ENTRIES = {
    "kestrel/all-opcodes": [
        Entry(Op.ADD, 0, 12, None, None, 1_400_000_000_000, 9, 3),
        Entry(Op.ADDX, 12, 24, None, 1_300_000_003_072, None, 33, 3),
        Entry(Op.REMOVE, 36, 1),
        Entry(Op.SAVE_XID, 37, 5, 2147483646),
        Entry(Op.REMOVE_TENTATIVE, 42, 1),
        Entry(Op.UNREMOVE, 43, 5, 2147483647),
        Entry(Op.ADD_XID, 48, 25, -1, 1, 2, 73, 0),
        Entry(Op.REMOVE_TENTATIVE_XID, 73, 5, 5),
        Entry(Op.CONTINUE, 78, 27, 5, YEAR_2500_MS, -1, 103, 2),
        Entry(Op.CONFIRM_REMOVE, 105, 5, -2147483648),
    ],
    "kestrel/state-dump": [
        Entry(Op.ADDX, 0, 22, None, 1, None, 21, 1),
        Entry(Op.REMOVE_TENTATIVE, 22, 1),
        Entry(Op.STATE_DUMP, 23, 9, 1, pairs=1),
        Entry(Op.ADD_XID, 32, 26, 1, 1, None, 57, 1),
        Entry(Op.REMOVE_TENTATIVE, 58, 1),
    ],
}
ENCODED = {
    "kestrel/all-opcodes": [
        encode_add(b"one", 1_400_000_000),
        encode_addx(b"two", 1_300_000_003_072, None),
        encode_remove(),
        encode_save_xid(2147483646),
        encode_remove_tentative(),
        encode_unremove(2147483647),
        encode_add_xid(-1, b"", 1, 2),
        encode_remove_tentative(5),
        encode_continue(5, b"go", YEAR_2500_MS, -1),
        encode_confirm_remove(-2147483648),
    ],
    "kestrel/state-dump": [
        encode_addx(b"x", 1, None),
        encode_remove_tentative(),
        encode_state_dump(1, 1),
        encode_add_xid(1, memoryview(b"x"), 1, None),
        encode_remove_tentative(),
    ],
}
GOLDEN = sorted(ENTRIES)


def decode_all(raw: bytes, piece_bytes: int = 1 << 16) -> list[Entry | Bad]:
    return list(decode_entries(lambda size, at: raw[at : at + size], 0, len(raw), piece_bytes))


def test_every_golden_is_used_and_every_opcode_is_in_one() -> None:
    assert names("kestrel") == GOLDEN
    assert {entry.op for entries in ENTRIES.values() for entry in entries} == set(Op)


@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_is_decoded(name: str) -> None:
    raw = load(name)
    for piece_bytes in (1, 26, 40, 1 << 16):
        assert decode_all(raw, piece_bytes) == ENTRIES[name]


@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_is_what_is_encoded(name: str) -> None:
    assert b"".join(ENCODED[name]) == load(name)


@pytest.mark.parametrize("name", GOLDEN)
def test_the_bytes_arrive_one_by_one(name: str) -> None:
    """Until an entry's head is there the answer is to wait; the rest of the file need not be there."""
    raw = load(name)
    for entry in ENTRIES[name]:
        for size in range(HEAD_BYTES_MAX + 1):
            view = memoryview(raw)[entry.position : entry.position + size]
            found = decode_entry(view, 0, entry.position, len(raw))
            assert found == entry or (found is None and len(view) < min(HEAD_BYTES_MAX, entry.size + 17))
        assert found == entry


@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_that_is_cut_ends_with_what_is_missing(name: str) -> None:
    raw, entries = load(name), ENTRIES[name]
    for size in range(len(raw)):
        whole: list[Entry | Bad] = [entry for entry in entries if entry.position + entry.size <= size]
        end = sum(entry.size for entry in entries[: len(whole)])
        found = decode_all(raw[:size])
        if end == size:
            assert found == whole
        else:
            assert found[:-1] == whole
            last = found[-1]
            assert isinstance(last, Bad)
            assert (last.position, last.flaw) == (end, Flaw.TRUNCATED)


@pytest.mark.parametrize("tail", [b"\x01", b"\x0a", b"\xff" * 40])
def test_what_follows_changes_nothing(tail: bytes) -> None:
    name = "kestrel/all-opcodes"
    found = decode_all(load(name) + tail)
    assert found[: len(ENTRIES[name])] == ENTRIES[name]
    assert len(found) == len(ENTRIES[name]) + 1


@pytest.mark.parametrize("opcode", range(10, 256))
def test_there_are_no_other_opcodes(opcode: int) -> None:
    assert decode_all(bytes([1, opcode]))[1:] == [Bad(1, Flaw.OPCODE, f"there is no opcode {opcode}")]


# --- sizes ----------------------------------------------------------------------------------------------

# opcode, then its bytes up to the size, then the least size.
SIZED = [(b"\x00", 4), (b"\x02", 16), (b"\x07\x01\0\0\0", 16), (b"\x08\x01\0\0\0", 16)]


@pytest.mark.parametrize(("head", "least"), SIZED)
def test_sizes_at_their_limits(head: bytes, least: int) -> None:
    def flaw(size: int, left: int) -> Flaw | int:
        raw = head + size.to_bytes(4, "little", signed=True) + bytes(left)
        found = decode_all(raw)[0]
        return found.flaw if isinstance(found, Bad) else found.data_size

    assert flaw(least, least) == 0
    assert flaw(least, least + 1) == 0
    assert flaw(least + 1, least + 1) == 1
    assert flaw(least + 1, least) == Flaw.TRUNCATED
    assert flaw(least - 1, 100) == Flaw.SIZE
    assert flaw(-1, 100) == Flaw.SIZE
    assert flaw(-(2**31), 100) == Flaw.SIZE
    assert flaw(2**31 - 1, 100) == Flaw.TRUNCATED


def test_zeros_are_told_apart_from_an_entry_that_is_too_small() -> None:
    assert decode_all(bytes(5)) == [Bad(0, Flaw.ZEROS, "zeros where an entry should be")]
    assert isinstance(bad := decode_all(b"\x00\x01\0\0\0")[0], Bad)
    assert bad.flaw is Flaw.SIZE
    assert isinstance(bad := decode_all(b"\x02\0\0\0\0")[0], Bad)
    assert bad.flaw is Flaw.SIZE


# --- both meanings of 8 ---------------------------------------------------------------------------------


def eight(xid: int, number: int, rest: bytes) -> Entry | Bad:
    return decode_all(encode_state_dump(xid, number) + rest)[0]


@pytest.mark.parametrize("pairs", [1, 15, 16, 17, 300, 1 << 20])
@pytest.mark.parametrize("size", [0, 1, 1000, (1 << 24) - 17])
@pytest.mark.parametrize("xid", [1, 255, -1, 2**31 - 1])
def test_an_add_xid_makes_a_state_dump(pairs: int, size: int, xid: int) -> None:
    head = encode_add_xid(xid, bytes(size), 1_300_000_000_000, None)[:HEAD_BYTES_MAX]
    raw = encode_state_dump(xid, pairs) + head
    # The file goes on; the decoder needs no more of it than this.
    assert decode_entry(raw, 0, 50, 1 << 40) == Entry(Op.STATE_DUMP, 50, 9, xid, pairs=pairs)


@pytest.mark.parametrize("pairs", [0, 1, 15])
def test_the_end_of_the_file_makes_a_state_dump(pairs: int) -> None:
    assert eight(5, pairs, b"") == Entry(Op.STATE_DUMP, 0, 9, 5, pairs=pairs)


@pytest.mark.parametrize(
    ("number", "rest", "flaw"),
    [
        (16, b"", Flaw.TRUNCATED),  # a CONTINUE that was cut off
        (-1, b"", Flaw.SIZE),
        (0, b"\x07", Flaw.SIZE),
        (5, b"\x02" * 50, Flaw.SIZE),
        (-1, b"\x07" * 50, Flaw.SIZE),
        (20, b"\x07" * 7, Flaw.TRUNCATED),
    ],
)
def test_an_eight_that_is_neither(number: int, rest: bytes, flaw: Flaw) -> None:
    bad = eight(5, number, rest)
    assert isinstance(bad, Bad)
    assert bad.flaw is flaw


@given(st.integers(0, YEAR_2500_MS), st.integers(-(2**63), 2**63 - 1), st.binary(max_size=30))
@example(7, 7, b"")
@example(1_300_000_000_007, 0x7F, bytes(2000))
def test_a_continue_is_never_taken_for_a_state_dump(added_ms: int, expiry_ms: int, data: bytes) -> None:
    raw = encode_continue(3, data, added_ms, expiry_ms)
    assert decode_all(raw) == [Entry(Op.CONTINUE, 0, len(raw), 3, added_ms, expiry_ms or None, 25, len(data))]


@pytest.mark.parametrize("added_ms", [-1, YEAR_2500_MS + 1])
def test_a_continue_that_could_be_taken_for_a_state_dump_is_not_written(added_ms: int) -> None:
    with pytest.raises(ValueError, match="STATE_DUMP"):
        encode_continue(1, b"", added_ms, None)


# --- encoding -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("xid", [2**31, -(2**31) - 1])
def test_what_does_not_fit_is_not_written(xid: int) -> None:
    for encode in (encode_save_xid, encode_unremove, encode_confirm_remove, encode_remove_tentative):
        with pytest.raises(ValueError, match="XID|REMOVE"):
            encode(xid)
    with pytest.raises(ValueError, match="ADD: "):
        encode_add(b"", xid)
    with pytest.raises(ValueError, match="ADDX: "):
        encode_addx(b"", 2**63, None)


def test_data_that_do_not_fit_are_not_written() -> None:
    class Long(bytes):
        def __len__(self) -> int:
            return 2**31 - 16

    with pytest.raises(ValueError, match="does not fit"):
        encode_addx(Long(), 0, None)


# --- anything -------------------------------------------------------------------------------------------


@given(
    st.lists(st.one_of(st.integers(0, 10), st.integers(0, 255)), max_size=200).map(bytes),
    st.integers(1, 60),
)
def test_anything_is_entries_and_at_most_one_bad_one(raw: bytes, piece_bytes: int) -> None:
    """Entries lie end to end, inside of the file, and are the same in pieces of any size."""
    found = decode_all(raw, piece_bytes)
    assert found == decode_all(raw)
    position = 0
    for entry in found:
        assert entry.position == position
        if isinstance(entry, Bad):
            assert entry is found[-1]
            return
        assert entry.size > 0
        assert entry.data_position + entry.data_size in (0, position + entry.size)
        position += entry.size
    assert position == len(raw)


@given(st.binary(max_size=40), st.integers(0, 40), st.integers(0, 2**45))
def test_one_answer_of_three_wherever_one_looks(raw: bytes, at: int, left: int) -> None:
    found = decode_entry(raw, at, 7, 7 + max(left, len(raw) - at))
    assert found is None or found.position == 7
    if len(raw) - at >= HEAD_BYTES_MAX:
        assert found is not None


def test_no_size_is_allocated() -> None:
    raw = b"\x02" + (2**31 - 1).to_bytes(4, "little") + bytes(60)
    decode_entry(raw, 0, 0, 1 << 40)
    tracemalloc.start()
    try:
        assert isinstance(decode_entry(raw, 0, 0, 1 << 40), Entry)
        assert isinstance(decode_entry(raw, 0, 0, len(raw)), Bad)
        assert tracemalloc.get_traced_memory()[1] < 10_000
    finally:
        tracemalloc.stop()


def test_a_file_that_is_shorter_than_was_said_ends_there() -> None:
    raw = encode_addx(b"abc", 1, None) * 2
    found = list(decode_entries(lambda size, at: raw[:30][at : at + size], 0, len(raw)))
    assert isinstance(found[0], Entry)
    assert isinstance(found[1], Bad)
    assert (found[1].position, found[1].flaw) == (24, Flaw.TRUNCATED)
