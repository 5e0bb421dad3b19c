"""`.kfs` against goldens that were written from the specification (tests/golden/kfs), cut and flipped.

Here are the header, the footer and the batches; test_kfs_index.py has the index, and
tests/tier/test_segment_file.py whole files.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barbicel.codecs import kfs
from barbicel.codecs.kfs import (
    SegmentFooter,
    SegmentHeader,
    check_segment_size,
    decode_segment_footer,
    decode_segment_header,
    encode_segment_footer,
    encode_segment_header,
)
from barbicel.codecs.kfs_batches import BatchFacts, declared_bytes, decode_batch_facts
from barbicel.errors import CorruptFile, SegmentTooLarge, UnknownVersion
from tests.codecs.kafka.golden_batches import COMMIT, PLAIN, with_crc
from tests.golden import load, names
from tests.golden.crc32c_bitwise import crc32c as crc32c_bitwise

T = 1_700_000_000_000
ONE = "kfs/segment-one"
ALL_KINDS = "kfs/segment-all-kinds"
HEADERS = {ONE: SegmentHeader(5, 2, T), ALL_KINDS: SegmentHeader(100, 125, T + 1)}
LAST_OFFSETS = {ONE: 6, ALL_KINDS: 2**32}
# Of segment-all-kinds: base offset, end offset, size, leader epoch, attributes, max timestamp, messages.
ALL_FACTS = [
    BatchFacts(100, 101, 89, 3, 0x01, T, 1),
    BatchFacts(101, 102, 78, 3, 0x30, T, 1),
    BatchFacts(104, 106, 77, 3, 0x18, T + 300, 2),
    BatchFacts(106, 116, 61, 4, 0x00, -1, 0),
    BatchFacts(116, 236, 1077, 4, 0x00, T, 120),
    BatchFacts(2**32, 2**32 + 1, 69, 4, 0x40, T + 5, 1),
]


def facts_of(body: bytes) -> list[BatchFacts]:
    view, start, found = memoryview(body), 0, []
    while start < len(body):
        found.append(decode_batch_facts(view, start))
        start += found[-1].size
    return found


def body_of(name: str) -> bytes:
    return load(name)[32:-16]


# --- sizes and goldens ----------------------------------------------------------------------------


def test_sizes() -> None:
    assert kfs.KFS_HEADER_BYTES == 32
    assert kfs.KFS_FOOTER_BYTES == 16


def test_every_golden_segment_is_used() -> None:
    assert {name for name in names("kfs") if "segment" in name} == HEADERS.keys()


@pytest.mark.parametrize("name", HEADERS)
def test_golden_header(name: str) -> None:
    assert decode_segment_header(load(name)) == HEADERS[name]
    assert encode_segment_header(HEADERS[name]) == load(name)[:32]


@pytest.mark.parametrize("name", HEADERS)
def test_golden_footer(name: str) -> None:
    footer = SegmentFooter(crc32c_bitwise(body_of(name)), LAST_OFFSETS[name])
    assert decode_segment_footer(load(name)[-16:], 1000) == footer
    assert encode_segment_footer(footer) == load(name)[-16:]


def test_golden_batches_of_all_kinds() -> None:
    assert facts_of(body_of(ALL_KINDS)) == ALL_FACTS
    assert sum(facts.message_count for facts in ALL_FACTS) == HEADERS[ALL_KINDS].message_count


# --- cut short, damage and lies -------------------------------------------------------------------


@pytest.mark.parametrize("size", range(32))
def test_cut_header_is_refused(size: int) -> None:
    with pytest.raises(CorruptFile, match=f"here are {size}"):
        decode_segment_header(load(ONE)[:size])


@pytest.mark.parametrize("size", [*range(16), 17, 32])
def test_footer_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(CorruptFile) as caught:
        decode_segment_footer((load(ONE) + bytes(16))[112 : 112 + size], 112)
    assert caught.value.position == 112


@pytest.mark.parametrize(
    ("position", "new", "error", "at"),
    [
        (0, "4b414652", CorruptFile, 0),
        (0, "454e4421", CorruptFile, 0),
        (4, "0000", UnknownVersion, 4),
        (4, "0002", UnknownVersion, 4),
        (6, "0001", UnknownVersion, 6),
        (6, "8000", UnknownVersion, 6),
        (8, "8000000000000000", CorruptFile, 8),
        (16, "ffffffff", CorruptFile, 16),
        (28, "00000001", UnknownVersion, 28),
    ],
)
def test_header_that_lies(position: int, new: str, error: type[CorruptFile], at: int) -> None:
    raw = bytes.fromhex(new)
    header = load(ONE)[:position] + raw + load(ONE)[position + len(raw) : 32]
    with pytest.raises(CorruptFile) as caught:
        decode_segment_header(header)
    assert type(caught.value) is error
    assert caught.value.position == at


@pytest.mark.parametrize(("position", "new"), [(4, "ffffffffffffffff"), (12, "454e4422")])
def test_footer_that_lies(position: int, new: str) -> None:
    raw = bytes.fromhex(new)
    footer = load(ONE)[-16:]
    with pytest.raises(CorruptFile) as caught:
        decode_segment_footer(footer[:position] + raw + footer[position + len(raw) :], 112)
    assert caught.value.position == 112 + position


@pytest.mark.parametrize("batch", [PLAIN, COMMIT])
def test_cut_batch_is_refused(batch: bytes) -> None:
    for size in range(len(batch)):
        with pytest.raises(CorruptFile) as caught:
            decode_batch_facts(memoryview(bytes(7) + batch[:size]), 7)
        assert caught.value.position == 7


def test_only_offset_and_epoch_of_a_batch_can_change_unnoticed() -> None:
    expected = decode_batch_facts(memoryview(PLAIN))
    for bit in range(8 * len(PLAIN)):
        flipped = bytearray(PLAIN)
        flipped[bit // 8] ^= 0x80 >> bit % 8
        try:
            found = decode_batch_facts(memoryview(flipped))
        except CorruptFile as problem:
            assert problem.position == 0
            assert bit // 8 not in range(12, 16), "a leader epoch may be any number"
        else:
            assert bit // 8 in {*range(8), *range(12, 16)}
            assert found[2] == expected[2]
            assert found[4:] == expected[4:]


@pytest.mark.parametrize(
    ("position", "new"),
    [
        (0, "ffffffffffffffff"),  # baseOffset -1
        (0, "7fffffffffffffff"),  # baseOffset 2^63 - 1, nothing can follow
        (23, "ffffffff"),  # lastOffsetDelta -1
        (57, "ffffffff"),  # recordsCount -1
    ],
)
def test_batch_that_lies_with_a_right_crc(position: int, new: str) -> None:
    raw = bytes.fromhex(new)
    batch = with_crc(PLAIN[:position] + raw + PLAIN[position + len(raw) :])
    with pytest.raises(CorruptFile):
        decode_batch_facts(memoryview(batch))


def test_declared_bytes() -> None:
    view = memoryview(b"x" + COMMIT)
    assert declared_bytes(view, 1) == len(COMMIT)
    assert declared_bytes(view[:13], 1) == len(COMMIT)
    assert declared_bytes(view[:12], 1) is None


def test_segment_that_the_numbers_have_no_room_for_is_refused() -> None:
    largest_body = 2**31 - 1 - 32 - 16
    check_segment_size(largest_body, 2**31 - 1)
    with pytest.raises(SegmentTooLarge, match="2147483648 bytes"):
        check_segment_size(largest_body + 1, 0)
    with pytest.raises(SegmentTooLarge, match="2147483648 messages"):
        check_segment_size(0, 2**31)


# --- round trips and garbage ----------------------------------------------------------------------

i64 = st.integers(-(2**63), 2**63 - 1)
natural_i64 = st.integers(0, 2**63 - 1)


@given(st.builds(SegmentHeader, natural_i64, st.integers(0, 2**31 - 1), i64))
def test_header_round_trip(header: SegmentHeader) -> None:
    assert decode_segment_header(encode_segment_header(header)) == header


@given(st.builds(SegmentFooter, st.integers(0, 2**32 - 1), natural_i64))
def test_footer_round_trip(footer: SegmentFooter) -> None:
    assert decode_segment_footer(encode_segment_footer(footer), 0) == footer


@given(st.binary(max_size=200), st.integers(0, 16), st.integers(0, 100))
def test_garbage_is_a_corrupt_file(tail: bytes, kept: int, start: int) -> None:
    """A CRC over garbage is right once in 2^32 times."""
    with pytest.raises(CorruptFile):
        decode_segment_header(load(ONE)[: min(kept, 3)] + b"\0" + tail)
    with pytest.raises(CorruptFile):
        decode_segment_footer(tail[:15].ljust(16, b"?"), 0)
    with pytest.raises(CorruptFile):
        decode_batch_facts(memoryview(PLAIN[:kept] + tail), min(start, kept))


# --- the document ---------------------------------------------------------------------------------

DOCUMENT = Path(__file__).parents[2] / "docs/formats/kfs.md"


def test_example_of_the_document_is_the_golden() -> None:
    example = DOCUMENT.read_text(encoding="utf-8").partition("## An example")[2].partition("## ")[0]
    lines = [line.strip() for line in example.splitlines() if line.startswith("    ")]
    assert bytes.fromhex("".join(lines)) == load(ONE) + load("kfs/index-one")
