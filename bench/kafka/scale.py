"""How much is measured: as much as the figures need, or as little as shows that it runs at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["ONE_KB", "SCALES", "VARIABLE", "MessageSize", "Scale", "chosen_scale"]

# Not BARBICEL_*: the server, which inherits it, takes those for settings.
VARIABLE = "BENCH_SCALE"


@dataclass(frozen=True, slots=True)
class MessageSize:
    name: str
    size_bytes: int
    # Of one round at full scale: about a second, however fast the client is with messages of this size. In a
    # quarter of that it mattered most how soon a client gets going: the same row was 0.86 and 1.19.
    messages: int


HUNDRED_BYTES = MessageSize("100 B", 100, 400_000)
ONE_KB = MessageSize("1 KB", 1_000, 300_000)
TEN_KB = MessageSize("10 KB", 10_000, 30_000)


@dataclass(frozen=True, slots=True)
class Scale:
    rounds: int
    uncounted_rounds: int
    sizes: tuple[MessageSize, ...]
    # What a round has of the messages that it has at full scale.
    share: float
    # Messages of a round of the latency, one after the other.
    single_messages: int

    def messages(self, size: MessageSize) -> int:
        return max(1, round(size.messages * self.share))


ALL_SIZES = (HUNDRED_BYTES, ONE_KB, TEN_KB)

SCALES: Mapping[str, Scale] = {
    "full": Scale(rounds=5, uncounted_rounds=1, sizes=ALL_SIZES, share=1, single_messages=1500),
    # About a minute.
    "quick": Scale(rounds=1, uncounted_rounds=1, sizes=(ONE_KB,), share=0.3, single_messages=300),
    # For the test that all of this works.
    "tiny": Scale(rounds=1, uncounted_rounds=0, sizes=(ONE_KB,), share=0.005, single_messages=20),
}


def chosen_scale() -> Scale:
    return SCALES[os.environ.get(VARIABLE, "full")]
