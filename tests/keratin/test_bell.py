"""The bell at the end of a wait; test_writer.py rings it from threads."""

from __future__ import annotations

import pytest

from barbicel.keratin.bell import Bell


class LateMutex:
    """It is free when the time to wait is over, and then somebody else has it first, who rings."""

    def __init__(self) -> None:
        self.bell = Bell(self)
        self.rings = 0

    def release(self) -> None:
        pass

    def acquire(self) -> None:
        if self.rings:
            self.rings -= 1
            self.bell.notify()


@pytest.mark.parametrize("rings", [0, 1])
def test_a_bell_that_rings_too_late_does_not_ring_again(rings: int) -> None:
    mutex = LateMutex()
    for _ in range(3):
        mutex.rings = rings
        mutex.bell.wait(0)
        mutex.bell.notify()  # nobody waits for it
        assert not mutex.bell._rung.acquire(blocking=False)
