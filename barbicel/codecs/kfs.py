"""`.kfs`, a sealed segment as one object: a header, Kafka's record batches as they are, a footer. Big-endian.

Owns the bytes of the header and the footer; `kfs_batches` looks at what lies between them, `kfs_index` has
the `.index` beside it, and docs/formats/kfs.md draws all three. Decoders raise CorruptFile with the position
in the whole file; the caller adds the path. Only the body has a CRC, so what is always zero is checked.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from barbicel.disk import Bytes
from barbicel.errors import CorruptFile, SegmentTooLarge, UnknownVersion

__all__ = [
    "KFS_FOOTER_BYTES",
    "KFS_HEADER_BYTES",
    "MAX_KFS_BYTES",
    "MAX_KFS_MESSAGES",
    "SegmentFooter",
    "SegmentHeader",
    "check_segment_size",
    "decode_segment_footer",
    "decode_segment_header",
    "encode_segment_footer",
    "encode_segment_header",
]

MAGIC = b"KAFS"
VERSION = 1
HEADER = struct.Struct(
    ">"
    "4s"  # magic
    "H"  # version
    "H"  # flags
    "q"  # base offset
    "i"  # message count
    "q"  # created timestamp
    "I"  # reserved
)
FOOTER_MAGIC = b"END!"
FOOTER = struct.Struct(
    ">"
    "I"  # CRC32: the CRC-32C of the body
    "q"  # last offset
    "4s"  # footer magic
)
KFS_HEADER_BYTES = HEADER.size
KFS_FOOTER_BYTES = FOOTER.size
VERSION_AT, FLAGS_AT, BASE_OFFSET_AT, MESSAGE_COUNT_AT, RESERVED_AT = 4, 6, 8, 16, 28
LAST_OFFSET_AT, FOOTER_MAGIC_AT = 4, 12

# Positions in the index and the count of messages are signed 32-bit numbers.
MAX_KFS_BYTES = 2**31 - 1
MAX_KFS_MESSAGES = 2**31 - 1


class SegmentHeader(NamedTuple):
    base_offset: int
    message_count: int
    created_ms: int


class SegmentFooter(NamedTuple):
    body_crc32c: int
    last_offset: int


def check_segment_size(body_bytes: int, message_count: int) -> None:
    """SegmentTooLarge if the format has no numbers for so much."""
    object_bytes = KFS_HEADER_BYTES + body_bytes + KFS_FOOTER_BYTES
    if object_bytes > MAX_KFS_BYTES:
        raise SegmentTooLarge(f"a .kfs of {object_bytes} bytes, the format ends at {MAX_KFS_BYTES}")
    if message_count > MAX_KFS_MESSAGES:
        raise SegmentTooLarge(f"a .kfs of {message_count} messages, the format ends at {MAX_KFS_MESSAGES}")


def encode_segment_header(header: SegmentHeader) -> bytes:
    return HEADER.pack(MAGIC, VERSION, 0, *header, 0)


def encode_segment_footer(footer: SegmentFooter) -> bytes:
    return FOOTER.pack(*footer, FOOTER_MAGIC)


def decode_segment_header(data: Bytes) -> SegmentHeader:
    """The header that `data` begins with."""
    if len(data) < KFS_HEADER_BYTES:
        raise CorruptFile(f"a header has {KFS_HEADER_BYTES} bytes, here are {len(data)}", position=0)
    magic, version, flags, base_offset, message_count, created_ms, reserved = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise CorruptFile(f"magic {magic!r} is not {MAGIC!r}", position=0)
    if version != VERSION:
        raise UnknownVersion(f"version {version} is not known", position=VERSION_AT)
    if flags:
        raise UnknownVersion(f"flags {flags:#06x} are not known", position=FLAGS_AT)
    if reserved:
        raise UnknownVersion(f"what {reserved:#010x} means is not known", position=RESERVED_AT)
    if base_offset < 0:
        raise CorruptFile(f"base offset {base_offset}", position=BASE_OFFSET_AT)
    if message_count < 0:
        raise CorruptFile(f"message count {message_count}", position=MESSAGE_COUNT_AT)
    return SegmentHeader(base_offset, message_count, created_ms)


def decode_segment_footer(data: Bytes, position: int) -> SegmentFooter:
    """All of `data` is the footer; `position` is where the file has it."""
    if len(data) != KFS_FOOTER_BYTES:
        raise CorruptFile(f"a footer has {KFS_FOOTER_BYTES} bytes, here are {len(data)}", position=position)
    body_crc32c, last_offset, magic = FOOTER.unpack(data)
    if magic != FOOTER_MAGIC:
        message = f"the footer's magic {magic!r} is not {FOOTER_MAGIC!r}"
        raise CorruptFile(message, position=position + FOOTER_MAGIC_AT)
    if last_offset < 0:
        raise CorruptFile(f"last offset {last_offset}", position=position + LAST_OFFSET_AT)
    return SegmentFooter(body_crc32c, last_offset)
