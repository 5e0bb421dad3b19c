"""A connection: what is under way together, order, one write a turn, and what a client can make it hold."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import execute
from twisted.internet.task import Clock

from barbicel.config.settings import Config
from barbicel.disk import RealDisk
from barbicel.errors import BarbicelError
from barbicel.gateway.kestrel.connection import (
    LARGE_BYTES,
    LIKELY_ANSWER_BYTES,
    MAX_BYTES_UNDER_WAY,
    MAX_REQUESTS_UNDER_WAY,
    READ_BYTES,
    SEND_BYTES,
)
from barbicel.gateway.kestrel.dialect import MEMCACHE
from barbicel.gateway.kestrel.server import KestrelServer
from barbicel.gateway.kestrel.shared import Controls, Shared
from barbicel.gateway.kestrel.status import ServerStatus
from barbicel.kestrel_compat.items import Item
from barbicel.kestrel_compat.stats import Counters
from tests.gateway.kafka.in_memory import untyped
from tests.gateway.kestrel.held_queues import HeldQueues
from tests.gateway.kestrel.in_memory_clients import Client

FIRST_TAKES = MAX_BYTES_UNDER_WAY // LIKELY_ANSWER_BYTES
SET = b"set q 0 0 1\r\nx\r\n"
GET = b"get q\r\n"


class Held:
    """A server whose queues answer by hand."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.reactor = untyped(Clock())
        self.queues = HeldQueues()
        self.shared = Shared(
            queues=untyped(self.queues),
            config=Config(**settings),
            status=ServerStatus(RealDisk(), str(directory), execute),
            counters=Counters(),
            controls=Controls(lambda done: done(None), lambda: None),
            clock=lambda: 0,
            seconds=self.reactor.seconds,
            started_s=0.0,
        )
        self.server = KestrelServer(self.shared, self.reactor)

    def connect(self, port: int = 40_000) -> Client:
        return Client(untyped(self), MEMCACHE, "10.0.0.1", port)

    def turn(self) -> None:
        """The turn of the reactor ends."""
        self.reactor.advance(0)


@pytest.fixture
def held(tmp_path: Path) -> Held:
    return Held(tmp_path)


def writes_of(client: Client) -> list[bytes]:
    """Every write from now on."""
    writes: list[bytes] = []
    transport = untyped(client.transport)
    write = transport.write

    def note(data: bytes) -> None:
        writes.append(data)
        write(data)

    transport.write = note
    return writes


# --- what is under way together -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "kinds"),
    [
        (SET * 5, ["put"] * 5),
        (GET * 5, ["take"] * 5),
        (b"get q/peek\r\nget q\r\n", ["peek", "take"]),
        (b"get q/open\r\nget r/open\r\n", ["open", "open"]),
        (b"get q/close\r\nget q/close\r\nconfirm q 1\r\n", ["settled"] * 3),
    ],
)
def test_requests_of_one_kind_are_under_way_together(held: Held, run: bytes, kinds: list[str]) -> None:
    held.connect().send(run)
    assert held.queues.kinds == kinds


@pytest.mark.parametrize(
    ("first", "second", "kinds"),
    [
        (SET, GET, ["put", "take"]),
        (GET, SET, ["take", "put"]),
        (SET, b"get q/open\r\n", ["put", "open"]),
        (b"get q/open\r\n", GET, ["open", "take"]),
        (b"get q/open\r\n", b"get q/close\r\n", ["open", "settled"]),
        (b"get q/close\r\n", GET, ["settled", "take"]),
        (SET, b"flush q\r\n", ["put", "flush"]),
        (b"flush q\r\n", b"flush q\r\n", ["flush", "flush"]),
        (b"get q/t=50\r\n", GET, ["take", "take"]),
        (b"get q/t=50\r\n", b"get r/t=50\r\n", ["take", "take"]),
        (b"monitor q 5\r\n", SET, ["open", "put"]),
    ],
)
def test_any_other_waits_for_the_answers_before_it(
    held: Held, first: bytes, second: bytes, kinds: list[str]
) -> None:
    client = held.connect()
    client.send(first + second)
    assert held.queues.kinds == kinds[:1]
    held.queues.next().done(None)
    held.turn()
    assert held.queues.kinds == kinds[1:]


def test_a_miss_behind_a_close_waits_until_that_is_recorded(held: Held) -> None:
    client = held.connect()
    client.send(b"get q/close/open\r\n" * 2)
    held.queues.next().done(None)
    held.turn()
    assert held.queues.kinds == ["settled"]
    assert client.take() == b""
    held.queues.next().done(None)
    held.turn()
    assert client.take() == b"END\r\n"
    held.queues.next().give(b"x")
    held.turn()
    assert client.take().startswith(b"VALUE")


def test_a_request_waits_for_all_before_it(held: Held) -> None:
    client = held.connect()
    client.send(SET + SET + GET)
    first, second = held.queues.next(), held.queues.next()
    second.done(True)
    held.turn()
    assert held.queues.kinds == []
    first.done(True)
    held.turn()
    assert held.queues.kinds == ["take"]


def test_an_answer_waits_for_those_before_it(held: Held) -> None:
    client = held.connect()
    client.send(GET * 3)
    first, second, third = (held.queues.next() for _ in range(3))
    third.give(b"c")
    second.give(b"b")
    held.turn()
    assert client.take() == b""
    first.give(b"a")
    held.turn()
    assert [line for line in client.take().split(b"\r\n") if len(line) == 1] == [b"a", b"b", b"c"]


def test_opens_that_might_be_too_many_wait_until_that_is_known(tmp_path: Path) -> None:
    held = Held(tmp_path, kestrel_max_open_transactions=2)
    client = held.connect()
    client.send(b"get q/open\r\n" * 3)
    assert len(held.queues.asked) == 2
    for _ in range(2):
        held.queues.next().done(None)
    held.turn()
    assert len(held.queues.asked) == 1


# --- one write a turn -----------------------------------------------------------------------------------


def test_what_is_answered_in_one_turn_is_one_write(held: Held) -> None:
    clients = [held.connect(port) for port in range(3)]
    writes = [writes_of(client) for client in clients]
    for client in clients:
        client.send(SET * 100)
    while held.queues.asked:
        held.queues.next().done(True)
    assert writes == [[], [], []]
    held.turn()
    assert writes == [[b"STORED\r\n" * 100]] * 3


def test_what_is_answered_at_once_is_one_write_in_the_same_turn(held: Held) -> None:
    client = held.connect()
    writes = writes_of(client)
    client.send(b"version\r\nget q/abc/peek/abort\r\n")
    assert len(writes) == 1
    assert not held.reactor.getDelayedCalls()


def test_nothing_is_written_for_noreply(held: Held) -> None:
    client = held.connect()
    writes = writes_of(client)
    client.send(b"set q 0 0 1 noreply\r\nx\r\n" * 2)
    held.queues.next().done(True)
    held.queues.next().done(False)
    held.turn()
    assert writes == []
    assert not client.connection.is_busy


# --- what goes wrong ------------------------------------------------------------------------------------


def test_what_cannot_be_done_is_answered_and_the_connection_goes_on(
    held: Held, caplog: pytest.LogCaptureFixture
) -> None:
    client = held.connect()
    client.send(SET * 3)
    for result in (True, BarbicelError("the disk is full"), BarbicelError("the disk is full")):
        held.queues.next().done(result)
    held.turn()
    assert client.take() == b"STORED\r\nSERVER_ERROR\r\nSERVER_ERROR\r\n"
    assert not client.is_closed
    assert caplog.messages == ["a request of 10.0.0.1:40000 failed: the disk is full"]


def test_a_fault_of_ours_closes_the_connection(held: Held, caplog: pytest.LogCaptureFixture) -> None:
    client = held.connect()
    untyped(held.queues).flush = lambda name, done: 1 // 0
    client.send(SET + b"flush q\r\n" + SET)
    held.queues.next().done(True)
    held.turn()
    assert client.take() == b"STORED\r\nSERVER_ERROR\r\n"
    assert client.is_closed
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert caplog.records[0].exc_info is not None


# --- what a client can make the server hold -------------------------------------------------------------


def test_a_flood_is_served_so_many_at_a_time(held: Held) -> None:
    client = held.connect()
    count = 3 * MAX_REQUESTS_UNDER_WAY
    client.send(SET * count)
    assert len(held.queues.asked) == MAX_REQUESTS_UNDER_WAY
    answered = 0
    while held.queues.asked:
        assert len(held.queues.asked) <= MAX_REQUESTS_UNDER_WAY
        held.queues.next().done(True)
        answered += 1
        held.turn()
    assert answered == count
    assert client.take() == b"STORED\r\n" * count
    assert held.server.budget.held_bytes == 0


def test_who_sends_faster_than_it_is_served_is_not_read_from(held: Held) -> None:
    client, other = held.connect(1), held.connect(2)
    item = b"set q 0 0 1000\r\n" + bytes(1000) + b"\r\n"
    client.send(item * MAX_REQUESTS_UNDER_WAY)
    assert not client.is_paused
    client.send(item * (READ_BYTES // 1000))
    assert client.is_paused
    assert not other.is_paused
    while held.queues.asked:
        held.queues.next().done(True)
        held.turn()
    assert not client.is_paused


def test_large_items_under_way_are_counted_by_their_bytes(held: Held) -> None:
    client = held.connect()
    size = MAX_BYTES_UNDER_WAY // 4
    item = b"set q 0 0 %d\r\n%b\r\n" % (size, bytes(size))
    for _ in range(5):
        client.send(item)
    assert len(held.queues.asked) == 4
    assert client.is_paused
    assert held.server.budget.held_bytes >= 5 * size
    held.queues.next().done(True)
    held.turn()
    assert len(held.queues.asked) == 4
    client.lose()
    assert held.server.budget.held_bytes == 0


def test_a_large_item_behind_a_waiting_get_is_counted(held: Held) -> None:
    client = held.connect()
    client.send(b"get q/t=1000\r\n" + b"set q 0 0 1000000\r\n%b\r\n" % bytes(1_000_000))
    assert held.server.budget.held_bytes >= 1_000_000


def test_gets_under_way_are_as_many_as_their_answers_might_be_large(held: Held) -> None:
    client = held.connect()
    client.send(GET * 2000)
    assert len(held.queues.asked) == FIRST_TAKES
    # Small answers: soon as many as there may be.
    for _ in range(10):
        held.queues.next().give(b"small")
        held.turn()
    assert len(held.queues.asked) == MAX_REQUESTS_UNDER_WAY
    # A large one: no more until few are under way.
    held.queues.next().give(bytes(MAX_BYTES_UNDER_WAY // 2))
    before = len(held.queues.asked)
    held.turn()
    assert len(held.queues.asked) == before


def test_who_does_not_read_is_neither_served_nor_read_from(held: Held) -> None:
    client, other = held.connect(1), held.connect(2)
    client.transport.is_read = False
    client.send(GET * 4)
    for _ in range(3):
        held.queues.next().give(bytes(READ_BYTES))
    held.turn()
    assert client.is_paused
    client.send(GET * 4)
    held.queues.next().give(b"")
    held.turn()
    assert held.queues.asked == []
    other.send(b"version\r\n")
    assert other.take().startswith(b"VERSION ")
    while client.is_paused:
        client.transport.drain()
    assert len(held.queues.asked) == 4


def test_a_large_answer_does_not_wait_for_the_end_of_the_turn(held: Held) -> None:
    """Those to many clients, in one turn, would be too much to hold together."""
    client = held.connect()
    client.send(GET * 2)
    held.queues.next().give(bytes(LARGE_BYTES))
    assert len(client.transport.sent) > LARGE_BYTES
    small = len(client.transport.sent)
    held.queues.next().give(b"small")
    assert len(client.transport.sent) == small
    held.turn()
    assert len(client.transport.sent) > small


def test_nothing_is_held_for_a_client_that_was_sent_away(tmp_path: Path) -> None:
    held = Held(tmp_path, queued_max_request_bytes=2 << 20, socket_request_max_bytes=2 << 20)
    client = held.connect()
    client.transport.is_read = False
    client.send(GET * 4)
    for _ in range(3):
        held.queues.next().give(bytes(1_200_000))
    assert client.is_closed
    assert client.connection.unread_bytes == 0
    answers = len(client.transport.sent)
    held.queues.next().give(bytes(1_200_000))
    held.turn()
    assert (client.connection.unread_bytes, len(client.transport.sent)) == (0, answers)


def test_many_large_answers_in_one_turn_do_not_pile_up(held: Held) -> None:
    client = held.connect()
    client.transport.is_read = False
    served = 0

    def give_at_once(session: object, name: str, *, done: Any, **_: object) -> None:
        nonlocal served
        served += 1
        done(type("Given", (), {"data": bytes(1 << 20), "flags": 0})())

    untyped(held.queues).take = give_at_once
    client.send(GET * 500)
    assert served * (1 << 20) <= 2 * SEND_BYTES
    while client.transport.sent:
        client.transport.drain()
    assert served == 500


def test_the_budget_of_all_holds_back_who_sends_most(tmp_path: Path) -> None:
    limits = {
        "socket_request_max_bytes": 450_000,
        "queued_max_request_bytes": 450_000,
        "message_max_bytes": 1000,
    }
    held = Held(tmp_path, **limits)
    clients = [held.connect(port) for port in range(4)]
    start, rest = b"set q 0 0 400000\r\n" + bytes(200_000), bytes(200_000) + b"\r\n"
    for client in clients:
        client.send(start)
    # The third found the budget used up; it may go on all the same, and nobody after it.
    assert [client.is_paused for client in clients] == [False, False, False, True]
    # Who holds little goes on whatever the others do.
    small = held.connect(9)
    small.send(SET)
    held.queues.next().done(True)
    held.turn()
    assert small.take() == b"STORED\r\n"
    clients[2].send(rest)
    held.queues.next().done(True)
    held.turn()
    for client in (*clients[:2], clients[3]):
        client.send(rest)
        held.queues.next().done(True)
        held.turn()
    assert held.server.budget.held_bytes == 0
    assert not any(client.is_paused for client in clients)


# --- the end --------------------------------------------------------------------------------------------


def test_a_lost_connection_cancels_its_waiters_before_its_open_reads_go_back(held: Held) -> None:
    client = held.connect()
    client.send(b"get q/t=5000\r\n" + SET)
    waiting = held.queues.next().waiting
    assert waiting is not None
    ended: list[bool] = []
    untyped(held.queues).end = lambda session: ended.append(waiting.is_cancelled)
    client.lose()
    assert ended == [True]
    assert held.server.budget.held_bytes == 0


def test_an_answer_after_the_connection_is_lost_goes_nowhere(held: Held) -> None:
    client = held.connect()
    client.send(SET * 2)
    first, second = held.queues.next(), held.queues.next()
    first.done(True)
    client.lose()
    second.done(True)
    held.turn()
    assert client.take() == b""
    assert held.queues.kinds == []


def test_quit_waits_for_the_answers_before_it(held: Held) -> None:
    client = held.connect()
    client.send(SET + b"quit\r\n" + SET)
    assert not client.is_closed
    held.queues.next().done(True)
    held.turn()
    assert client.take() == b"STORED\r\n"
    assert client.is_closed
    assert held.queues.asked == []


def test_a_large_answer_is_not_kept_by_who_has_called_it(held: Held) -> None:
    """The waiter has the request and the request the waiter: the collector finds them much later."""
    client = held.connect()
    client.send(b"get q/t=1000\r\n")
    asked = held.queues.next()
    asked.done(Item(0, b"x" * LARGE_BYTES, 0, None, 0))
    held.turn()
    assert len(client.take()) > LARGE_BYTES
    assert untyped(asked.done).__self__.answer == b""


def test_an_answer_that_nobody_waits_for_any_more_is_not_kept(held: Held) -> None:
    client = held.connect()
    client.send(GET + GET)
    _, second = held.queues.next(), held.queues.next()
    second.done(Item(0, b"x" * LARGE_BYTES, 0, None, 0))
    client.lose()
    assert untyped(second.done).__self__.answer == b""
