"""What is looked at all the time, on a real broker with a clock of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.task import Clock

from barbicel.disk import RealDisk, Space
from barbicel.errors import BarbicelError
from barbicel.gateway.admin.health import Health
from barbicel.gateway.admin.pulse import BEAT_SECONDS, Pulse
from barbicel.stroma import GroupFileSizes


class Broker:
    """As much of one as is looked at: no topics, and threads that are none."""

    def __init__(self, directory: Path) -> None:
        clock: Any = Clock()
        self.reactor: Any = clock
        self.disk: Any = RealDisk()
        self.data_directory = str(directory)
        self.topics: list[Any] = []
        self.offsets = self.store = self
        self.failures: dict[Any, Any] = {}
        self.sync_lag_ms = 7

    def file_sizes(self) -> GroupFileSizes:
        return GroupFileSizes(30, 20, 1000)

    def clock(self) -> int:
        return int(self.reactor.seconds() * 1000)

    def read_cold(self, function: Any) -> Deferred[Any]:
        return maybeDeferred(function)


@pytest.fixture
def broker(tmp_path: Path) -> Any:
    return Broker(tmp_path)


def test_a_timer_that_comes_late_is_the_lag(broker: Any) -> None:
    pulse = Pulse(broker)
    pulse.start()
    for _ in range(5):
        broker.reactor.advance(BEAT_SECONDS)
    assert pulse.max_lag_s == 0
    broker.reactor.advance(BEAT_SECONDS + 2.25)
    assert pulse.max_lag_s == pytest.approx(2.25)
    for _ in range(100):
        broker.reactor.advance(BEAT_SECONDS)
    assert pulse.max_lag_s == pytest.approx(0, abs=0.26)
    pulse.stop()
    assert broker.reactor.getDelayedCalls() == []


def test_the_disk_and_the_memory_are_looked_at(broker: Any) -> None:
    pulse = Pulse(broker)
    pulse.start()
    space = pulse.looked.space
    assert space is not None
    assert 0 < space.usable_bytes < space.total_bytes
    assert (pulse.looked.memory_bytes or 0) > 1 << 20
    assert pulse.looked.sync_lag_ms == 7
    pulse.stop()


def test_a_disk_that_does_not_say_is_no_reason_not_to_be_ready(broker: Any) -> None:
    def fail(_: str) -> Space:
        raise BarbicelError("no such device")

    broker.disk.space = fail
    pulse = Pulse(broker)
    health = Health(broker, pulse, 1 << 60)
    health.is_serving = True
    pulse.start()
    assert pulse.looked.space is None
    assert health.problems() == []
    pulse.stop()


def test_many_problems_are_told_in_few_lines(broker: Any) -> None:
    pulse = Pulse(broker)
    health = Health(broker, pulse, 0)
    assert health.problems() == ["the server is starting or stopping"]
    health.is_serving = True
    pulse.looked = pulse.looked._replace(failed_groups=tuple(f"g{number} in t-0" for number in range(20)))
    problems = health.problems()
    assert len(problems) == 6
    assert problems[0].startswith("g0 in t-0 could not be written")
    assert problems[-1].startswith("15 more: ")
