"""How much is measured: as much as the figures need, or as little as shows that it runs at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from bench.kafka.scale import VARIABLE

__all__ = ["HUNDRED_BYTES", "ONE_KB", "SCALES", "VARIABLE", "ItemSize", "Scale", "chosen_scale"]


@dataclass(frozen=True, slots=True)
class ItemSize:
    name: str
    item_bytes: int


HUNDRED_BYTES = ItemSize("100 B", 100)
# Kestrel's kilobyte.
ONE_KB = ItemSize("1 KB", 1024)


@dataclass(frozen=True, slots=True)
class Scale:
    rounds: int
    uncounted_rounds: int
    sizes: tuple[ItemSize, ...]
    # What a round, or a scenario, has of the items that it has at full scale.
    share: float
    idle_connections: int

    def items(self, at_full_scale: int) -> int:
        return max(1, round(at_full_scale * self.share))


ALL_SIZES = (HUNDRED_BYTES, ONE_KB)

SCALES: Mapping[str, Scale] = {
    "full": Scale(5, 1, ALL_SIZES, share=1, idle_connections=8000),
    # Under a minute.
    "quick": Scale(1, 1, ALL_SIZES, share=0.25, idle_connections=2000),
    # For the test that all of this works.
    "tiny": Scale(1, 0, (ONE_KB,), share=0.01, idle_connections=50),
}


def chosen_scale() -> Scale:
    return SCALES[os.environ.get(VARIABLE, "full")]
