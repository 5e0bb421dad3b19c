"""producers.snap: its bytes, and every way in which they can be wrong."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barbicel.codecs.producer_snapshot import (
    MAX_SEQUENCE,
    Producer,
    ProducerSnapshot,
    StoredBatch,
    decode_producers,
    encode_producers,
)
from barbicel.errors import CorruptFile, UnknownVersion
from tests.golden.crc32c_bitwise import crc32c as crc32c_bitwise

T = 1_700_000_000_000
SNAPSHOT = ProducerSnapshot(
    end_offset=1000,
    producers=(
        Producer(4001, 0, -1, T),
        Producer(
            4000,
            3,
            T + 1,
            T + 2,
            (StoredBatch(MAX_SEQUENCE - 1, 1, 500, T), StoredBatch(2, 11, 990, T + 1)),
        ),
    ),
)

# Written by hand from docs/formats/producers.md.
GOLDEN = bytes.fromhex(
    """
    4b50524f44000000  0001  0000  00000002  00000000000003e8
    0000000000000fa1  0000  0000  ffffffffffffffff  0000018bcfe56800
    0000000000000fa0  0003  0002  0000018bcfe56801  0000018bcfe56802
    7ffffffe  00000001  00000000000001f4  0000018bcfe56800
    00000002  0000000b  00000000000003de  0000018bcfe56801
    5517f537
    """
)
EMPTY = bytes.fromhex("4b50524f44000000 0001 0000 00000000 0000000000000000 b8b31156")

# Where fields of the golden are.
VERSION, FLAGS, COUNT, END_OFFSET = 8, 10, 12, 16
FIRST, SECOND, BATCHES = 24, 52, 80


def resealed(data: bytes) -> bytes:
    """The same bytes with the CRC right."""
    return data[:-4] + crc32c_bitwise(data[:-4]).to_bytes(4, "big")


def with_bytes(position: int, new: str) -> bytes:
    raw = bytes.fromhex(new)
    return resealed(GOLDEN[:position] + raw + GOLDEN[position + len(raw) :])


def test_the_golden_bytes() -> None:
    assert encode_producers(SNAPSHOT) == GOLDEN
    assert decode_producers(GOLDEN) == SNAPSHOT
    assert resealed(GOLDEN) == GOLDEN


def test_no_producers() -> None:
    assert encode_producers(ProducerSnapshot(0)) == EMPTY
    assert decode_producers(EMPTY) == ProducerSnapshot(0)


def test_a_batch_that_wraps_knows_its_end() -> None:
    assert StoredBatch(MAX_SEQUENCE - 1, 1, 500, T).end_offset == 504
    assert StoredBatch(5, 5, 0, T).end_offset == 1


@pytest.mark.parametrize("data", [GOLDEN, EMPTY])
def test_every_flipped_bit_is_refused(data: bytes) -> None:
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 0x80 >> bit % 8
        with pytest.raises(CorruptFile) as caught:
            decode_producers(bytes(flipped))
        assert not isinstance(caught.value, UnknownVersion)


@pytest.mark.parametrize("data", [GOLDEN, EMPTY])
def test_every_other_length_is_refused(data: bytes) -> None:
    for size in range(len(data)):
        with pytest.raises(CorruptFile):
            decode_producers(data[:size])
    for trailing in (b"\0", bytes(24), data):
        with pytest.raises(CorruptFile):
            decode_producers(data + trailing)


@pytest.mark.parametrize("data", [GOLDEN, EMPTY])
def test_every_other_length_with_a_right_crc_is_refused(data: bytes) -> None:
    for size in range(4, len(data)):
        with pytest.raises(CorruptFile):
            decode_producers(resealed(data[:size]))
    for size in (1, 24, 28, 200):
        with pytest.raises(CorruptFile, match=f"{size} bytes too many"):
            decode_producers(resealed(data + bytes(size)))


@pytest.mark.parametrize(
    ("position", "new", "message", "at"),
    [
        (0, "4b534e4150000000", "magic", 0),
        (COUNT, "00000001", "76 bytes too many", SECOND),
        (COUNT, "00000003", "the file ends in a producer|batches", 128),
        (COUNT, "ffffffff", "4294967295 producers", COUNT),
        (END_OFFSET, "ffffffffffffffff", "end_offset -1", END_OFFSET),
        (END_OFFSET, "00000000000003e7", "producer 4000: a batch lies behind 999", SECOND),
        (FIRST, "ffffffffffffffff", "producer -1 with epoch 0", FIRST),
        (FIRST, "0000000000000fa0", "producer 4000 is there twice", SECOND),
        (FIRST + 8, "ffff", "producer 4001 with epoch -1", FIRST),
        (FIRST + 10, "0006", "6 batches", FIRST),
        (SECOND + 10, "0001", "24 bytes too many", BATCHES + 24),
        (SECOND + 10, "0003", "3 batches, 48 bytes are left", SECOND),
        (SECOND + 10, "ffff", "65535 batches", SECOND),
        (BATCHES, "ffffffff", "negative", SECOND),
        (BATCHES + 4, "ffffffff", "negative", SECOND),
        (BATCHES + 4, "00000002", "sequences have a gap", SECOND),
        (BATCHES + 8, "ffffffffffffffff", "negative", SECOND),
        (BATCHES + 8, "00000000000003db", "batches overlap", SECOND),
    ],
)
def test_lies_with_a_right_crc_are_refused(position: int, new: str, message: str, at: int) -> None:
    with pytest.raises(CorruptFile, match=message) as caught:
        decode_producers(with_bytes(position, new))
    assert not isinstance(caught.value, UnknownVersion)
    assert caught.value.position == at


def test_more_batches_than_are_remembered_are_refused() -> None:
    batches = tuple(StoredBatch(number, number, number, T) for number in range(6))
    five, six = (
        encode_producers(ProducerSnapshot(6, (Producer(1, 0, T, T, kept),)))
        for kept in (batches[1:], batches)
    )
    assert len(decode_producers(five).producers[0].batches) == 5
    with pytest.raises(CorruptFile, match="6 batches"):
        decode_producers(six)


def test_a_sound_file_of_another_version_is_not_damage() -> None:
    for position, new in ((VERSION, "0000"), (VERSION, "0002"), (FLAGS, "0001"), (FLAGS, "8000")):
        with pytest.raises(UnknownVersion) as caught:
            decode_producers(with_bytes(position, new))
        assert caught.value.position == VERSION


@pytest.mark.parametrize(("position", "new"), [(COUNT, "ffffffff"), (SECOND + 10, "ffff")])
def test_declared_counts_allocate_nothing(position: int, new: str) -> None:
    lie = with_bytes(position, new)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptFile):
            decode_producers(lie)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 * 1024


i64 = st.integers(-(2**63), 2**63 - 1)


@st.composite
def snapshots(draw: st.DrawFn) -> ProducerSnapshot:
    offset, producers = draw(st.integers(0, 2**40)), []
    for producer_id in draw(st.lists(st.integers(0, 2**63 - 1), unique=True, max_size=6)):
        sequence, batches = draw(st.integers(0, MAX_SEQUENCE)), []
        for records in draw(st.lists(st.integers(1, MAX_SEQUENCE), max_size=5)):
            last = sequence + records - 1 & MAX_SEQUENCE
            batches.append(StoredBatch(sequence, last, offset, draw(i64)))
            sequence, offset = last + 1 & MAX_SEQUENCE, offset + records
        epoch = draw(st.integers(0, 2**15 - 1))
        producers.append(Producer(producer_id, epoch, draw(i64), draw(i64), tuple(batches)))
    return ProducerSnapshot(offset, tuple(producers))


@given(snapshots())
def test_every_snapshot_survives(snapshot: ProducerSnapshot) -> None:
    assert decode_producers(encode_producers(snapshot)) == snapshot


@given(st.binary(max_size=200))
def test_garbage_behind_a_right_crc_is_a_value_or_a_corrupt_file(tail: bytes) -> None:
    sealed = resealed(GOLDEN[:COUNT] + tail + bytes(4))
    try:
        snapshot = decode_producers(sealed)
    except CorruptFile:
        return
    assert encode_producers(snapshot) == sealed
