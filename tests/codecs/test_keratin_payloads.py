"""What is in records, read without the records: the same as decode_records has, as far as all is usual."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from barbicel.codecs.keratin_record import (
    RECORD_OVERHEAD_BYTES,
    decode_payloads,
    decode_records,
    encode_lost,
    encode_record,
)

FIRST = 1_000
EVERYTHING = 1 << 62

contents = st.lists(
    st.tuples(st.sampled_from([1, 2, 300]), st.binary(max_size=5), st.binary(max_size=40)), max_size=8
)


def stretch(records: list[tuple[int, bytes, bytes]]) -> bytes:
    data, offset = b"", FIRST
    for span, headers, payload in records:
        data += b"".join(encode_record(offset, span, 77, headers, payload))
        offset += span
    return data


@given(contents, st.data())
def test_it_is_what_the_records_have_wherever_the_bytes_end(
    records: list[tuple[int, bytes, bytes]], data: st.DataObject
) -> None:
    whole = stretch(records)
    cut = memoryview(whole)[: data.draw(st.integers(0, len(whole)))]
    expected = decode_records(cut, 0, FIRST)
    found = decode_payloads(cut, FIRST, EVERYTHING)
    assert found.views == [record.payload for record in expected.records]
    assert (found.next_offset, found.size) == (expected.next_offset, expected.position)
    left = len(cut) - found.size
    is_cut = left >= RECORD_OVERHEAD_BYTES
    assert found.cut_bytes == (len(records[len(found.views)][2]) if is_cut else 0)


@given(contents, st.integers(0, 1000))
def test_it_ends_before_the_given_offset(records: list[tuple[int, bytes, bytes]], more: int) -> None:
    whole = memoryview(stretch(records))
    every = decode_records(whole, 0, FIRST).records
    found = decode_payloads(whole, FIRST, FIRST + more)
    assert found.views == [record.payload for record in every if record.offset < FIRST + more]


@given(contents.filter(bool), st.data())
def test_of_damaged_bytes_nothing_is_told_that_decoding_does_not_tell(
    records: list[tuple[int, bytes, bytes]], data: st.DataObject
) -> None:
    whole = bytearray(stretch(records))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    expected = decode_records(memoryview(whole), 0, FIRST)
    found = decode_payloads(memoryview(whole), FIRST, EVERYTHING)
    assert found.views == [record.payload for record in expected.records]
    assert found.next_offset == expected.next_offset


def test_it_ends_at_a_loss() -> None:
    sound = b"".join(encode_record(FIRST, 1, 77, b"", b"sound"))
    data = sound + encode_lost(FIRST + 1, 5, 77) + b"".join(encode_record(FIRST + 6, 1, 77, b"", b"behind"))
    found = decode_payloads(memoryview(data), FIRST, EVERYTHING)
    assert [*map(bytes, found.views)] == [b"sound"]
    assert found[1:] == (FIRST + 1, len(sound), 0)
    assert decode_payloads(memoryview(data)[len(sound) :], FIRST + 1, EVERYTHING) == ([], FIRST + 1, 0, 0)


@pytest.mark.parametrize("span", [None, 0])
def test_it_ends_where_a_span_is_claimed_and_not_given(span: int | None) -> None:
    head, _, _ = encode_record(FIRST, 1, 77, b"" if span is None else struct.pack(">I", span), b"x")
    claimed = head[:4] + struct.pack(">H", 1) + head[6:]
    data = claimed + b"x" + crc_of(claimed, b"x")
    assert decode_payloads(memoryview(data), FIRST, EVERYTHING) == ([], FIRST, 0, 0)


def crc_of(head: bytes, payload: bytes) -> bytes:
    return struct.pack(">I", crc32c(payload, crc32c(head[2:])))
