"""Keratin's codec against goldens that were written from the specification (tests/golden/keratin).

Every parser is fed whole, growing byte by byte, with trailing data, with every bit flipped, and
with lies whose CRC is right.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barbicel.codecs import keratin_format as fmt
from barbicel.codecs import keratin_record as rec
from barbicel.codecs.keratin_format import FileHeader, Manifest, SealedSegment
from barbicel.codecs.keratin_record import Decoded, Record
from barbicel.errors import CorruptFile, UnknownVersion
from tests.golden import load, names
from tests.golden.crc32c_bitwise import crc32c as crc32c_bitwise

T = 1_700_000_000_000
BIG = 5_000_000_000
U32_MAX = 2**32 - 1
U64_MAX = 2**64 - 1

MANIFESTS = {
    "keratin/manifest-plain": Manifest(
        created_ts_ms=T,
        segment_max_bytes=1 << 30,
        index_stride_bytes=4096,
        max_open_segments=64,
        active_base_offset=0,
        next_offset=3,
    ),
    "keratin/manifest-sealed": Manifest(
        created_ts_ms=T,
        segment_max_bytes=1 << 20,
        index_stride_bytes=100,
        max_open_segments=64,
        active_base_offset=7000,
        next_offset=7012,
        segments=(SealedSegment(0, 2, 193, 88), SealedSegment(3, 6999, 1_048_576, 80_072)),
        log_start_offset=1,
        leader_epoch=7,
    ),
    "keratin/manifest-clean": Manifest(
        created_ts_ms=T,
        segment_max_bytes=1 << 30,
        index_stride_bytes=4096,
        max_open_segments=128,
        active_base_offset=42,
        next_offset=44,
        log_start_offset=42,
        leader_epoch=3,
        clean_shutdown=True,
    ),
}
EXTENDED_MANIFESTS = [name for name in MANIFESTS if name != "keratin/manifest-plain"]

LOG_HEADERS = {
    "keratin/log-plain": FileHeader(0, T),
    "keratin/log-span": FileHeader(BIG, T + 1000),
    "keratin/log-preallocated": FileHeader(42, T + 2000),
    "keratin/log-indexed": FileHeader(7000, T + 3000),
}
INDEX_HEADERS = {
    "keratin/log-indexed-idx": (fmt.INDEX, FileHeader(7000, T + 3000)),
    "keratin/log-indexed-tidx": (fmt.TIME_INDEX, FileHeader(7000, T + 3000)),
}
INDEX_ENTRIES = [(0, 0, 68), (2, 0, 158), (9, 0, 307), (10, 0, 343)]
TIME_ENTRIES = [(T + 3050, 0, 0), (T + 3090, 1, 0), (T + 3120, 10, 0)]


class Value(NamedTuple):
    """What a record says, without views of a buffer."""

    position: int
    offset: int
    span: int
    timestamp_ms: int
    headers: bytes
    payload: bytes
    lost: bool = False


RECORDS = {
    "keratin/log-plain": [
        Value(68, 0, 1, T + 1, b"", b"hello"),
        Value(109, 1, 1, T + 2, b"", b""),
        Value(145, 2, 1, T + 3, b"lang=en", b"world"),
    ],
    "keratin/log-span": [
        Value(68, BIG, 3, T + 1001, b"", b"three in one"),
        Value(120, BIG + 3, 2, T + 1002, b"k=v", b"two"),
        Value(166, BIG + 5, 4, T + 1002, b"", b"", lost=True),
        Value(206, BIG + 9, 1, T + 1003, b"", b"next"),
    ],
    "keratin/log-preallocated": [
        Value(68, 42, 1, T + 2001, b"", b"a"),
        Value(105, 43, 1, T + 2002, b"", b"bc"),
    ],
    "keratin/log-indexed": [
        Value(68, 7000, 1, T + 3050, b"", b"r0.."),
        Value(108, 7001, 1, T + 3090, b"", b"r1............"),
        Value(158, 7002, 1, T + 3070, b"", b"r2............"),
        Value(208, 7003, 5, T + 3010, b"", b"r3.................."),
        Value(268, 7008, 1, T + 3090, b"", b"r4."),
        Value(307, 7009, 1, T + 3080, b"", b""),
        Value(343, 7010, 1, T + 3120, b"", b"r6".ljust(64, b".")),
        Value(443, 7011, 1, T + 3130, b"", b"."),
    ],
}
RECORDS_END = {
    "keratin/log-plain": 193,
    "keratin/log-span": 246,
    "keratin/log-preallocated": 143,
    "keratin/log-indexed": 480,
}

# Every parser that answers with a value or CorruptFile.
PARSERS: dict[str, Callable[[bytes], object]] = {
    "manifest": fmt.decode_manifest,
    "log header": fmt.decode_log_header,
    "idx header": lambda data: fmt.decode_index_header(fmt.INDEX, data),
    "tidx header": lambda data: fmt.decode_index_header(fmt.TIME_INDEX, data),
}

# A parser, the golden bytes that are exactly its structure.
WHOLES: list[tuple[str, bytes]] = [
    *(("manifest", load(name)) for name in MANIFESTS),
    *(("log header", load(name)[:68]) for name in LOG_HEADERS),
    ("idx header", load("keratin/log-indexed-idx")[:72]),
    ("tidx header", load("keratin/log-indexed-tidx")[:72]),
]
HEADERS = [whole for whole in WHOLES if whole[0] != "manifest"]


def value_of(record: Record) -> Value:
    return Value(
        record.position,
        record.offset,
        record.span,
        record.timestamp_ms,
        bytes(record.headers),
        bytes(record.payload),
        record.lost,
    )


def encode(value: Value) -> bytes:
    if value.lost:
        return rec.encode_lost(value.offset, value.span, value.timestamp_ms)
    return b"".join(
        rec.encode_record(value.offset, value.span, value.timestamp_ms, value.headers, value.payload)
    )


def decode_log(data: bytes, name: str) -> Decoded:
    """Decode what lies behind the header of the golden `name`, of which `data` is a variation."""
    return rec.decode_records(memoryview(data)[68:], 68, LOG_HEADERS[name].base_offset)


def bit_flips(data: bytes, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    for bit in range(8 * start, 8 * end):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 0x80 >> bit % 8
        yield bit // 8, bytes(flipped)


def with_bytes(data: bytes, position: int, new: str) -> bytes:
    raw = bytes.fromhex(new)
    return data[:position] + raw + data[position + len(raw) :]


def reseal_header(header: bytes) -> bytes:
    return header[:-4] + crc32c_bitwise(header[:-4]).to_bytes(4, "big")


def reseal_manifest(manifest: bytes) -> bytes:
    return manifest[:16] + crc32c_bitwise(manifest[20:]).to_bytes(4, "big") + manifest[20:]


def reseal_record(record: bytes) -> bytes:
    return record[:-4] + crc32c_bitwise(record[2:-4]).to_bytes(4, "big")


def decode_one(record: bytes, next_offset: int = 0) -> Decoded:
    return rec.decode_records(memoryview(record), 0, next_offset)


# --- sizes ----------------------------------------------------------------------------------------


def test_the_independent_crc_is_crc32c() -> None:
    assert crc32c_bitwise(b"123456789") == 0xE3069283
    assert crc32c_bitwise(b"") == 0


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (fmt.LOG_HEADER_BYTES, 68),
        (fmt.INDEX_HEADER_BYTES, 72),
        (fmt.INDEX_ENTRY.size, 16),
        (fmt.TIME_ENTRY.size, 16),
        (rec.RECORD_HEAD.size, 32),
        (rec.RECORD_OVERHEAD_BYTES, 32 + 4),
        (rec.SPAN_BYTES, 4),
        (fmt.MANIFEST_HEADER.size, 20),
        (fmt.MANIFEST_PAYLOAD.size, 44),
        (fmt.MANIFEST_SEGMENT.size, 32),
        (fmt.MANIFEST_EXTENSION.size, 16),
        (fmt.manifest_bytes(0), 64 + 16),
        (fmt.manifest_bytes(5), 64 + 5 * 32 + 16),
    ],
)
def test_sizes(size: int, expected: int) -> None:
    assert size == expected


def test_every_golden_is_used() -> None:
    assert set(names("keratin")) == {*MANIFESTS, *LOG_HEADERS, *INDEX_HEADERS}


# --- goldens --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MANIFESTS)
def test_golden_manifest_decodes(name: str) -> None:
    assert fmt.decode_manifest(load(name)) == MANIFESTS[name]


@pytest.mark.parametrize("name", EXTENDED_MANIFESTS)
def test_golden_manifest_encodes(name: str) -> None:
    assert fmt.encode_manifest(MANIFESTS[name]) == load(name)
    assert fmt.manifest_bytes(len(MANIFESTS[name].segments)) == len(load(name))


def test_manifest_without_extension_is_written_back_with_one() -> None:
    manifest = fmt.decode_manifest(load("keratin/manifest-plain"))
    encoded = fmt.encode_manifest(manifest)
    assert len(encoded) == 64 + 16
    assert fmt.decode_manifest(encoded) == manifest


def test_manifest_without_extension_starts_at_its_first_segment() -> None:
    sealed = load("keratin/manifest-sealed")
    no_segment_0 = with_bytes(sealed[:64] + sealed[96:128], 60, "00000001")
    manifest = fmt.decode_manifest(reseal_manifest(with_bytes(no_segment_0, 10, "0000")))
    assert manifest.log_start_offset == 3
    assert manifest.segments[0].end_offset == 7000


def test_manifest_but_changes_one_field() -> None:
    manifest = MANIFESTS["keratin/manifest-clean"]
    changed = manifest.but(next_offset=45)
    assert changed.next_offset == 45
    assert changed.but(next_offset=44) == manifest


@pytest.mark.parametrize("name", LOG_HEADERS)
def test_golden_log_header(name: str) -> None:
    assert fmt.decode_log_header(load(name)) == LOG_HEADERS[name]
    assert fmt.encode_log_header(LOG_HEADERS[name]) == load(name)[:68]


@pytest.mark.parametrize("name", RECORDS)
def test_golden_records_decode(name: str) -> None:
    decoded = decode_log(load(name), name)
    assert [value_of(record) for record in decoded.records] == RECORDS[name]
    assert [record.size for record in decoded.records] == [len(encode(v)) for v in RECORDS[name]]
    assert decoded.position == RECORDS_END[name]
    last = RECORDS[name][-1]
    assert decoded.next_offset == last.offset + last.span == decoded.records[-1].end_offset


@pytest.mark.parametrize("name", RECORDS)
def test_golden_records_encode(name: str) -> None:
    encoded = b"".join(encode(value) for value in RECORDS[name])
    assert encoded == load(name)[68 : RECORDS_END[name]]


def test_record_encodes_from_views() -> None:
    value = RECORDS["keratin/log-span"][1]
    headers, payload = memoryview(value.headers), memoryview(bytearray(value.payload))
    pieces = rec.encode_record(value.offset, value.span, value.timestamp_ms, headers, payload)
    assert b"".join(pieces) == encode(value)
    assert pieces[1] is payload


@pytest.mark.parametrize("name", INDEX_HEADERS)
def test_golden_index_header(name: str) -> None:
    kind, header = INDEX_HEADERS[name]
    assert fmt.decode_index_header(kind, load(name)) == header
    assert fmt.encode_index_header(kind, header) == load(name)[:72]


def test_golden_index_entries() -> None:
    data = load("keratin/log-indexed-idx")[72:]
    assert list(fmt.INDEX_ENTRY.iter_unpack(data)) == INDEX_ENTRIES
    assert b"".join(fmt.INDEX_ENTRY.pack(*entry) for entry in INDEX_ENTRIES) == data


def test_golden_time_index_entries() -> None:
    data = load("keratin/log-indexed-tidx")[72:]
    assert list(fmt.TIME_ENTRY.iter_unpack(data)) == TIME_ENTRIES
    assert b"".join(fmt.TIME_ENTRY.pack(*entry) for entry in TIME_ENTRIES) == data


def test_golden_indexes_point_at_their_log() -> None:
    values = RECORDS["keratin/log-indexed"]
    position_of = {value.offset: value.position for value in values}
    time_of = {value.offset: value.timestamp_ms for value in values}
    assert all(position_of[7000 + rel] == position for rel, _, position in INDEX_ENTRIES)
    assert all(time_of[7000 + rel] == timestamp for timestamp, rel, _ in TIME_ENTRIES)


# --- cut short, and with trailing data ------------------------------------------------------------


@pytest.mark.parametrize(("parser", "whole"), WHOLES)
def test_every_prefix_is_refused(parser: str, whole: bytes) -> None:
    for size in range(len(whole)):
        with pytest.raises(CorruptFile):
            PARSERS[parser](whole[:size])
    PARSERS[parser](whole)


@pytest.mark.parametrize("trailing", [b"\0", b"KR", bytes(16), bytes(32), b"\xff" * 100])
@pytest.mark.parametrize("name", MANIFESTS)
def test_manifest_with_trailing_data_is_refused(name: str, trailing: bytes) -> None:
    with pytest.raises(CorruptFile, match="crc32c"):
        fmt.decode_manifest(load(name) + trailing)
    with pytest.raises(CorruptFile, match="bytes do not fit"):
        fmt.decode_manifest(reseal_manifest(load(name) + trailing))


@pytest.mark.parametrize(("parser", "whole"), HEADERS)
def test_header_ends_where_it_ends(parser: str, whole: bytes) -> None:
    assert PARSERS[parser](whole + b"\xff" * 100) == PARSERS[parser](whole)


@pytest.mark.parametrize("name", RECORDS)
def test_records_of_every_prefix(name: str) -> None:
    data, values = load(name)[: RECORDS_END[name]], RECORDS[name]
    starts = [value.position for value in values]
    ends = [*starts[1:], len(data)]
    for size in range(68, len(data) + 1):
        decoded = decode_log(data[:size], name)
        whole = sum(end <= size for end in ends)
        assert [value_of(record) for record in decoded.records] == values[:whole]
        assert decoded.problem is None
        assert decoded.position == (68 if whole == 0 else ends[whole - 1])
        at_least = size - decoded.position + 1
        most = ends[whole] - decoded.position if whole < len(ends) else 36
        assert at_least <= decoded.needed <= most


@pytest.mark.parametrize("name", RECORDS)
def test_bytes_that_were_needed_suffice(name: str) -> None:
    """Asking for just what was needed gets every record, in at most two asks a record."""
    data, size, asks = load(name)[: RECORDS_END[name]], 68, 0
    decoded = decode_log(data[:size], name)
    while decoded.position < len(data):
        size, asks = decoded.position + decoded.needed, asks + 1
        decoded = decode_log(data[:size], name)
    assert [value_of(record) for record in decoded.records] == RECORDS[name]
    assert asks <= 2 * len(RECORDS[name])


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("trailing", [bytes(36), bytes(4096), b"\xff" * 36, b"RK" + bytes(40)])
def test_records_with_trailing_data(name: str, trailing: bytes) -> None:
    decoded = decode_log(load(name)[: RECORDS_END[name]] + trailing, name)
    assert [value_of(record) for record in decoded.records] == RECORDS[name]
    assert decoded.position == RECORDS_END[name]
    assert decoded.needed == 0
    assert decoded.problem is not None
    assert "no record starts here" in decoded.problem


def test_nothing_is_no_problem() -> None:
    assert rec.decode_records(memoryview(b""), 1234, 99) == Decoded([], 1234, 99, 36, None)


def test_preallocated_zeros_are_reported_where_they_begin() -> None:
    name = "keratin/log-preallocated"
    decoded = decode_log(load(name), name)
    assert decoded.position == 143
    assert decoded.next_offset == 44
    assert decoded.problem == "no record starts here (magic 0x0000)"
    assert not any(load(name)[decoded.position :])


# --- one bit flipped ------------------------------------------------------------------------------


@pytest.mark.parametrize(("parser", "whole"), WHOLES)
def test_every_flipped_bit_is_refused(parser: str, whole: bytes) -> None:
    for byte, flipped in bit_flips(whole, 0, len(whole)):
        with pytest.raises(CorruptFile) as caught:
            PARSERS[parser](flipped)
        assert not isinstance(caught.value, UnknownVersion), byte
        assert caught.value.position is not None, byte
        assert 0 <= caught.value.position < len(whole), byte


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifest_bytes_outside_of_its_crc_are_checked_by_value(name: str) -> None:
    for byte, flipped in bit_flips(load(name), 0, 16):
        assert crc32c_bitwise(flipped[20:]) == int.from_bytes(flipped[16:20], "big")
        field = max(start for start in (0, 8, 10, 12) if start <= byte)
        with pytest.raises(CorruptFile) as caught:
            fmt.decode_manifest(flipped)
        assert caught.value.position == field
    for _, flipped in bit_flips(load(name), 16, len(load(name))):
        with pytest.raises(CorruptFile, match="crc32c does not match"):
            fmt.decode_manifest(flipped)


@pytest.mark.parametrize("name", RECORDS)
def test_every_flipped_bit_of_a_record_stops_the_scan_there(name: str) -> None:
    data, values = load(name)[: RECORDS_END[name]], RECORDS[name]
    starts = [value.position for value in values]
    for byte, flipped in bit_flips(data, 68, len(data)):
        damaged = max(i for i, start in enumerate(starts) if start <= byte)
        decoded = decode_log(flipped, name)
        assert [value_of(record) for record in decoded.records] == values[:damaged]
        assert decoded.position == starts[damaged]
        assert decoded.next_offset == values[damaged].offset
        # A length that now exceeds the buffer looks like a cut: only the caller knows the end.
        in_a_length = byte - starts[damaged] in range(8, 16)
        assert decoded.problem is not None or in_a_length
        if decoded.problem is None:
            assert decoded.needed > len(data) - decoded.position
        else:
            assert decoded.needed == 0


@pytest.mark.parametrize("name", RECORDS)
def test_record_bytes_outside_of_its_crc_are_its_magic(name: str) -> None:
    for value in RECORDS[name]:
        record = encode(value)
        for _, flipped in bit_flips(record, 0, 2):
            problem = decode_one(flipped, value.offset).problem
            assert problem is not None
            assert "magic" in problem


# --- lies with a right CRC ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("position", "new", "message"),
    [
        (0, "4b45524154494e01", "magic"),
        (8, "0000", "version 0"),
        (8, "0002", "version 2"),
        (10, "0000", "do not fit 2 segments and flags 0x0000"),
        (10, "0002", "unknown manifest flags"),
        (10, "8001", "unknown manifest flags"),
        (12, "00000013", "header_len 19"),
        (12, "ffffffff", "header_len 4294967295"),
        (60, "00000001", "do not fit 1 segments"),
        (60, "00000003", "do not fit 3 segments"),
        (60, "ffffffff", "do not fit 4294967295 segments"),
    ],
)
def test_manifest_that_lies(position: int, new: str, message: str) -> None:
    lie = reseal_manifest(with_bytes(load("keratin/manifest-sealed"), position, new))
    with pytest.raises(CorruptFile, match=message):
        fmt.decode_manifest(lie)


def test_manifest_flags_claim_a_missing_extension() -> None:
    with pytest.raises(CorruptFile, match="do not fit 0 segments and flags 0x0001"):
        fmt.decode_manifest(with_bytes(load("keratin/manifest-plain"), 10, "0001"))


@pytest.mark.parametrize(("parser", "whole"), HEADERS)
@pytest.mark.parametrize(
    ("position", "new", "message"),
    [
        (0, "4b4c4f4700000001", "magic"),
        (8, "0000", "version 0"),
        (8, "0002", "version 2"),
        (10, "0001", "flags 0x0001"),
        (10, "8000", "flags 0x8000"),
        (12, "00000000", "header_len 0"),
        (12, "ffffffff", "header_len 4294967295"),
    ],
)
def test_header_that_lies(parser: str, whole: bytes, position: int, new: str, message: str) -> None:
    lie = reseal_header(with_bytes(whole, position, new))
    with pytest.raises(CorruptFile, match=message) as caught:
        PARSERS[parser](lie)
    assert caught.value.position == position


@pytest.mark.parametrize(("parser", "whole"), HEADERS)
def test_sound_header_of_another_version_is_not_damage(parser: str, whole: bytes) -> None:
    newer = with_bytes(whole, 8, "0002")
    with pytest.raises(UnknownVersion):
        PARSERS[parser](reseal_header(newer))
    with pytest.raises(CorruptFile, match="crc32c does not match"):
        PARSERS[parser](newer)


@pytest.mark.parametrize("name", INDEX_HEADERS)
@pytest.mark.parametrize("entry_len", ["0000", "000f", "0018", "ffff"])
def test_index_with_another_entry_len_is_refused(name: str, entry_len: str) -> None:
    lie = reseal_header(with_bytes(load(name)[:72], 32, entry_len))
    with pytest.raises(CorruptFile, match="entry_len") as caught:
        fmt.decode_index_header(INDEX_HEADERS[name][0], lie)
    assert caught.value.position == 32


def test_no_file_passes_for_another() -> None:
    for parser, whole in WHOLES:
        for other in PARSERS.keys() - {parser}:
            with pytest.raises(CorruptFile):
                PARSERS[other](whole + bytes(80))


@pytest.mark.parametrize(
    ("position", "new", "message"),
    [
        (0, "4b45", "no record starts here (magic 0x4b45)"),
        (2, "0000", "record version 0"),
        (2, "0002", "record version 2"),
        (4, "0004", "unknown record flags 0x0004"),
        (4, "8001", "unknown record flags 0x8001"),
        (24, "0000000000000001", "says offset 1 where 0 belongs"),
        (24, "ffffffffffffffff", "says offset 18446744073709551615 where 0 belongs"),
        (32, "00000000", "claims a span and gives none"),
    ],
)
def test_record_that_lies(position: int, new: str, message: str) -> None:
    honest = encode(Value(0, 0, 3, T, b"k=v", b"payload"))
    decoded = decode_one(reseal_record(with_bytes(honest, position, new)))
    assert decoded.records == []
    assert decoded.needed == 0
    assert decoded.problem is not None
    assert message in decoded.problem


@pytest.mark.parametrize("headers", [b"", b"\0", b"\0\0", b"\0\0\3"])
def test_span_without_room_for_one_is_refused(headers: bytes) -> None:
    plain = encode(Value(0, 0, 1, T, headers, b"payload"))
    decoded = decode_one(reseal_record(with_bytes(plain, 4, "0001")))
    assert decoded.records == []
    assert decoded.problem == "the record claims a span and gives none"


def test_span_of_one_may_be_spelled_out() -> None:
    spelled = reseal_record(with_bytes(encode(Value(0, 0, 1, T, b"\0\0\0\1", b"x")), 4, "0001"))
    decoded = decode_one(spelled)
    assert [value_of(record) for record in decoded.records] == [Value(0, 0, 1, T, b"", b"x")]


@pytest.mark.parametrize("lengths", ["ffffffff00000000", "00000000ffffffff", "ffffffffffffffff"])
def test_declared_lengths_allocate_nothing(lengths: str) -> None:
    record = with_bytes(encode(Value(0, 0, 1, T, b"", b"payload")), 8, lengths)
    declared = sum(int(half, 16) for half in (lengths[:8], lengths[8:]))
    tracemalloc.start()
    try:
        decoded = decode_one(record)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert decoded == Decoded([], 0, 0, 36 + declared, None)
    assert peak < 64 * 1024


# --- round trips and garbage ----------------------------------------------------------------------

# Half of the payloads are full of things that begin like records.
payloads = st.one_of(
    st.binary(max_size=100),
    st.integers(0, 5000).map(lambda size: (b"KR\0\1\0\1\0\0 " * 556)[:size]),
)
spans = st.one_of(st.just(1), st.integers(2, 1000), st.just(rec.MAX_SPAN))
timestamps = st.one_of(st.integers(0, U64_MAX), st.just(U64_MAX))
contents = st.tuples(spans, timestamps, st.binary(max_size=64), payloads, st.booleans())


def place(position: int, offset: int, drawn: list[tuple[int, int, bytes, bytes, bool]]) -> list[Value]:
    values = []
    for span, timestamp_ms, headers, payload, lost in drawn:
        headers, payload = (b"", b"") if lost else (headers, payload)
        values.append(Value(position, offset, span, timestamp_ms, headers, payload, lost))
        position += len(encode(values[-1]))
        offset += span
    return values


@settings(deadline=None)
@given(
    position=st.integers(0, 2**40),
    offset=st.integers(0, 2**63),
    drawn=st.lists(contents, max_size=12),
)
def test_round_trip(position: int, offset: int, drawn: list[tuple[int, int, bytes, bytes, bool]]) -> None:
    values = place(position, offset, drawn)
    encoded = [encode(value) for value in values]
    for value, data in zip(values, encoded, strict=True):
        spelled_span = 4 if value.span > 1 or value.lost else 0
        assert len(data) == 36 + spelled_span + len(value.headers) + len(value.payload)
    decoded = rec.decode_records(memoryview(b"".join(encoded)), position, offset)
    assert [value_of(record) for record in decoded.records] == values
    assert [record.size for record in decoded.records] == [len(data) for data in encoded]
    assert decoded.position == position + sum(map(len, encoded))
    assert decoded.next_offset == offset + sum(value.span for value in values)
    assert decoded.problem is None
    assert decoded.needed == 36


@settings(deadline=None)
@given(
    cut=st.integers(0, 479 - 68),
    garbage=st.binary(min_size=1, max_size=200),
)
def test_what_lies_before_the_damage_is_kept(cut: int, garbage: bytes) -> None:
    name = "keratin/log-indexed"
    data, values = load(name), RECORDS[name]
    cut += 68
    damaged = data[:cut] + garbage + data[cut + len(garbage) :]
    first_changed = next(
        (i for i, pair in enumerate(zip(data, damaged, strict=False)) if len({*pair}) > 1), None
    )
    decoded = decode_log(damaged, name)
    ends = [*(value.position for value in values[1:]), len(data)]
    whole = len(values) if first_changed is None else sum(end <= first_changed for end in ends)
    assert [value_of(record) for record in decoded.records] == values[:whole]


garbage_bytes = st.one_of(
    st.binary(max_size=300),
    st.binary(max_size=300).map(lambda tail: rec.RECORD_START + tail),
    st.tuples(st.integers(0, 7), st.binary(max_size=300)).map(
        lambda drawn: b"KR\0\1\0" + bytes([drawn[0]]) + bytes(18) + b"\0\0\0\0\0\0\0\5" + drawn[1]
    ),
)


@settings(deadline=None)
@given(data=garbage_bytes, position=st.integers(0, 2**40), next_offset=st.integers(0, U64_MAX))
def test_garbage_is_a_problem_or_too_short(data: bytes, position: int, next_offset: int) -> None:
    for expected in (next_offset, 5):
        decoded = rec.decode_records(memoryview(data), position, expected)
        assert decoded.records == []
        assert decoded.position == position
        assert decoded.next_offset == expected
        assert (decoded.problem is None) == (decoded.needed > len(data))


@settings(deadline=None)
@given(data=garbage_bytes, start=st.integers(0, 400))
def test_garbage_can_be_searched(data: bytes, start: int) -> None:
    head = rec.peek_record(memoryview(data), start)
    assert head is None or head.size >= 36
    found = rec.find_record(data, start)
    assert found == -1 or data[found : found + 4] == b"KR\0\1"


@pytest.mark.parametrize("parser", PARSERS)
def test_garbage_is_a_corrupt_file(parser: str) -> None:
    magics = {whole_parser: whole[:16] for whole_parser, whole in WHOLES}

    @settings(deadline=None)
    @given(head=st.sampled_from([b"", magics[parser]]), tail=st.binary(max_size=200))
    def check(head: bytes, tail: bytes) -> None:
        with pytest.raises(CorruptFile):
            PARSERS[parser](head + tail)

    check()


@settings(deadline=None)
@given(
    created_ts_ms=st.integers(0, U64_MAX),
    next_offset=st.integers(0, U64_MAX),
    segments=st.lists(st.tuples(*[st.integers(0, U64_MAX)] * 4).map(SealedSegment._make), max_size=9),
    leader_epoch=st.integers(0, U32_MAX),
    clean_shutdown=st.booleans(),
)
def test_manifest_round_trip(
    created_ts_ms: int,
    next_offset: int,
    segments: list[SealedSegment],
    leader_epoch: int,
    clean_shutdown: bool,
) -> None:
    manifest = Manifest(
        created_ts_ms=created_ts_ms,
        segment_max_bytes=U64_MAX,
        index_stride_bytes=U32_MAX,
        max_open_segments=0xFFFF,
        active_base_offset=next_offset,
        next_offset=next_offset,
        segments=tuple(segments),
        log_start_offset=U64_MAX,
        leader_epoch=leader_epoch,
        clean_shutdown=clean_shutdown,
    )
    encoded = fmt.encode_manifest(manifest)
    assert len(encoded) == fmt.manifest_bytes(len(segments))
    assert fmt.decode_manifest(encoded) == manifest


# --- stepping over records and looking for them ---------------------------------------------------


@pytest.mark.parametrize("name", RECORDS)
def test_peek_steps_from_record_to_record(name: str) -> None:
    view = memoryview(load(name))
    sizes = [len(encode(value)) for value in RECORDS[name]]
    starts = [68, *accumulate(sizes, initial=68)][1:-1]
    heads = [rec.peek_record(view, start) for start in starts]
    assert heads == [
        rec.RecordHead(value.offset, value.span, size)
        for value, size in zip(RECORDS[name], sizes, strict=True)
    ]


@pytest.mark.parametrize(("position", "new"), [(0, "0000"), (2, "0002"), (4, "0004")])
def test_peek_finds_no_head(position: int, new: str) -> None:
    record = encode(Value(0, 0, 1, T, b"", b""))
    assert rec.peek_record(memoryview(record), 0) is not None
    assert rec.peek_record(memoryview(with_bytes(record, position, new)), 0) is None
    assert rec.peek_record(memoryview(record[:-1]), 0) is None
    assert rec.peek_record(memoryview(record), 1) is None


@pytest.mark.parametrize("name", RECORDS)
def test_find_record_finds_every_start(name: str) -> None:
    data, found = load(name), []
    at = rec.find_record(data, 0)
    while at != -1:
        found.append(at)
        at = rec.find_record(data, at + 1)
    assert found == [value.position for value in RECORDS[name]]


# --- file names -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("00000000000000000000.log", (0, "log")),
        ("00000000000000000007.idx", (7, "idx")),
        ("00000000005000000000.tidx", (BIG, "tidx")),
        ("18446744073709551615.log", (U64_MAX, "log")),
    ],
)
def test_segment_names(name: str, parsed: tuple[int, str]) -> None:
    assert fmt.parse_segment_name(name) == parsed
    assert fmt.segment_name(*parsed) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".log",
        "0.log",
        "0000000000000000000.log",  # 19 digits
        "000000000000000000000.log",  # 21 digits
        "18446744073709551616.log",  # 2^64
        "+0000000000000000001.log",
        "-0000000000000000001.log",
        " 0000000000000000001.log",
        "0000000000_000000001.log",
        "0x000000000000000001.log",
        "0000000000000000000a.log",
        "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠.log",  # Arabic-Indic digits  # noqa: RUF001
        "0000000000000000000１.log",  # a fullwidth one  # noqa: RUF001
        "0000000000000000000².log",
        "00000000000000000000",
        "00000000000000000000.",
        "00000000000000000000.LOG",
        "00000000000000000000.lo",
        "00000000000000000000.logs",
        "00000000000000000000.snap",
        "00000000000000000000.log ",
        "00000000000000000000.log\n",
        "00000000000000000000.log\0",
        "00000000000000000000.log.torn-1700000000000",
        "00000000000000000000.idx.corrupt-1700000000000",
        "00000000000000000000..log",
        "00000000000000000000_log",
        "./00000000000000000000.log",
        "x00000000000000000000.log",
        "manifest.bin",
        "LOCK",
    ],
)
def test_other_names_are_not_segments(name: str) -> None:
    assert fmt.parse_segment_name(name) is None
