"""What Stroma's two files have in common: how a header, an offset, an epoch and metadata are written.

docs/formats/stroma.md draws every structure; `stroma_events` has the delta, `stroma_snapshot` the snapshot. A
decoder raises CorruptFile with the position inside the bytes it was given; the caller adds the path.
"""

from __future__ import annotations

import struct
from hashlib import sha256

from crc32c import crc32c

from barbicel.errors import CorruptFile, UnknownVersion

__all__ = [
    "CRC",
    "MAX_EPOCH",
    "MAX_GENERATION",
    "MAX_OFFSET",
    "NO_DEADLINE_MS",
    "VERSION",
    "check_generation",
    "check_header",
    "decode_epoch",
    "decode_metadata",
    "encode_epoch",
    "encode_length",
    "hash_name",
]

VERSION = 1
CRC = struct.Struct(">I")
NO_DEADLINE_MS = (1 << 64) - 1
NO_EPOCH = 0xFFFF_FFFF
NULL_LENGTH = 0xFFFF
# Positions are Kafka's: they fit a signed number. A message's offset is smaller: a position lies behind it.
MAX_OFFSET = (1 << 63) - 1
# Of leaders and of deliveries; the last number of the field says that there is none.
MAX_EPOCH = NO_EPOCH - 1
# Each compaction counts one up, so that no group gets there.
MAX_GENERATION = (1 << 63) - 1


def hash_name(name: str) -> int:
    """The hash of `<topic>-<partition>`, or of a group's name, as the snapshot header keeps it."""
    return int.from_bytes(sha256(name.encode("utf-8")).digest()[:8], "big")


def check_header(data: bytes, magic: bytes, size: int, known_flags: int) -> None:
    if len(data) < size:
        raise CorruptFile(f"a header has {size} bytes, this file has {len(data)}", position=0)
    if data[:8] != magic:
        raise CorruptFile(f"magic {data[:8]!r} is not {magic!r}", position=0)
    if CRC.unpack_from(data, size - CRC.size)[0] != crc32c(data[: size - CRC.size]):
        raise CorruptFile("the header's crc32c does not match", position=size - CRC.size)
    version, flags, header_len = struct.unpack_from(">HHI", data, 8)
    # Behind a good CRC an unknown version is no damage: a newer program wrote this, hands off.
    if version != VERSION or flags & ~known_flags:
        raise UnknownVersion(f"version {version} with flags {flags:#06x} is not known", position=8)
    if header_len != size:
        raise CorruptFile(f"header_len {header_len}, only {size} is known", position=12)


def check_generation(generation: int, position: int) -> None:
    if generation > MAX_GENERATION:
        raise CorruptFile(f"generation {generation}, at most {MAX_GENERATION} is possible", position=position)


def encode_epoch(leader_epoch: int | None) -> int:
    if leader_epoch is None:
        return NO_EPOCH
    if not 0 <= leader_epoch <= MAX_EPOCH:
        raise ValueError(f"leader epoch {leader_epoch}, allowed is None or 0 to {MAX_EPOCH}")
    return leader_epoch


def encode_length(metadata: bytes | None) -> int:
    if metadata is None:
        return NULL_LENGTH
    if len(metadata) >= NULL_LENGTH:
        raise ValueError(f"metadata has {len(metadata)} bytes, at most {NULL_LENGTH - 1} are allowed")
    return len(metadata)


def decode_epoch(field: int) -> int | None:
    return None if field == NO_EPOCH else field


def decode_metadata(rest: bytes, length: int, position: int) -> bytes | None:
    """`rest` must be exactly what the length field says."""
    if len(rest) != (0 if length == NULL_LENGTH else length):
        raise CorruptFile(f"metadata_len {length} with {len(rest)} bytes", position=position)
    return None if length == NULL_LENGTH else rest
