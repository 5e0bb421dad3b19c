"""A directory of journals: queues of every kind, enough of them that tasks work side by side."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.golden.kestrel.writer import Step, addx, confirm, join, remove, reserve, unremove

__all__ = ["FIRST_MS", "write_journals"]

FIRST_MS = 1_300_000_000_000
NEVER_MS = 9_999_999_999_999


def write_journals(directory: Path, queues: int = 4, items: int = 60) -> Path:
    """`queue-N` with one file or several, one queue with a child, one that is empty, one that is torn."""
    directory.mkdir()
    random = Random(7)
    for number in range(queues):
        steps = _operations(random, number, items)
        cut = len(steps) // 3
        if number % 2:
            (directory / f"queue-{number}.{FIRST_MS + cut}").write_bytes(join(steps[:cut]))
            (directory / f"queue-{number}").write_bytes(join(steps[cut:]))
        else:
            (directory / f"queue-{number}").write_bytes(join(steps))
    shared = [addx(b"shared %d" % number, FIRST_MS + number) for number in range(10)]
    (directory / "fans").write_bytes(join(shared))
    (directory / "fans+audit").write_bytes(join([*shared[3:], addx(b"audit only", FIRST_MS + 50)]))
    (directory / "empty").write_bytes(join([addx(b"gone", FIRST_MS), remove()]))
    return directory


def _operations(random: Random, queue: int, items: int) -> list[Step]:
    """Items with and without expiry; some read, some opened and closed, some opened and given back."""
    steps: list[Step] = []
    waiting, xid, open_xids = 0, 0, list[int]()
    for number in range(items):
        expiry_ms = NEVER_MS if number % 5 == 0 else 0
        steps.append(addx(b"%d:%d " % (queue, number) * (1 + number % 9), FIRST_MS + number, expiry_ms))
        waiting += 1
        chosen = random.random()
        if waiting > 3 and chosen < 0.3:
            steps.append(remove())
            waiting -= 1
        elif waiting > 3 and chosen < 0.5:
            xid += 1
            steps.append(reserve(xid))
            open_xids.append(xid)
            waiting -= 1
        elif open_xids and chosen < 0.7:
            steps.append((confirm if chosen < 0.6 else unremove)(open_xids.pop(0)))
    return steps
