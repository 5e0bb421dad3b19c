"""The codecs against the libraries that other clients use, cut and damaged streams, and bombs."""

from __future__ import annotations

import gzip
import resource
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import suppress

import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from barbicel.codecs.kafka.compression import (
    CODECS,
    BadCompression,
    Codec,
    DecompressedTooLarge,
    compress,
    decompress,
)
from tests.codecs.kafka.other_records import kafka_python_codec as kafka_python

MiB = 1 << 20
TEXT = b"".join(b"record %d of a batch that compresses somewhat; " % number for number in range(3000))
NOISE = b"".join(zlib.crc32(b"%d" % number).to_bytes(4, "big") for number in range(40_000))
SAMPLES = {"empty": b"", "one": b"a", "text": TEXT, "noise": NOISE, "zeros": bytes(300_000)}
COMPRESSING = [codec for codec in Codec if codec is not Codec.NONE]

each_codec = pytest.mark.parametrize("codec", Codec)
each_compressing = pytest.mark.parametrize("codec", COMPRESSING)
each_sample = pytest.mark.parametrize("data", SAMPLES.values(), ids=SAMPLES.keys())


def zstd_stream(data: bytes) -> bytes:
    """As Java does it: a frame that does not say how much it holds."""
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(data) + stream.flush()


def lz4_stream(data: bytes) -> bytes:
    """As Java does it: no content size; and with every checksum that a frame can have."""
    packed: bytes = lz4.frame.compress(data, store_size=False, content_checksum=True, block_checksum=True)
    return packed


# (codec, another implementation's compression)
OTHERS: list[tuple[Codec, Callable[[bytes], bytes]]] = [
    (Codec.GZIP, gzip.compress),
    (Codec.GZIP, kafka_python.gzip_encode),
    (Codec.SNAPPY, kafka_python.snappy_encode),
    (Codec.SNAPPY, lambda data: bytes(kafka_python.snappy_encode(data, xerial_compatible=False))),
    (Codec.LZ4, kafka_python.lz4_encode),
    (Codec.LZ4, lz4.frame.compress),
    (Codec.LZ4, lambda data: bytes(lz4.frame.compress(data, block_size=7, block_linked=True))),
    (Codec.LZ4, lz4_stream),
    (Codec.ZSTD, kafka_python.zstd_encode),
    (Codec.ZSTD, zstd_stream),
    (Codec.ZSTD, zstandard.ZstdCompressor(level=19, write_checksum=True).compress),
]
OTHERS_READ: dict[Codec, Callable[[bytes], bytes]] = {
    Codec.NONE: lambda data: data,
    Codec.GZIP: gzip.decompress,
    Codec.SNAPPY: kafka_python.snappy_decode,
    Codec.LZ4: lz4.frame.decompress,
    Codec.ZSTD: kafka_python.zstd_decode,
}


def test_ids_and_names_are_kafkas() -> None:
    assert {number: row.name for number, row in CODECS.items()} == {
        0: "none",
        1: "gzip",
        2: "snappy",
        3: "lz4",
        4: "zstd",
    }


@each_codec
@each_sample
def test_what_is_compressed_comes_back(codec: Codec, data: bytes) -> None:
    packed = compress(codec, data)
    assert decompress(codec, packed, len(data)) == data
    assert decompress(codec, memoryview(packed), len(data) + MiB) == data
    assert compress(codec, memoryview(bytearray(data))) == packed


@each_codec
@each_sample
def test_others_read_what_is_written_here(codec: Codec, data: bytes) -> None:
    # kafka-python does not know a xerial stream without a block, which no batch has, for it has a record.
    if codec is not Codec.SNAPPY or data:
        assert OTHERS_READ[codec](compress(codec, data)) == data


@pytest.mark.parametrize(("codec", "other"), OTHERS)
@each_sample
def test_what_others_write_is_read(codec: Codec, other: Callable[[bytes], bytes], data: bytes) -> None:
    assert decompress(codec, bytes(other(data)), len(data)) == data


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(Codec), st.binary(min_size=1, max_size=500), st.integers(1, 400))
def test_anything_comes_back(codec: Codec, data: bytes, times: int) -> None:
    packed = compress(codec, data * times)
    assert decompress(codec, packed, len(data) * times) == data * times
    assert OTHERS_READ[codec](packed) == data * times


@each_codec
def test_a_byte_more_than_allowed_is_refused(codec: Codec) -> None:
    for data in (TEXT, NOISE, b"ab"):
        with pytest.raises(DecompressedTooLarge, match=f"holds more than the allowed {len(data) - 1} bytes"):
            decompress(codec, compress(codec, data), len(data) - 1)


@each_compressing
def test_a_stream_cut_anywhere_is_refused(codec: Codec) -> None:
    packed = compress(codec, TEXT[:200])
    for size in range(len(packed)):
        if codec is Codec.SNAPPY and size == 16:
            assert decompress(codec, packed[:size], 200) == b""  # xerial's header has no end of its own
            continue
        with pytest.raises(BadCompression):
            decompress(codec, packed[:size], 200)


@pytest.mark.parametrize(("codec", "other"), OTHERS)
def test_what_others_write_is_refused_when_cut(codec: Codec, other: Callable[[bytes], bytes]) -> None:
    packed = bytes(other(TEXT))
    for size in (1, len(packed) // 2, len(packed) - 4, len(packed) - 1):
        with pytest.raises(BadCompression):
            decompress(codec, packed[:size], len(TEXT))


@each_compressing
def test_something_after_the_stream_is_refused(codec: Codec) -> None:
    for junk in (b"\0", b"junk and more junk"):
        with pytest.raises(BadCompression):
            decompress(codec, compress(codec, TEXT) + junk, len(TEXT) + 100)


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD])
def test_frames_one_after_the_other_are_one_stream(codec: Codec) -> None:
    packed = compress(codec, TEXT) + compress(codec, NOISE)
    assert decompress(codec, packed, MiB) == TEXT + NOISE
    with pytest.raises(DecompressedTooLarge):
        decompress(codec, packed, len(TEXT + NOISE) - 1)


@each_compressing
def test_every_flipped_byte_gives_an_error_or_no_more_than_allowed(codec: Codec) -> None:
    packed = compress(codec, TEXT[:300])
    for position in range(len(packed)):
        for flip in (0x01, 0x80, 0xFF):
            damaged = bytearray(packed)
            damaged[position] ^= flip
            with suppress(BadCompression):
                assert len(decompress(codec, damaged, 300)) <= 300


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(COMPRESSING), st.sampled_from([0, 4, 8, 16]), st.binary(max_size=100))
def test_garbage_gives_an_error_or_no_more_than_allowed(codec: Codec, keep: int, data: bytes) -> None:
    with suppress(BadCompression):
        assert len(decompress(codec, compress(codec, TEXT)[:keep] + data, 1000)) <= 1000


def test_a_xerial_stream_is_what_java_expects() -> None:
    packed = compress(Codec.SNAPPY, bytes(70_000))
    assert packed[:16] == b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01"
    (first,) = struct.unpack_from(">i", packed, 16)
    assert packed[20:23] == b"\x80\x80\x02"  # the first block: 32 KiB, as snappy's varint
    assert packed[24 + first : 27 + first] == b"\x80\x80\x02"


def test_a_xerial_stream_with_its_versions_in_the_wrong_byte_order_is_read() -> None:
    packed = compress(Codec.SNAPPY, TEXT)
    swapped = packed[:8] + struct.pack("<ii", 1, 1) + packed[16:]
    assert decompress(Codec.SNAPPY, swapped, len(TEXT)) == TEXT


@pytest.mark.parametrize("length", [-1, 0, 5, 2**31 - 1, -(2**31)])
def test_a_xerial_block_with_an_impossible_length_is_refused(length: int) -> None:
    stream = compress(Codec.SNAPPY, b"")[:16] + struct.pack(">i", length) + b"\x01\0a!"[:4]
    with pytest.raises(BadCompression, match="cut short"):
        decompress(Codec.SNAPPY, stream, 1000)


def test_an_lz4_frame_has_independent_blocks_as_java_wants() -> None:
    info = lz4.frame.get_frame_info(compress(Codec.LZ4, TEXT))
    assert (info["block_linked"], info["block_size"], info["content_checksum"]) == (False, 65536, False)


def test_the_widest_zstd_window_that_kafka_can_be_told_to_use_is_read() -> None:
    wide = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)
    stream = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    packed = stream.compress(TEXT) + stream.flush()
    assert zstandard.get_frame_parameters(packed).window_size == 1 << 27
    assert decompress(Codec.ZSTD, packed, len(TEXT)) == TEXT


def gzip_bomb() -> bytes:
    """One mebibyte of zeros, flushed so that it stands alone, again and again."""
    stream = zlib.compressobj(9, zlib.DEFLATED, 31)
    start = stream.flush(zlib.Z_FULL_FLUSH)
    first = stream.compress(bytes(MiB)) + stream.flush(zlib.Z_FULL_FLUSH)
    again = stream.compress(bytes(MiB)) + stream.flush(zlib.Z_FULL_FLUSH)
    return start + first + again * 1023


def zstd_bomb(content_size: int | None = None) -> bytes:
    """Blocks that repeat one byte 128 Ki times, 4 bytes each. It may also say how much it holds."""
    block = (128 * 1024 << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    last = (1 << 1 | 1).to_bytes(3, "little") + b"\0"
    if content_size is None:
        return b"\x28\xb5\x2f\xfd\x00\x70" + block * 8192 + last
    return b"\x28\xb5\x2f\xfd\xc0\x70" + content_size.to_bytes(8, "little") + block * 8192


def lz4_bomb() -> bytes:
    frame = compress(Codec.LZ4, bytes(65536))
    return frame[:7] + frame[7:-4] * 16384 + frame[-4:]


def xerial_bomb() -> bytes:
    stream = compress(Codec.SNAPPY, bytes(32 * 1024))
    return stream[:16] + stream[16:] * 4096


BOMBS = [
    (Codec.GZIP, gzip_bomb()),
    (Codec.SNAPPY, xerial_bomb()),
    (Codec.SNAPPY, b"\x80\x80\x80\x80\x04" + b"\x00a" * 50),  # a raw block that claims 1 GiB
    (Codec.LZ4, lz4_bomb()),
    (Codec.ZSTD, zstd_bomb()),
    (Codec.ZSTD, zstd_bomb(1 << 30)),
]


@pytest.mark.parametrize(("codec", "bomb"), BOMBS, ids=lambda value: getattr(value, "name", ""))
def test_a_bomb_is_refused_and_costs_little_memory(codec: Codec, bomb: bytes) -> None:
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tracemalloc.start()
    try:
        with pytest.raises(DecompressedTooLarge):
            decompress(codec, bomb, MiB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * MiB
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 64 * 1024


def test_a_raw_snappy_block_may_not_claim_what_it_cannot_hold() -> None:
    with pytest.raises(BadCompression, match="5 bytes of snappy data cannot hold 1000"):
        decompress(Codec.SNAPPY, b"\xe8\x07\x00ab", MiB)


@pytest.mark.parametrize(
    ("codec", "bomb", "holds"),
    [
        (Codec.GZIP, compress(Codec.GZIP, bytes(16 * MiB)), 16 * MiB),
        (Codec.SNAPPY, compress(Codec.SNAPPY, bytes(16 * MiB)), 16 * MiB),
        (Codec.LZ4, compress(Codec.LZ4, bytes(16 * MiB)), 16 * MiB),
        (Codec.LZ4, bytes(lz4.frame.compress(bytes(16 * MiB), block_size=7, compression_level=12)), 16 * MiB),
        (Codec.ZSTD, zstd_bomb()[: 6 + 4 * 128] + zstd_bomb()[-4:], 16 * MiB),
    ],
)
def test_no_codec_does_better_than_its_ratio(codec: Codec, bomb: bytes, holds: int) -> None:
    assert len(decompress(codec, bomb, 17 * MiB)) == pytest.approx(holds, abs=1)
    assert holds <= len(bomb) * CODECS[codec].max_ratio
    assert holds > len(bomb) * CODECS[codec].max_ratio * 0.9
