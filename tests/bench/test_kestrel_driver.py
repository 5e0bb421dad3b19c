"""Both drivers ask what they are told to, count what was answered, and accept no reply but the right one."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest

from bench.kestrel.drive import (
    COMPILERS,
    IN_PYTHON,
    DriveFailed,
    build_driver,
    finish_driver,
    run_driver,
    start_driver,
)
from bench.kestrel.job import Job, Result
from bench.kestrel.servers import Server, running_bare

ITEM_BYTES = 10
ITEM = b"x" * ITEM_BYTES
SET = b"set bench 0 0 10\r\n" + ITEM + b"\r\n"
GET = b"get bench\r\n"
VALUE = b"VALUE bench 0 10\r\n" + ITEM + b"\r\nEND\r\n"
STORED, END = b"STORED\r\n", b"END\r\n"
DEADLINE_S = 30.0
SILENCE_S = 0.2


@pytest.fixture(params=["C", "Python"])
def command(request: pytest.FixtureRequest) -> Sequence[str]:
    if request.param == "Python":
        return IN_PYTHON
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        pytest.skip("there is no C compiler")
    return [str(build_driver(compiler))]


@pytest.fixture(scope="module")
def bare() -> Iterator[Server]:
    with running_bare(ITEM_BYTES) as server:
        yield server


@contextmanager
def accepted(job: Job, command: Sequence[str]) -> Iterator[tuple[socket.socket, subprocess.Popen[str]]]:
    """The connection of a driver that has just been started."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(DEADLINE_S)
        driver = start_driver(replace(job, port=listener.getsockname()[1]), command)
        try:
            connection, _ = listener.accept()
            connection.settimeout(DEADLINE_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with connection:
                yield connection, driver
        finally:
            driver.kill()
            driver.communicate()


def converse(
    job: Job,
    command: Sequence[str],
    script: Sequence[tuple[bytes, bytes]],
    *,
    singly: bool = False,
    closes: bool = False,
) -> Result:
    """A server that waits for exactly these bytes, answers those, and wants no more."""
    with accepted(job, command) as (connection, driver), connection.makefile("rb") as requests:
        for expected, reply in script:
            assert requests.read(len(expected)) == expected
            for piece in [bytes([byte]) for byte in reply] if singly else [reply]:
                connection.sendall(piece)
        if closes:
            connection.shutdown(socket.SHUT_RDWR)
        else:
            assert requests.read() == b""
        return finish_driver(driver)


@pytest.mark.parametrize("operation", ["set", "get", "set+get"])
@pytest.mark.parametrize(("connections", "depth"), [(1, 1), (1, 100), (7, 1), (3, 20)])
def test_everything_is_asked_and_counted(
    bare: Server, command: Sequence[str], operation: str, connections: int, depth: int
) -> None:
    job = Job(bare.port, operation, ITEM_BYTES, 500, connections=connections, depth=depth, queues=connections)
    result = run_driver(job, command)
    assert (result.ops, result.errors, result.misses) == (500, 0, 0)
    assert 0 < result.seconds < DEADLINE_S
    assert 0 < result.min_us <= result.p50_us <= result.p99_us <= result.max_us
    assert result.max_us <= result.seconds * 1e6


def test_it_stops_when_its_time_is_over(bare: Server, command: Sequence[str]) -> None:
    result = run_driver(Job(bare.port, "set", ITEM_BYTES, seconds=0.2, connections=2), command)
    assert result.ops > 0
    assert 0.2 <= result.seconds < DEADLINE_S


def test_items_larger_than_its_buffers(command: Sequence[str]) -> None:
    size = 3 << 20
    with running_bare(size) as server:
        assert run_driver(Job(server.port, "set+get", size, 12, depth=3), command).ops == 12


@pytest.mark.parametrize("singly", [False, True])
def test_a_set_and_a_get_on_the_wire(command: Sequence[str], singly: bool) -> None:
    script = [(SET, STORED), (GET, VALUE)] * 2
    assert converse(Job(0, "set+get", ITEM_BYTES, 4), command, script, singly=singly).ops == 4


def test_requests_follow_each_answer(command: Sequence[str]) -> None:
    script = [(SET * 3, STORED), (SET, STORED * 2), (SET * 2, STORED * 3)]
    assert converse(Job(0, "set", ITEM_BYTES, 6, depth=3), command, script).ops == 6


def test_a_burst_waits_for_all_its_answers(command: Sequence[str]) -> None:
    job = Job(0, "set", ITEM_BYTES, 6, depth=3, burst=True)
    with accepted(job, command) as (connection, driver), connection.makefile("rb") as requests:
        assert requests.read(len(SET * 3)) == SET * 3
        connection.sendall(STORED)
        connection.settimeout(SILENCE_S)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        connection.settimeout(DEADLINE_S)
        connection.sendall(STORED * 2)
        assert connection.recv(len(SET * 3), socket.MSG_WAITALL) == SET * 3
        connection.sendall(STORED * 3)
        assert finish_driver(driver).ops == 6


@pytest.mark.parametrize(
    ("operation", "reply"),
    [
        ("set", b"NOT_STORED\r\n"),
        ("set", b"SERVER_ERROR\r\n"),
        ("set", STORED + STORED),
        ("get", END),
        ("get", b"ERROR\r\n"),
        ("get", b"VALUE bench 0 11\r\nxxxxxxxxxxx\r\nEND\r\n"),
        ("get", VALUE.replace(b"bench", b"other")),
        ("get", VALUE.replace(b"xx\r", b"xy\r")),
        ("get", VALUE.replace(END, b"DONE\r\n")),
    ],
)
def test_a_wrong_reply_is_an_error(command: Sequence[str], operation: str, reply: bytes) -> None:
    script = [(SET if operation == "set" else GET, reply)]
    with pytest.raises(DriveFailed, match="1 errors, the first one: unexpected: "):
        converse(Job(0, operation, ITEM_BYTES, 1), command, script)


def test_the_end_of_a_connection_is_an_error(command: Sequence[str]) -> None:
    script = [(GET, VALUE), (GET, VALUE[:-1])]
    with pytest.raises(DriveFailed, match="1 errors, the first one: the server closed the connection"):
        converse(Job(0, "get", ITEM_BYTES, 2), command, script, closes=True)


def test_a_miss_is_asked_again(command: Sequence[str]) -> None:
    get = b"get bench/t=10\r\n"
    job = Job(0, "get", ITEM_BYTES, 2, key_options="/t=10", may_miss=True)
    result = converse(job, command, [(get, END), (get, VALUE), (get, END), (get, VALUE)])
    assert (result.ops, result.misses) == (2, 2)


def test_items_come_in_the_order_of_their_numbers(command: Sequence[str]) -> None:
    items = (b"99xxxxxxxx", b"100xxxxxxx")
    sets = [(SET.replace(ITEM, item), STORED) for item in items]
    gets = [(GET, VALUE.replace(ITEM, item)) for item in items]
    job = Job(0, "set", ITEM_BYTES, 2, number_from=99)
    assert converse(job, command, sets).ops == 2
    assert converse(replace(job, operation="get"), command, gets).ops == 2
    with pytest.raises(DriveFailed, match="unexpected: .*VALUE bench"):
        converse(replace(job, operation="get"), command, gets[1:])


def test_what_was_monitored_is_confirmed(command: Sequence[str]) -> None:
    script = [
        (b"monitor bench 1 3\r\n", END),
        (b"monitor bench 1 3\r\n", VALUE * 3 + END),
        (b"confirm bench 3\r\n", END),
        (b"monitor bench 1 2\r\n", VALUE),
        (b"", END),
        (b"confirm bench 1\r\n", END),
        (b"monitor bench 1 1\r\n", VALUE + END),
        (b"confirm bench 1\r\n", END),
    ]
    result = converse(Job(0, "monitor", ITEM_BYTES, 5, depth=3), command, script)
    assert (result.ops, result.misses) == (5, 1)


def test_without_a_server_it_fails(command: Sequence[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(DriveFailed, match="no connection: "):
        run_driver(Job(port, "set", ITEM_BYTES, 1, connections=2), command)
