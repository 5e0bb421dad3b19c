"""Kafka's compression codecs, each with a decompression that cannot give more than it was allowed to.

The invariant: no input, however it lies about its size, makes `decompress` hold more than a small multiple of
`max_bytes`, and a stream that is cut short or followed by something else is an error, never less data.

gzip is zlib's, the others are cramjam's, which decompress into a buffer of ours: that is the bound. The
`zstandard` package is not used: its bounded reader takes a cut frame for the end of the data.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

import cramjam

from barbicel.disk import Bytes
from barbicel.errors import BarbicelError

__all__ = ["CODECS", "BadCompression", "Codec", "CodecRow", "DecompressedTooLarge", "compress", "decompress"]

GZIP_WINDOW_BITS = 31  # 15, and 16 more for gzip's own header and trailer
GZIP_LEVEL = 6
ZSTD_LEVEL = 3

XERIAL_MAGIC = b"\x82SNAPPY\0"
XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # version, oldest compatible version
XERIAL_BLOCK_BYTES = 32 * 1024
XERIAL_LENGTH = struct.Struct(">i")

# The magic, FLG 0x60 (version 1, independent blocks: Java's reader refuses linked ones), BD 0x40 (blocks of
# up to 64 KiB), and the checksum that these two bytes have.
LZ4_HEADER = bytes.fromhex("04224d18 60 40 82")
LZ4_BLOCK_BYTES = 64 * 1024
LZ4_LENGTH = struct.Struct("<I")
LZ4_STORED = 1 << 31
LZ4_END = LZ4_LENGTH.pack(0)

FIRST_GUESS_RATIO = 8
NO_ROOM = "failed to write whole buffer"  # how cramjam says that the output did not fit


class Codec(IntEnum):
    """Bits 0 to 2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class BadCompression(BarbicelError):
    """Bytes that are not what their codec writes."""


class DecompressedTooLarge(BadCompression):
    """There is more inside than the caller allows."""

    def __init__(self, codec: Codec, max_bytes: int) -> None:
        super().__init__(f"the {codec.name.lower()} data holds more than the allowed {max_bytes} bytes")


class CodecRow(NamedTuple):
    """One codec. No input of n bytes decompresses to more than n * `max_ratio`."""

    name: str
    compress: Callable[[Bytes], bytes]
    decompress: Callable[[Bytes, int], bytes]
    max_ratio: int


def compress(codec: Codec, data: Bytes) -> bytes:
    return CODECS[codec].compress(data)


def decompress(codec: Codec, data: Bytes, max_bytes: int) -> bytes:
    """The data inside. DecompressedTooLarge: it is more than max_bytes. BadCompression: it is damaged."""
    return CODECS[codec].decompress(data, max_bytes)


def _copy(data: Bytes, max_bytes: int) -> bytes:
    if len(data) > max_bytes:
        raise DecompressedTooLarge(Codec.NONE, max_bytes)
    return bytes(data)


def _gzip(data: Bytes) -> bytes:
    return zlib.compress(data, GZIP_LEVEL, GZIP_WINDOW_BITS)


def _gunzip(data: Bytes, max_bytes: int) -> bytes:
    stream = zlib.decompressobj(GZIP_WINDOW_BITS)
    try:
        # One byte more than allowed, for zlib stops at the limit before it has seen the trailer.
        inside = stream.decompress(data, max_bytes + 1)
    except zlib.error as problem:
        raise BadCompression(f"the gzip data is damaged: {problem}") from None
    if len(inside) > max_bytes:
        raise DecompressedTooLarge(Codec.GZIP, max_bytes)
    if not stream.eof:
        raise BadCompression("the gzip data is cut short")
    if stream.unused_data:
        raise BadCompression(f"{len(stream.unused_data)} bytes follow the gzip data")
    return inside


def _snap(data: Bytes) -> bytes:
    """In xerial's framing, which every client reads."""
    pieces = [XERIAL_HEADER]
    for block in _blocks(data, XERIAL_BLOCK_BYTES):
        packed = bytes(cramjam.snappy.compress_raw(block))
        pieces += (XERIAL_LENGTH.pack(len(packed)), packed)
    return b"".join(pieces)


def _unsnap(data: Bytes, max_bytes: int) -> bytes:
    """Java frames its snappy as the xerial library does, others send one raw block."""
    if data[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        return _unsnap_block(data, max_bytes, max_bytes)
    pieces: list[bytes] = []
    left_bytes = max_bytes
    for block in _xerial_blocks(memoryview(data)):
        pieces.append(_unsnap_block(block, left_bytes, max_bytes))
        left_bytes -= len(pieces[-1])
    return b"".join(pieces)


def _xerial_blocks(view: memoryview) -> Iterator[memoryview]:
    # The two versions are not looked at: there is one, and some clients write it in the wrong byte order.
    start, size = len(XERIAL_HEADER), len(view)
    while start != size:
        start += XERIAL_LENGTH.size
        length = XERIAL_LENGTH.unpack_from(view, start - XERIAL_LENGTH.size)[0] if start <= size else -1
        if not 0 < length <= size - start:
            raise BadCompression("a block of the snappy data is cut short")
        yield view[start : start + length]
        start += length


def _unsnap_block(block: Bytes, left_bytes: int, max_bytes: int) -> bytes:
    try:
        length = cramjam.snappy.decompress_raw_len(block)
        if length > left_bytes:
            raise DecompressedTooLarge(Codec.SNAPPY, max_bytes)
        if length > len(block) * SNAPPY_MAX_RATIO:
            raise BadCompression(f"{len(block)} bytes of snappy data cannot hold {length}, as they claim")
        inside = bytearray(length)
        cramjam.snappy.decompress_raw_into(block, inside)
    except cramjam.DecompressionError as problem:
        raise BadCompression(f"the snappy data is damaged: {problem}") from None
    return bytes(inside)


def _lz4(data: Bytes) -> bytes:
    """A frame of independent blocks: cramjam's own frames are of linked ones."""
    pieces: list[Bytes] = [LZ4_HEADER]
    for block in _blocks(data, LZ4_BLOCK_BYTES):
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            pieces += (LZ4_LENGTH.pack(len(packed)), packed)
        else:
            pieces += (LZ4_LENGTH.pack(len(block) | LZ4_STORED), block)
    pieces.append(LZ4_END)
    return b"".join(pieces)


def _unlz4(data: Bytes, max_bytes: int) -> bytes:
    return _into_growing_buffer(Codec.LZ4, cramjam.lz4.decompress_into, data, max_bytes)


def _zstd(data: Bytes) -> bytes:
    return bytes(cramjam.zstd.compress(data, ZSTD_LEVEL))


def _unzstd(data: Bytes, max_bytes: int) -> bytes:
    return _into_growing_buffer(Codec.ZSTD, cramjam.zstd.decompress_into, data, max_bytes)


def _into_growing_buffer(
    codec: Codec, decompress_into: Callable[[Bytes, bytearray], int], data: Bytes, max_bytes: int
) -> bytes:
    """Start with room for what is usual: frames rarely say how much they hold, and may lie if they do."""
    room = min(max(len(data), 1024) * FIRST_GUESS_RATIO, max_bytes)
    while True:
        buffer = bytearray(room)
        try:
            length = decompress_into(data, buffer)
        except cramjam.DecompressionError as problem:
            if str(problem) != NO_ROOM:
                raise BadCompression(f"the {codec.name.lower()} data is damaged: {problem}") from None
            if room == max_bytes:
                raise DecompressedTooLarge(codec, max_bytes) from None
            room = min(room * FIRST_GUESS_RATIO, max_bytes)
        else:
            return bytes(memoryview(buffer)[:length])


def _blocks(data: Bytes, block_bytes: int) -> Iterator[memoryview]:
    view = memoryview(data)
    for start in range(0, len(view), block_bytes):
        yield view[start : start + block_bytes]


# The most that one byte can stand for. deflate: 2 bits for 258 bytes; snappy: a copy, 3 bytes for 64; lz4: a
# byte of a match's length for 255; zstd: a block of one repeated byte, 4 bytes for 128 KiB.
SNAPPY_MAX_RATIO = 22

CODECS: Mapping[int, CodecRow] = {
    Codec.NONE: CodecRow("none", bytes, _copy, 1),
    Codec.GZIP: CodecRow("gzip", _gzip, _gunzip, 1032),
    Codec.SNAPPY: CodecRow("snappy", _snap, _unsnap, SNAPPY_MAX_RATIO),
    Codec.LZ4: CodecRow("lz4", _lz4, _unlz4, 255),
    Codec.ZSTD: CodecRow("zstd", _zstd, _unzstd, 32 * 1024),
}
