"""Chunks and their records against goldens that were written from the specification (tests/golden/aof2).

Fed whole, cut at every byte, with trailing data, with every byte flipped, and with lies whose CRCs are right.
"""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barbicel.codecs import aof2_manifest as fmt
from barbicel.codecs.aof2_events import (
    Event,
    RepairReason,
    SegmentDescribed,
    SegmentNeedsRepair,
    SegmentRepaired,
    StartOffsetMoved,
    decode_event,
    encode_event,
)
from barbicel.codecs.aof2_manifest import NO_SEGMENT, ChunkHeader, ManifestRecord
from barbicel.codecs.aof2_payloads import (
    CompressionDone,
    CompressionFailed,
    CompressionStarted,
    CustomEvent,
    HydrationDone,
    HydrationFailed,
    HydrationStarted,
    LocalEvicted,
    Payload,
    SealSegment,
    SegmentOpened,
    SnapshotMarker,
    Tier2Deleted,
    Tier2DeleteQueued,
    UploadDone,
    UploadFailed,
    UploadStarted,
    decode_payload,
    encode_payload,
)
from barbicel.errors import CorruptFile, CorruptManifest, UnknownVersion
from tests.golden import load
from tests.golden.crc64_bitwise import crc64_nvme as crc64_bitwise

T = 1_700_000_000_000
KEY = "c/t/3/segment-00000000000000000100.kfs"
# The only payload of eight bytes whose CRC is 0.
PAYLOAD_WITH_CRC_0 = 0xADF875066DC6AAD1
DESCRIBED = SegmentDescribed(200, T - 5, 100, 5000, 0xDEADBEEF, 112, True)
PAYLOADS: list[Payload] = [
    SegmentOpened(100, 4),
    SealSegment(65536, 0x0123456789ABCDEF),
    CompressionStarted(9),
    CompressionDone(4096, 0),
    CompressionFailed(3),
    UploadStarted(KEY),
    UploadDone(KEY, "étag"),
    UploadFailed(KEY, 503),
    Tier2DeleteQueued(KEY),
    Tier2Deleted(KEY),
    HydrationStarted(2),
    HydrationDone(PAYLOAD_WITH_CRC_0),
    HydrationFailed(1),
    LocalEvicted(65536),
    SnapshotMarker(7, 64, 3),
    encode_event(DESCRIBED),
]
SPECIAL_OFFSETS = {1: 199, 13: 65535, 14: 1000}
RECORDS = [
    ManifestRecord(payload, NO_SEGMENT if number == 14 else 100, SPECIAL_OFFSETS.get(number, 100), T + number)
    for number, payload in enumerate(PAYLOADS)
]
ALL = load("aof2/chunk-all-records")
ACTIVE = load("aof2/chunk-active")


def reseal(chunk: bytes) -> bytes:
    """The same chunk with a right chunk_crc64."""
    return chunk[:48] + struct.pack("<Q", crc64_bitwise(chunk[64:])) + chunk[56:]


def with_record(record: bytes) -> bytes:
    """The active golden with one more record, all lengths and CRCs of the chunk right."""
    chunk = ACTIVE + record
    return reseal(chunk[:32] + struct.pack("<QQ", len(chunk), len(chunk)) + chunk[48:])


def record_bytes(record_type: int, payload: bytes, *, flags: int = 0, declared: int | None = None) -> bytes:
    size = len(payload) if declared is None else declared
    return struct.pack("<HHIQQQQ", record_type, flags, size, 5, 6, 7, crc64_bitwise(payload)) + payload


def test_a_chunk_with_every_record_type() -> None:
    header, placed = fmt.decode_chunk(ALL, 7)
    assert header == ChunkHeader(7, 1000, len(ALL), len(ALL), crc64_bitwise(ALL[64:]), fmt.FLAG_SEALED)
    assert header.is_sealed
    assert not header.is_uploaded
    assert [found.record for found in placed] == RECORDS
    assert placed[0].position == 64
    assert b"".join(map(fmt.encode_record, RECORDS)) == ALL[64:]
    assert fmt.encode_chunk_header(header) == ALL[:64]
    assert ALL[:8] == b"GOLM2FOA"


def test_an_active_chunk_is_read_up_to_what_is_committed() -> None:
    expected = [ManifestRecord(SegmentOpened(0, 0), 0, 0, T)]
    for tail in (b"", bytes(1000), b"\xff" * 1000, ALL[64:]):
        header, placed = fmt.decode_chunk(ACTIVE + tail, 0)
        assert (header.committed_len, header.flags) == (len(ACTIVE), 0)
        assert [found.record for found in placed] == expected


@pytest.mark.parametrize(("chunk", "index"), [(ALL, 7), (ACTIVE, 0)])
def test_a_chunk_that_is_cut_anywhere_is_refused(chunk: bytes, index: int) -> None:
    for size in range(len(chunk)):
        with pytest.raises(CorruptManifest) as caught:
            fmt.decode_chunk(chunk[:size], index)
        assert caught.value.chunk_index == index


# tail_offset says nothing that committed_len does not, and says it too late.
HARMLESS = range(32, 40)


def test_a_flip_anywhere_is_found_or_changes_nothing() -> None:
    whole = fmt.decode_chunk(ALL, 7)[1]
    for position in range(len(ALL)):
        for bit in range(8):
            flipped = bytearray(ALL)
            flipped[position] ^= 1 << bit
            try:
                header, placed = fmt.decode_chunk(flipped, 7)
            except (CorruptManifest, UnknownVersion):
                continue
            assert placed == whole
            # base_record is held against the chunks around it, and bit 0 and 1 of the flags against the rest.
            assert position in HARMLESS or position in range(24, 32) or (position, bit) in ((56, 0), (56, 1))
            assert header.committed_len == len(ALL)


def test_damage_in_a_record_is_named_with_segment_and_offset() -> None:
    _, placed = fmt.decode_chunk(ALL, 7)
    for found in placed:
        damaged = bytearray(ALL)
        damaged[found.position + fmt.RECORD_HEADER_BYTES] ^= 1
        with pytest.raises(CorruptManifest, match="payload_crc64 does not match") as caught:
            fmt.decode_chunk(damaged, 7)
        error = caught.value
        assert (error.chunk_index, error.position) == (7, found.position)
        assert (error.segment_id, error.logical_offset) == (
            found.record.segment_id,
            found.record.logical_offset,
        )


def test_damage_that_no_record_shows_is_the_chunks() -> None:
    damaged = bytearray(ALL)
    damaged[64 + 24] ^= 1  # a timestamp: no payload_crc64 covers it
    with pytest.raises(CorruptManifest, match="chunk_crc64 does not match"):
        fmt.decode_chunk(damaged, 7)


def test_a_payload_crc_of_zero_is_a_value_like_any_other() -> None:
    record = ManifestRecord(HydrationDone(PAYLOAD_WITH_CRC_0), 5, 6, 7)
    data = fmt.encode_record(record)
    assert data[32:40] == bytes(8)
    assert fmt.decode_chunk(with_record(data), 0)[1][-1].record == record
    # Another payload under the CRC 0 is damage, not a record without a CRC.
    other = data[:40] + struct.pack("<Q", 12345)
    with pytest.raises(CorruptManifest, match="payload_crc64 does not match"):
        fmt.decode_chunk(with_record(other), 0)


LIES = [
    (record_bytes(16, b"x"), "record type 16 is not known"),
    (record_bytes(0xFFFF, b"x"), "record type 65535 is not known"),
    (record_bytes(0, b""), "payload_len 0"),
    (record_bytes(0, b"short"), "5 bytes are too few for a SegmentOpened"),
    (record_bytes(0, bytes(13)), "a SegmentOpened of 12 bytes in 13"),
    (record_bytes(0, bytes(12), flags=1), "record flags 0x0001"),
    (record_bytes(0, bytes(12), declared=13), "payload_len 13 with 12 bytes left"),
    (record_bytes(0, bytes(12), declared=0xFFFFFFFF), "payload_len 4294967295 with 12 bytes left"),
    (record_bytes(5, struct.pack("<H", 9) + b"12345678"), "a UploadStarted of 11 bytes in 10"),
    (record_bytes(5, struct.pack("<H", 2) + b"\xff\xfe"), "bytes that are no text"),
    (record_bytes(6, struct.pack("<HH", 0xFFFF, 0xFFFF)), "a UploadDone of 131074 bytes in 4"),
    (bytes(39), "a record header is cut off"),
]


@pytest.mark.parametrize(("record", "message"), LIES)
def test_a_lie_with_the_right_crcs_is_refused(record: bytes, message: str) -> None:
    with pytest.raises(CorruptManifest, match=message) as caught:
        fmt.decode_chunk(with_record(record), 0)
    assert caught.value.position == len(ACTIVE)


HEADER_LIES = [
    (0, "<Q", 0, CorruptManifest, "magic 0x0000000000000000"),
    (8, "<I", 2, UnknownVersion, "version 2"),
    (12, "<I", 72, CorruptManifest, "header_len 72"),
    (16, "<Q", 1, CorruptManifest, "says that it is chunk 1"),
    (40, "<Q", 63, CorruptManifest, "committed_len 63"),
    (40, "<Q", 1 << 63, CorruptManifest, "committed_len 9223372036854775808"),
    (32, "<QQ", (1 << 40, 1 << 40), CorruptManifest, "committed are 1099511627776 bytes"),
    (56, "<Q", 2, CorruptManifest, "uploaded and not sealed"),
    (56, "<Q", 4, UnknownVersion, "flags 0x4"),
]


@pytest.mark.parametrize(("position", "layout", "value", "error", "message"), HEADER_LIES)
def test_a_wrong_header_is_refused(
    position: int, layout: str, value: int | tuple[int, ...], error: type[Exception], message: str
) -> None:
    raw = struct.pack(layout, *(value if isinstance(value, tuple) else (value,)))
    with pytest.raises(error, match=message):
        fmt.decode_chunk(ACTIVE[:position] + raw + ACTIVE[position + len(raw) :], 0)


def test_a_chunk_larger_than_any_is_refused_although_its_bytes_are_there() -> None:
    size = fmt.CHUNK_MAX_BYTES + 1
    header = fmt.encode_chunk_header(ChunkHeader(0, 0, size, size, 0))
    with pytest.raises(CorruptManifest, match="committed are 1048577 bytes"):
        fmt.decode_chunk(header + bytes(size), 0)


@pytest.mark.parametrize(
    "record",
    [
        ManifestRecord(UploadStarted("k" * 65536)),
        ManifestRecord(CustomEvent(1, bytes(65536))),
        ManifestRecord(CompressionStarted(-1)),
        ManifestRecord(LocalEvicted(1 << 64)),
        ManifestRecord(LocalEvicted(0), segment_id=-1),
        ManifestRecord(LocalEvicted(0), 1, 1 << 64),
    ],
)
def test_what_no_field_can_hold_is_refused(record: ManifestRecord) -> None:
    with pytest.raises(ValueError, match="cannot be written|do not fit"):
        fmt.encode_record(record)


EVENTS: list[tuple[Event, int, str]] = [
    (DESCRIBED, 1, "c800000000000000fb67e5cf8b010000640000000000000088130000000000" + "00efbeadde7000000001"),
    (StartOffsetMoved(150), 2, "9600000000000000"),
    (SegmentNeedsRepair(RepairReason.INDEX_MISSING), 3, "0300"),
    (SegmentRepaired(RepairReason.OBJECT_CORRUPT), 4, "0500"),
]


@pytest.mark.parametrize(("event", "schema_id", "blob"), EVENTS)
def test_events(event: Event, schema_id: int, blob: str) -> None:
    payload = encode_event(event)
    assert payload == CustomEvent(schema_id, bytes.fromhex(blob))
    assert decode_event(payload) == event
    for wrong in (payload.blob[:-1], payload.blob + b"\0", b""):
        with pytest.raises(CorruptFile):
            decode_event(CustomEvent(schema_id, wrong))


def test_an_event_of_somebody_else_is_passed_over_and_a_wrong_reason_refused() -> None:
    assert decode_event(CustomEvent(5, b"whatever")) is None
    assert decode_event(CustomEvent(0, b"")) is None
    with pytest.raises(CorruptFile, match="reason 99"):
        decode_event(CustomEvent(3, struct.pack("<H", 99)))
    with pytest.raises(ValueError, match="cannot be written"):
        encode_event(StartOffsetMoved(-1))


U64 = st.integers(0, 2**64 - 1)
U32 = st.integers(0, 2**32 - 1)
TEXT = st.text(max_size=40)
ANY_PAYLOAD = st.one_of(
    st.builds(SegmentOpened, U64, U32),
    st.builds(SealSegment, U64, U64),
    st.builds(CompressionDone, U64, U32),
    st.builds(UploadStarted, TEXT),
    st.builds(UploadDone, TEXT, TEXT),
    st.builds(UploadFailed, TEXT, U32),
    st.builds(Tier2Deleted, TEXT),
    st.builds(HydrationFailed, U32),
    st.builds(SnapshotMarker, U64, U64, U64),
    st.builds(CustomEvent, U32, st.binary(max_size=60)),
)


@given(st.lists(st.builds(ManifestRecord, ANY_PAYLOAD, U64, U64, U64), max_size=6), U64)
def test_any_records_come_back(records: list[ManifestRecord], base: int) -> None:
    data = b"".join(map(fmt.encode_record, records))
    end = 64 + len(data)
    header = ChunkHeader(3, base, end, end, crc64_bitwise(data))
    found_header, placed = fmt.decode_chunk(fmt.encode_chunk_header(header) + data, 3)
    assert (found_header, [found.record for found in placed]) == (header, records)


@given(st.integers(0, 20), st.binary(max_size=80))
def test_any_bytes_are_a_payload_or_refused(record_type: int, data: bytes) -> None:
    try:
        payload = decode_payload(record_type, data)
    except CorruptFile:
        return
    assert encode_payload(payload) == (record_type, data)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_chunk_or_refused(data: bytes) -> None:
    for chunk in (data, ACTIVE[:64] + data, ACTIVE + data):
        try:
            fmt.decode_chunk(chunk, 0)
        except CorruptManifest:
            continue
        assert chunk.startswith(ACTIVE)
