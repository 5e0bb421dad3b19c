"""What a client may produce, and the error that anything else gets."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.produced_batch import check_batch
from barbicel.codecs.kafka.record_batch import BadBatch
from tests.codecs.kafka.golden_batches import PLAIN, batch_of, with_crc

LIMIT = 1_000_000
INVALID = ErrorCode.INVALID_RECORD
CORRUPT = ErrorCode.CORRUPT_MESSAGE
BAD_TIME = ErrorCode.INVALID_TIMESTAMP
SENT = bytes(8) + PLAIN[8:]  # as a client sends it, at offset 0
RECORD = bytes.fromhex("0e 00 00 00 01 0261 00")

# Field → (position, struct)
FIELDS = {
    "batch_length": (8, ">i"),
    "magic": (16, ">B"),
    "attributes": (21, ">h"),
    "last_offset_delta": (23, ">i"),
    "base_timestamp": (27, ">q"),
    "max_timestamp": (35, ">q"),
    "producer_id": (43, ">q"),
    "producer_epoch": (51, ">h"),
    "base_sequence": (53, ">i"),
    "records_count": (57, ">i"),
    "base_offset": (0, ">q"),
}


def changed(**values: int) -> bytes:
    """What a client sent, with fields set otherwise and a right CRC."""
    batch = bytearray(SENT)
    for name, value in values.items():
        position, layout = FIELDS[name]
        struct.pack_into(layout, batch, position, value)
    return with_crc(bytes(batch))


def refusal(records: bytes, max_batch_bytes: int = LIMIT, *, allow_zstd: bool = True) -> ErrorCode:
    with pytest.raises(BadBatch) as refused:
        check_batch(memoryview(records), max_batch_bytes, allow_zstd=allow_zstd)
    return refused.value.error_code


def test_a_good_batch_is_given_back_without_a_copy() -> None:
    frame = bytearray(b"before" + SENT)
    batch = check_batch(memoryview(frame)[6:], len(SENT))
    assert batch.data == SENT
    assert batch.data.obj is frame
    assert not batch.data.readonly
    assert batch.header.records_count == 2


GOOD = {
    "idempotent": changed(producer_id=9, producer_epoch=0, base_sequence=0),
    "transactional": changed(attributes=0x10, producer_id=0, producer_epoch=3, base_sequence=2**31 - 1),
    "no timestamps": changed(base_timestamp=-1, max_timestamp=-1),
    "max timestamp left unset": changed(max_timestamp=-1),
    "any leader epoch": SENT[:12] + b"\xff\xff\xff\xff" + SENT[16:],
    "unused attributes": changed(attributes=0x0080),
    **{f"codec {codec}": changed(attributes=codec) for codec in range(5)},
}


@pytest.mark.parametrize("records", GOOD.values(), ids=GOOD.keys())
def test_what_kafka_accepts_is_accepted(records: bytes) -> None:
    assert check_batch(memoryview(records), LIMIT).data == records


BAD = [
    ("nothing", b"", INVALID),
    ("magic 0", changed(magic=0), INVALID),
    ("magic 1", changed(magic=1), INVALID),
    ("magic 3", changed(magic=3), CORRUPT),
    ("magic -1", changed(magic=255), CORRUPT),
    ("a length below the oldest message's", changed(batch_length=13), CORRUPT),
    ("a negative length", changed(batch_length=-1), CORRUPT),
    ("the smallest length", changed(batch_length=-(2**31)), CORRUPT),
    ("a length below the header's", changed(batch_length=48), CORRUPT),
    ("a header cut short, and the length too", changed(batch_length=48)[:60], CORRUPT),
    ("a length beyond the end", changed(batch_length=69), INVALID),
    ("the greatest length", changed(batch_length=2**31 - 1), INVALID),
    ("a base offset", changed(base_offset=1), INVALID),
    ("two batches", SENT + SENT, INVALID),
    ("a batch and an old message", SENT + bytes(8) + struct.pack(">iiB", 14, 0, 0) + bytes(9), INVALID),
    ("a batch and an impossible length", SENT + bytes(12), CORRUPT),
    ("a batch and a length just too small", SENT + bytes(8) + struct.pack(">i", 13) + bytes(13), CORRUPT),
    ("a batch and an unknown magic", SENT + bytes(8) + struct.pack(">iiB", 50, 0, 9), CORRUPT),
    ("a wrong crc", SENT[:17] + b"\0\0\0\0" + SENT[21:], CORRUPT),
    ("codec 5", changed(attributes=5), INVALID),
    ("codec 7", changed(attributes=7), INVALID),
    ("no records", changed(records_count=0, last_offset_delta=-1), INVALID),
    ("a negative count", changed(records_count=-1, last_offset_delta=-2), INVALID),
    ("a count too small", changed(records_count=1), INVALID),
    ("a count too great", changed(records_count=3), INVALID),
    ("a count that cannot fit", changed(records_count=3, last_offset_delta=2), INVALID),
    ("the greatest count", changed(records_count=2**31 - 1, last_offset_delta=2**31 - 2), INVALID),
    (
        "the greatest count, compressed",
        changed(attributes=4, records_count=2**31 - 1, last_offset_delta=2**31 - 2),
        INVALID,
    ),
    ("a control batch", changed(attributes=0x20), INVALID),
    ("a delete horizon", changed(attributes=0x40), INVALID),
    ("a producer without a sequence", changed(producer_id=1, producer_epoch=0), INVALID),
    ("a producer without an epoch", changed(producer_id=1, base_sequence=0), INVALID),
    ("a transaction without a producer", changed(attributes=0x10), INVALID),
    ("log append time", changed(attributes=0x08), BAD_TIME),
    ("a negative base timestamp", changed(base_timestamp=-2), BAD_TIME),
    ("a negative max timestamp", changed(max_timestamp=-2), BAD_TIME),
]


@pytest.mark.parametrize(("records", "error_code"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_anything_else_is_refused(records: bytes, error_code: ErrorCode) -> None:
    assert refusal(records) is error_code


def test_zstd_needs_a_newer_produce() -> None:
    assert refusal(changed(attributes=4), allow_zstd=False) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert check_batch(memoryview(changed(attributes=3)), LIMIT, allow_zstd=False)


def test_a_batch_may_have_just_as_many_bytes_as_allowed() -> None:
    assert check_batch(memoryview(SENT), len(SENT))
    assert refusal(SENT, len(SENT) - 1) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_full_batch_of_the_smallest_records_is_accepted() -> None:
    smallest = bytes.fromhex("0c 00 00 00 01 01 00")
    batch = batch_of(smallest * 3, count=3)
    assert check_batch(memoryview(batch), LIMIT).header.records_count == 3


def test_bytes_that_make_up_no_batch_are_left_out() -> None:
    for size in range(len(SENT)):
        batch = check_batch(memoryview(SENT + SENT[:size]), LIMIT)
        assert batch.data == SENT


def test_a_batch_cut_anywhere_is_refused() -> None:
    assert {refusal(SENT[:size]) for size in range(len(SENT))} == {INVALID}


def test_every_flipped_bit_is_refused_but_the_leader_epochs() -> None:
    for position in range(len(SENT)):
        for bit in range(8):
            flipped = bytearray(SENT)
            flipped[position] ^= 1 << bit
            if 12 <= position < 16:
                assert check_batch(memoryview(flipped), LIMIT).data == flipped
            else:
                assert refusal(bytes(flipped)) in (INVALID, CORRUPT)


@given(st.binary(max_size=200))
def test_garbage_is_refused(data: bytes) -> None:
    assert refusal(data) in (INVALID, CORRUPT)


@given(st.binary(max_size=60), st.integers(0, 2**31 - 1))
def test_garbage_that_starts_well_is_refused(data: bytes, length: int) -> None:
    start = bytes(8) + struct.pack(">iiB", length, 0, 2)
    assert refusal(start + data) in (INVALID, CORRUPT)
