"""Positions of groups: read when that is cheap, told again when it is not."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from barbicel.errors import BarbicelError
from barbicel.gateway.admin.api.positions import PLACES_AT_ONCE, Position, Positions
from barbicel.gateway.broker.consumption import Committed, Place


class Slow:
    """A broker whose groups take so long to read; each read finds one more."""

    def __init__(self, read_s: float, places: int = 1) -> None:
        clock: Any = Clock()
        self.reactor = self.clock = clock
        self.read_s = read_s
        self.reads: list[int] = []
        self.known = [("t", number) for number in range(places)]
        self.offsets = self.topics = self
        self.end_offset, self.is_offline = 100, False

    def places(self, group: str) -> list[Place]:
        return self.known

    def fetch(self, group: str, places: list[Place]) -> Deferred[dict[Place, Any]]:
        self.reads.append(len(places))
        self.clock.advance(self.read_s)
        return succeed({place: Committed(len(self.reads), -1, None) for place in places})

    def partition(self, topic: str, number: int) -> Any:
        return self


def of(positions: Positions, group: str = "g") -> list[Position]:
    found: list[list[Position]] = []
    Deferred.fromCoroutine(positions.of(group)).addCallback(found.append)
    return found[0]


def made(broker: Any) -> Positions:
    return Positions(broker)


def test_what_is_quickly_read_is_always_fresh() -> None:
    broker = Slow(0.001)
    positions = made(broker)
    assert [of(positions)[0].committed for _ in range(3)] == [1, 2, 3]


def test_what_takes_long_is_told_again_for_a_while_with_the_ends_of_now() -> None:
    broker = Slow(1.0)
    positions = made(broker)
    assert of(positions) == [Position("t", 0, 1, 100)]
    broker.end_offset = 200
    assert of(positions) == [Position("t", 0, 1, 200)]
    assert of(positions)[0].lag == 199
    broker.clock.advance(3.9)
    assert len(broker.reads) == 1
    assert of(positions)[0].committed == 1
    broker.clock.advance(0.2)
    assert of(positions)[0].committed == 2


def test_many_small_groups_take_long_together() -> None:
    broker = Slow(0.01)
    positions = made(broker)
    for number in range(100):
        of(positions, f"group-{number}")
    assert len(broker.reads) == 100
    of(positions, "group-99")
    assert len(broker.reads) == 100


def test_groups_that_are_gone_are_forgotten_and_do_not_make_the_others_old() -> None:
    broker = Slow(0.01)
    positions = made(broker)
    for number in range(100):
        of(positions, f"console-consumer-{number}")
    positions.forget_others({"console-consumer-99"})
    assert [of(positions, "console-consumer-99")[0].committed for _ in range(2)] == [101, 102]
    positions.forget_others({"console-consumer-99"})
    assert [of(positions, "console-consumer-99")[0].committed for _ in range(2)] == [103, 104]


def test_many_positions_are_read_a_few_at_a_time() -> None:
    broker = Slow(0.0, places=2 * PLACES_AT_ONCE + 1)
    assert len(of(made(broker))) == 2 * PLACES_AT_ONCE + 1
    assert broker.reads == [PLACES_AT_ONCE, PLACES_AT_ONCE, 1]


def test_what_cannot_be_read_says_so_and_a_topic_that_is_gone_is_left_out() -> None:
    broker: Any = Slow(0.0)
    broker.fetch = lambda group, places: succeed({("t", 0): BarbicelError("damaged")})
    positions = made(broker)
    assert of(positions) == [Position("t", 0, 0, 0, "damaged")]
    broker.partition = lambda topic, number: None
    assert of(positions) == []
