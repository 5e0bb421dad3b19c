"""Snapshots of a catalogue against a golden that was written from the specification.

Fed whole, cut at every byte, with trailing data, with every bit flipped, and with lies whose CRC is right.
"""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barbicel.codecs.aof2_events import RepairReason, SegmentDescribed
from barbicel.codecs.manifest_snapshot import (
    CatalogueImage,
    ManifestSnapshot,
    PendingDelete,
    Progress,
    SegmentEntry,
    decode_manifest_snapshot,
    encode_manifest_snapshot,
)
from barbicel.errors import CorruptFile, UnknownVersion
from tests.golden import load
from tests.golden.crc64_bitwise import crc64_nvme as crc64_bitwise

T = 1_700_000_000_000
KEY = "c/t/3/segment-00000000000000000100.kfs"
GOLDEN = load("aof2/snapshot")
SNAPSHOT = ManifestSnapshot(
    stream_id="orders-3",
    snapshot_id=3,
    created_ms=T,
    chunk_index=7,
    chunk_offset=64,
    next_record=1000,
    catalogue=CatalogueImage(
        start_offset=150,
        segments=(
            SegmentEntry(
                segment_id=100,
                base_offset=100,
                last_offset=199,
                durable_bytes=65536,
                segment_crc64=0x0123456789ABCDEF,
                compressed_bytes=4096,
                reclaimed_bytes=65536,
                source_tier=2,
                resident_bytes=77,
                epoch=4,
                job_id=9,
                dictionary_id=1,
                compression_reason=3,
                upload_reason=503,
                upload_failures=2,
                hydration_reason=6,
                compression=Progress.DONE,
                upload=Progress.DONE,
                hydration=Progress.FAILED,
                repair=RepairReason.INDEX_MISSING,
                is_opened=True,
                is_sealed=True,
                is_local=False,
                is_delete_queued=True,
                key=KEY,
                etag="étag",
                description=SegmentDescribed(200, T - 5, 100, 5000, 0xDEADBEEF, 112, True),
            ),
            SegmentEntry(200, upload=Progress.STARTED, key="k"),
        ),
        deletes=(PendingDelete(KEY, 100),),
    ),
)
SEGMENT_COUNT, DELETE_COUNT, STREAM_ID_LEN, ENTRY = 80, 84, 88, 96 + 8


def reseal(data: bytes) -> bytes:
    """The same bytes with the right length and CRC."""
    data = data[:24] + struct.pack("<Q", len(data)) + data[32:]
    return data[:16] + struct.pack("<Q", crc64_bitwise(data[:16] + data[24:])) + data[24:]


def patched(position: int, new: bytes) -> bytes:
    return reseal(GOLDEN[:position] + new + GOLDEN[position + len(new) :])


def test_the_golden_both_ways() -> None:
    assert encode_manifest_snapshot(SNAPSHOT) == GOLDEN
    assert decode_manifest_snapshot(GOLDEN) == decode_manifest_snapshot(memoryview(GOLDEN)) == SNAPSHOT


def test_cut_anywhere_or_longer_it_is_refused() -> None:
    for size in range(len(GOLDEN)):
        with pytest.raises(CorruptFile):
            decode_manifest_snapshot(GOLDEN[:size])
        if size >= 96:
            with pytest.raises(CorruptFile):
                decode_manifest_snapshot(reseal(GOLDEN[:size]))
    for trailing in (GOLDEN + b"\0", reseal(GOLDEN + b"\0")):
        with pytest.raises(CorruptFile):
            decode_manifest_snapshot(trailing)


def test_every_flipped_bit_is_found() -> None:
    for bit in range(8 * len(GOLDEN)):
        flipped = bytearray(GOLDEN)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptFile):
            decode_manifest_snapshot(flipped)


LIES = [
    (8, struct.pack("<I", 2), UnknownVersion, "version 2"),
    (12, struct.pack("<I", 104), UnknownVersion, "header_len 104"),
    (SEGMENT_COUNT, struct.pack("<I", 0xFFFFFFFF), CorruptFile, "4294967295 elements"),
    (SEGMENT_COUNT, struct.pack("<I", 1), CorruptFile, "bytes too many|cannot be read"),
    (DELETE_COUNT, struct.pack("<I", 0xFFFFFFFF), CorruptFile, "4294967295 elements"),
    (DELETE_COUNT, struct.pack("<I", 0), CorruptFile, "bytes too many"),
    (STREAM_ID_LEN, struct.pack("<H", 0xFFFF), CorruptFile, "a text of 65535 bytes"),
    (96, b"\xff\xfe", CorruptFile, "utf-8"),
    (ENTRY + 100, b"\x04", CorruptFile, "4 is not a valid Progress"),
    (ENTRY + 103, b"\x09", CorruptFile, "9 is not a valid RepairReason"),
    (ENTRY + 104, b"\x20", CorruptFile, "flags 0x20"),
    (ENTRY + 108, struct.pack("<H", 0xFFFF), CorruptFile, "a text of 65535 bytes"),
]


@pytest.mark.parametrize(("position", "new", "error", "message"), LIES)
def test_a_lie_with_the_right_crc_is_refused(
    position: int, new: bytes, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        decode_manifest_snapshot(patched(position, new))


def test_a_declared_count_allocates_nothing() -> None:
    lie = patched(SEGMENT_COUNT, struct.pack("<I", 0xFFFFFFFF))
    tracemalloc.start()
    with pytest.raises(CorruptFile):
        decode_manifest_snapshot(lie)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


U64 = st.integers(0, 2**64 - 1)
ENTRIES = st.tuples(
    U64,
    U64,
    st.sampled_from(Progress),
    st.sampled_from(RepairReason),
    st.booleans(),
    st.booleans(),
    st.text(max_size=30),
    st.none() | st.just(SegmentDescribed(-1, -1, 0, 0, 0, 0, False)),
).map(
    lambda fields: SegmentEntry(
        fields[0],
        base_offset=fields[1],
        upload=fields[2],
        repair=fields[3],
        is_opened=fields[4],
        is_local=fields[5],
        key=fields[6],
        etag=fields[6][::-1],
        description=fields[7],
    )
)


@given(
    st.lists(ENTRIES, max_size=4), st.lists(st.builds(PendingDelete, st.text(max_size=9), U64), max_size=3)
)
def test_any_catalogue_comes_back(entries: list[SegmentEntry], deletes: list[PendingDelete]) -> None:
    snapshot = ManifestSnapshot("nœud-0", 1, 2, 3, 4, 5, CatalogueImage(6, tuple(entries), tuple(deletes)))
    assert decode_manifest_snapshot(encode_manifest_snapshot(snapshot)) == snapshot


@given(st.binary(max_size=400))
def test_any_bytes_are_a_snapshot_or_refused(data: bytes) -> None:
    for lie in (data, reseal(GOLDEN[:96] + data)):
        with pytest.raises(CorruptFile):
            decode_manifest_snapshot(lie)
