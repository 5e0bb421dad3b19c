"""The way to the writer's thread and back: order, a full queue, failures."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barbicel.errors import LogClosed, RecordTooLarge
from barbicel.gateway.broker.appender import Appender
from barbicel.keratin import Ack, Appended, Log, LogSettings, NewRecord, WriterSettings
from barbicel.keratin.writer import Answer
from tests.gateway.kafka.in_memory import HandReactor, untyped

# One append waits at a time, so that nearly everything finds the queue full.
TINY = WriterSettings(max_queue_requests=1, max_batch_records=1)


class Bench:
    def __init__(self, path: Path, settings: WriterSettings, shards: int) -> None:
        self.reactor = untyped(HandReactor())
        self.turns = 0
        self.appender = Appender(self.reactor, Ack.AFTER_WRITE, settings, shards, self._end_turn)
        limits = LogSettings(max_record_bytes=1000)
        self.logs = [Log.open(str(path / str(number)), settings=limits) for number in range(3)]
        self.outcomes: list[tuple[int, Appended | Exception]] = []

    def _end_turn(self) -> None:
        self.turns += 1

    def append(self, number: int, payload: bytes = b"x", log: int = 0) -> None:
        self.appender.append(
            self.logs[log], NewRecord(payload), lambda outcome: self.outcomes.append((number, outcome))
        )

    def wait(self, count: int) -> None:
        self.reactor.until(lambda: len(self.outcomes) >= count)


@pytest.fixture(params=[TINY, WriterSettings()], ids=["tiny queue", "usual queue"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path, request.param, shards=2)
    yield bench
    bench.appender.close()
    for log in bench.logs:
        log.close()


def test_each_log_keeps_the_order_however_full_the_queue_is(bench: Bench) -> None:
    for number in range(300):
        bench.append(number, b"%d" % number, log=number % 3)
    bench.wait(300)
    for log in range(3):
        offsets = [outcome for number, outcome in bench.outcomes if number % 3 == log]
        assert offsets == [Appended(offset, 1) for offset in range(100)]
        payloads = [bytes(record.payload) for record in bench.logs[log].scan(0)]
        assert payloads == [b"%d" % number for number in range(300) if number % 3 == log]
    assert 1 <= bench.turns <= 300


def test_what_a_log_can_never_take_is_refused_at_once_even_behind_a_full_queue(bench: Bench) -> None:
    for number in range(50):
        bench.append(number)
    bench.append(50, b"x" * 2000)
    ((number, outcome),) = [row for row in bench.outcomes if row[0] == 50]
    assert number == 50
    assert isinstance(outcome, RecordTooLarge)
    bench.wait(51)
    assert bench.logs[0].end_offset == 50


def test_a_closed_log_fails_alone(bench: Bench) -> None:
    bench.logs[0].close()
    for number in range(20):
        bench.append(number, log=number % 2)
    bench.wait(20)
    for number, outcome in bench.outcomes:
        assert isinstance(outcome, Appended if number % 2 else LogClosed)


def test_a_callback_that_raises_keeps_nobody_from_their_answer(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError

    bench.appender.append(bench.logs[0], NewRecord(b"x"), fail)
    bench.append(1)
    bench.wait(1)
    assert bench.outcomes == [(1, Appended(1, 1))]
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_closing_commits_what_the_writers_have(bench: Bench) -> None:
    bench.append(0)
    bench.appender.close()
    assert bench.logs[0].end_offset == 1


def test_whoever_has_several_answers_in_a_group_is_called_once_when_all_are_there(bench: Bench) -> None:
    happened: list[str] = []

    def answered(name: str) -> None:
        happened.append(name)
        assert bench.appender.when_answered(together) is (name != "alone")

    def together() -> None:
        happened.append("together")

    answers = [(lambda _, name=name: answered(name), Appended(0, 1)) for name in ("first", "second", "alone")]
    bench.appender._answer(untyped(answers[:2]))
    bench.appender._answer(untyped(answers[2:]))
    assert happened == ["first", "second", "together", "alone"]
    assert not bench.appender.when_answered(together)


def test_an_answer_that_raises_keeps_nobody_from_being_called(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    happened: list[str] = []

    def fail(_: object) -> None:
        bench.appender.when_answered(lambda: fail_then(happened))
        raise RuntimeError("a fault")

    def fail_then(happened: list[str]) -> None:
        happened.append("called")
        raise RuntimeError("another fault")

    with caplog.at_level(logging.CRITICAL):
        bench.appender._answer([(fail, Appended(0, 1)), (fail, Appended(1, 1))])
    assert happened == ["called", "called"]


class LoopReactor(HandReactor):
    """As the server's: it calls before it sleeps, and threads wake it."""

    def __init__(self) -> None:
        super().__init__()
        self.wakes = 0
        self.end_turn: Callable[[], None] = lambda: None

    def call_before_sleep(self, function: Callable[[], None]) -> None:
        self.end_turn = function

    def wakeUp(self) -> None:  # noqa: N802 - Twisted's
        self.wakes += 1


def test_groups_are_answered_before_the_loop_sleeps_and_none_keeps_another_from_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reactor, happened = LoopReactor(), list[str]()

    def end_turn() -> None:
        happened.append("turn")
        raise RuntimeError("a fault")

    def answer(name: str) -> Answer:
        return lambda _: happened.append(name), Appended(0, 1)

    def answer_and_deliver(_: object) -> None:
        happened.append("second")
        appender.deliver([answer("third")])

    appender = Appender(untyped(reactor), Ack.AFTER_WRITE, WriterSettings(), 1, end_turn)
    appender.deliver([answer("first")])
    appender.deliver([(answer_and_deliver, Appended(1, 1))])
    assert (reactor.wakes, happened) == (2, [])
    with caplog.at_level(logging.CRITICAL):
        reactor.end_turn()
        # What came meanwhile has woken the loop, and waits for its next turn.
        assert (reactor.wakes, happened) == (3, ["first", "turn", "second", "turn"])
        reactor.end_turn()
    assert happened[4:] == ["third", "turn"]
    appender.close()
