"""What can be set about a manifest log."""

from __future__ import annotations

from dataclasses import dataclass

from barbicel.codecs.aof2_manifest import CHUNK_MAX_BYTES

__all__ = ["CHUNK_MIN_BYTES", "ManifestSettings"]

CHUNK_MIN_BYTES = 16 << 10


@dataclass(frozen=True)
class ManifestSettings:
    """Defaults are the specification's where it has some."""

    # How large a chunk is made; one record that is larger makes its chunk grow.
    chunk_capacity_bytes: int = 256 << 10
    # A chunk that holds records is sealed so long after its last commit.
    rotation_period_ms: int = 250
    # A snapshot is due after so many records, or after so many sealed chunks.
    snapshot_records: int = 1000
    snapshot_chunks: int = 8
    # Chunk objects are bundled once there are so many that a snapshot covers.
    bundle_min_chunks: int = 64
    bundle_max_bytes: int = 16 << 20

    def __post_init__(self) -> None:
        if not CHUNK_MIN_BYTES <= self.chunk_capacity_bytes <= CHUNK_MAX_BYTES:
            raise ValueError(
                f"a chunk has {CHUNK_MIN_BYTES} to {CHUNK_MAX_BYTES} bytes, not {self.chunk_capacity_bytes}"
            )
        positive = (self.rotation_period_ms, self.snapshot_records, self.snapshot_chunks)
        if min(positive) < 1 or self.bundle_min_chunks < 2 or self.bundle_max_bytes < CHUNK_MAX_BYTES:
            raise ValueError(f"{self} has a number that is too small")
