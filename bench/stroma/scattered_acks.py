"""A process that acks a million offsets out of order: `python -m bench.stroma.scattered_acks ORDER`."""

from __future__ import annotations

import json
import random
import sys
import time
from array import array
from typing import NamedTuple

from barbicel.codecs.stroma_events import Ack
from barbicel.stroma.state import GroupState
from bench.process import read_status

__all__ = ["ACKS", "ORDERS", "STRETCH", "Found"]

ACKS = 1_000_000
STRETCH = 100_000
# name → what it means; all begin behind offset 0, which stays unacked.
ORDERS = {
    "random order": "a million offsets that follow each other, in random order",
    "every second offset": "every second one of two million offsets, in random order",
}
STEPS = {"random order": 1, "every second offset": 2}


class Found(NamedTuple):
    # Microseconds for an ack, for each stretch.
    stretches_us: list[float]
    peak_kib: int
    most_ranges: int
    ranges: int


def main(order: str) -> None:
    step = STEPS[order]
    # An array, so that the offsets are not the memory that is measured.
    offsets = array("Q", range(1, ACKS * step + 1, step))
    random.Random(1).shuffle(offsets)
    state = GroupState()
    before_kib = read_status("VmHWM")
    stretches_us, most_ranges = [], 0
    for first in range(0, ACKS, STRETCH):
        stretches_us.append(_ack(state, offsets[first : first + STRETCH]))
        most_ranges = max(most_ranges, len(state.acked))
    if state.acked.covered != ACKS:
        raise RuntimeError(f"{state.acked.covered} offsets are acked, not {ACKS}")
    found = Found(stretches_us, read_status("VmHWM") - before_kib, most_ranges, len(state.acked))
    print(json.dumps(found._asdict()))


def _ack(state: GroupState, offsets: array[int]) -> float:
    start = time.thread_time()
    for offset in offsets:
        state.apply(Ack(offset))
    return (time.thread_time() - start) / len(offsets) * 1e6


if __name__ == "__main__":
    main(sys.argv[1])
