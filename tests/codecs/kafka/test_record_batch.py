"""The header of a batch against goldens, damage at every byte, and what a broker writes into it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.record_batch import (
    BATCH_HEADER_BYTES,
    BadBatch,
    BatchHeader,
    TimestampType,
    decode_batch,
    decode_header,
    encode_batch,
    end_offset_of,
    stamp,
    stamp_append_time,
    stamp_max_timestamp,
    walk_batches,
)
from tests.codecs.kafka.golden_batches import APPEND_TIME, COMMIT, PLAIN, with_crc

GOLDENS = {"plain": PLAIN, "append time": APPEND_TIME, "commit": COMMIT}
OUTSIDE_OF_THE_CRC = {*range(8), *range(12, 16)}  # baseOffset, partitionLeaderEpoch

each_golden = pytest.mark.parametrize("golden", GOLDENS.values(), ids=GOLDENS.keys())


@each_golden
def test_the_goldens_crcs_are_right(golden: bytes) -> None:
    assert with_crc(golden) == golden


def test_a_header_has_61_bytes() -> None:
    assert BATCH_HEADER_BYTES == 61


def test_every_field_is_read() -> None:
    assert decode_header(memoryview(PLAIN)) == BatchHeader(
        base_offset=5,
        batch_length=68,
        partition_leader_epoch=7,
        magic=2,
        crc=0x9B9528B0,
        attributes=0,
        last_offset_delta=1,
        base_timestamp=1000,
        max_timestamp=1000,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records_count=2,
    )


def test_what_follows_from_the_fields() -> None:
    plain = decode_header(memoryview(PLAIN))
    assert (plain.size, plain.last_offset, plain.end_offset, plain.last_sequence) == (80, 6, 7, -1)
    assert end_offset_of(memoryview(PLAIN)) == plain.end_offset
    assert (plain.codec, plain.timestamp_type) == (0, TimestampType.CREATE_TIME)
    assert (plain.is_transactional, plain.is_control, plain.has_delete_horizon) == (False, False, False)

    stamped = decode_header(memoryview(APPEND_TIME))
    assert stamped.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert (stamped.is_transactional, stamped.is_control) == (True, False)

    marker = decode_header(memoryview(COMMIT))
    assert (marker.is_transactional, marker.is_control, marker.last_sequence) == (True, True, -1)

    assert plain._replace(attributes=0x44).codec == 4
    assert plain._replace(attributes=0x44).has_delete_horizon


@pytest.mark.parametrize(
    ("base_sequence", "last_offset_delta", "last_sequence"),
    [(0, 0, 0), (10, 5, 15), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 1, 0), (2**31 - 3, 10, 7), (-1, 3, -1)],
)
def test_sequences_wrap_to_0(base_sequence: int, last_offset_delta: int, last_sequence: int) -> None:
    header = decode_header(memoryview(PLAIN))
    header = header._replace(base_sequence=base_sequence, last_offset_delta=last_offset_delta)
    assert header.last_sequence == last_sequence


def test_a_max_timestamp_that_was_left_unset_shows() -> None:
    header = decode_header(memoryview(PLAIN))
    assert not header.understates_max_timestamp
    assert header._replace(max_timestamp=-1).understates_max_timestamp


@each_golden
def test_a_batch_is_itself_without_a_copy(golden: bytes) -> None:
    batch = decode_batch(memoryview(golden))
    assert batch.header == decode_header(memoryview(golden))
    assert batch.data == golden
    assert batch.data.obj is golden


@each_golden
def test_a_batch_cut_anywhere_is_refused(golden: bytes) -> None:
    for size in range(len(golden)):
        with pytest.raises(BadBatch) as refused:
            decode_batch(memoryview(golden)[:size])
        assert refused.value.error_code is ErrorCode.CORRUPT_MESSAGE


def test_a_byte_after_the_batch_is_refused() -> None:
    with pytest.raises(BadBatch, match="says that it has 80 bytes, but has 81"):
        decode_batch(memoryview(PLAIN + b"\0"))


@each_golden
def test_every_flipped_bit_is_noticed_or_outside_of_the_crc(golden: bytes) -> None:
    sound = decode_header(memoryview(golden))
    for position in range(len(golden)):
        for bit in range(8):
            flipped = bytearray(golden)
            flipped[position] ^= 1 << bit
            if position in OUTSIDE_OF_THE_CRC:
                header = decode_batch(memoryview(flipped)).header
                assert header != sound
                assert (
                    header._replace(base_offset=sound.base_offset, partition_leader_epoch=sound[2]) == sound
                )
            else:
                with pytest.raises(BadBatch):
                    decode_batch(memoryview(flipped))


def test_a_stretch_is_walked_by_headers_alone() -> None:
    broken = bytearray(PLAIN)
    broken[70] ^= 1
    stretch = PLAIN + APPEND_TIME + bytes(broken) + COMMIT
    walked = list(walk_batches(memoryview(stretch)))
    assert [batch.data for batch in walked] == [PLAIN, APPEND_TIME, broken, COMMIT]
    assert [batch.header.base_offset for batch in walked] == [5, 0, 5, 100]
    assert all(batch.data.obj is stretch for batch in walked)


def test_a_stretch_cut_anywhere_gives_its_whole_batches() -> None:
    stretch = PLAIN + COMMIT
    for size in range(len(stretch) + 1):
        walked = [batch.data for batch in walk_batches(memoryview(stretch)[:size])]
        assert walked == [PLAIN, COMMIT][: (size >= len(PLAIN)) + (size == len(stretch))]


@pytest.mark.parametrize(
    ("position", "value"),
    [
        (16, b"\x01"),
        (16, b"\x82"),
        (8, (48).to_bytes(4, "big")),
        (8, b"\xff\xff\xff\xff"),
        (8, b"\x80\0\0\0"),
    ],
)
def test_a_stretch_is_not_walked_where_no_batch_starts(position: int, value: bytes) -> None:
    wrong = PLAIN[:position] + value + PLAIN[position + len(value) :]
    walk = walk_batches(memoryview(PLAIN + wrong))
    assert next(walk).data == PLAIN
    with pytest.raises(BadBatch, match="no record batch starts at byte 80"):
        next(walk)


@pytest.mark.parametrize(("base_offset", "epoch"), [(0, 0), (2**63 - 1, 2**31 - 1), (123_456_789_012, -1)])
def test_stamping_changes_two_fields_and_no_crc(base_offset: int, epoch: int) -> None:
    batch = bytearray(PLAIN)
    stamp(batch, base_offset, epoch)
    header = decode_batch(memoryview(batch)).header
    wanted = decode_header(memoryview(PLAIN))
    assert header == wanted._replace(base_offset=base_offset, partition_leader_epoch=epoch)


def test_stamping_a_view_in_the_middle_of_a_frame_leaves_the_rest_alone() -> None:
    frame = bytearray(b"before" + PLAIN + b"after")
    view = memoryview(frame)[6 : 6 + len(PLAIN)]
    stamp(view, 5, 7)
    stamp_max_timestamp(view, 1000)
    assert frame == b"before" + PLAIN + b"after"
    stamp_append_time(view, 1)
    assert frame.startswith(b"before")
    assert frame.endswith(b"after")


def test_append_time_is_stamped_with_a_right_crc() -> None:
    batch = bytearray(COMMIT)
    stamp_append_time(batch, 1_700_000_000_000)
    assert with_crc(bytes(batch)) == batch
    header = decode_batch(memoryview(batch)).header
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    wanted = decode_header(memoryview(COMMIT))._replace(
        crc=header.crc, attributes=0x38, max_timestamp=1_700_000_000_000
    )
    assert header == wanted


def test_a_max_timestamp_is_set_right() -> None:
    batch = bytearray(PLAIN)
    stamp_max_timestamp(batch, -1)
    assert decode_batch(memoryview(batch)).header.understates_max_timestamp
    stamp_max_timestamp(batch, 1000)
    assert batch == PLAIN


@each_golden
def test_encoding_calculates_length_and_crc(golden: bytes) -> None:
    header = decode_header(memoryview(golden))._replace(batch_length=-5, crc=0)
    assert encode_batch(header, golden[61:]) == golden


@given(st.binary(max_size=200))
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises(BadBatch):
        decode_batch(memoryview(data))
