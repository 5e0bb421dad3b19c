"""How things are measured: in rounds that alternate between ours and its peers, in a directory of its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

__all__ = ["OUT", "ROOT", "ROUNDS", "interleave", "scratch_directory"]

ROOT = Path(__file__).resolve().parent.parent
# Inside the checkout, so that data lies on a real disk and not in a /tmp that may be memory.
OUT = ROOT / "bench" / "out"
ROUNDS = 5


@contextmanager
def scratch_directory() -> Iterator[str]:
    """A directory for data that is gone afterwards, whatever happens."""
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=OUT, prefix="data-") as directory:
        yield directory


def interleave(contenders: Mapping[str, Callable[[], float]], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """What each contender measured in each round.

    The disk and the neighbours on this machine change pace from one second to the next: a round holds
    every contender, and every other round goes through them backwards.
    """
    results: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds):
        names = list(contenders)
        for name in names if number % 2 == 0 else reversed(names):
            os.sync()  # nobody's sync shall pay for what others left dirty
            results[name].append(contenders[name]())
    return results
