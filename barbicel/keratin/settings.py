"""What can be set about a log, with the defaults and the limits that the file formats impose."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LogSettings"]

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Settings of one log; the three that the manifest keeps are written there for the tools."""

    # A segment is full at this size. One record larger than it gets a segment of its own.
    segment_max_bytes: int = GIB
    # A segment that holds records is sealed at this age; None never seals by age.
    segment_max_age_ms: int | None = None
    # One index entry each time that this many bytes were appended.
    index_stride_bytes: int = 64 * KIB
    # Read handles (a descriptor and its index) that stay open.
    max_open_segments: int = 128
    # The largest record that is accepted, headers and framing included.
    max_record_bytes: int = 128 * MIB
    # The manifest vouches anew after this many synced bytes: recovery scans no more than that.
    checkpoint_bytes: int = 128 * MIB
    # A growing segment is preallocated by its own size, within these bounds; a maximum of 0 turns it off.
    preallocate_min_bytes: int = 256 * KIB
    preallocate_max_bytes: int = 16 * MIB

    def __post_init__(self) -> None:
        for name, lowest, highest in _RANGES:
            value = getattr(self, name)
            if not lowest <= value <= highest:
                raise ValueError(f"{name} is {value}, allowed is {lowest} to {highest}")
        if self.segment_max_age_ms is not None and self.segment_max_age_ms < 1:
            raise ValueError(f"segment_max_age_ms is {self.segment_max_age_ms}, allowed is 1 or more")


U16, U32, U64 = (1 << 16) - 1, (1 << 32) - 1, (1 << 64) - 1

_RANGES = (
    ("segment_max_bytes", 1, U64),
    ("index_stride_bytes", 1, U32),
    ("max_open_segments", 1, U16),
    ("max_record_bytes", 1, U32),
    ("checkpoint_bytes", 1, U64),
    ("preallocate_min_bytes", 0, GIB),
    ("preallocate_max_bytes", 0, GIB),
)
