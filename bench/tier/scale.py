"""How much is measured: as much as the figures need, or as little as shows that it runs at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from bench.kafka.scale import VARIABLE

__all__ = ["Scale", "chosen_scale"]

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Scale:
    rounds: int
    segment_bytes: int
    # Sealed segments of each partition; what follows them is sealed, and uploaded, at the end.
    segments: int
    # One of each partition, where it is only seen how slow that is: of plain batches, and of small ones.
    plain_segment_bytes: int
    small_segment_bytes: int
    # Of 1 KB, that a caught-up consumer takes while segments are uploaded.
    followed_messages: int


SCALES: Mapping[str, Scale] = {
    "full": Scale(3, 64 * MIB, 6, 16 * MIB, 2 * MIB, 800_000),
    "quick": Scale(1, 64 * MIB, 1, 4 * MIB, 1 * MIB, 30_000),
    # For the test that all of this works.
    "tiny": Scale(1, 1 * MIB, 1, 1 * MIB, 1 * MIB, 500),
}


def chosen_scale() -> Scale:
    return SCALES[os.environ.get(VARIABLE, "full")]
