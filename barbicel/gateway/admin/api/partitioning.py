"""Which partition a key belongs to: what Kafka's Java clients do, so that a key's messages stay together.

murmur2 as Kafka has it, with its seed, over the bytes of the key. Pure.
"""

from __future__ import annotations

__all__ = ["murmur2", "partition_of"]

SEED = 0x9747B28C
M = 0x5BD1E995
R = 24
U32 = 0xFFFFFFFF
POSITIVE = 0x7FFFFFFF


def partition_of(key: bytes, partitions: int) -> int:
    return (murmur2(key) & POSITIVE) % partitions


def murmur2(data: bytes) -> int:
    """As an unsigned number."""
    hashed = (SEED ^ len(data)) & U32
    whole = len(data) & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * M & U32
        word = (word ^ word >> R) * M & U32
        hashed = (hashed * M & U32) ^ word
    if rest := data[whole:]:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * M & U32
    hashed = (hashed ^ hashed >> 13) * M & U32
    return hashed ^ hashed >> 15
