"""What waits to be sent: the same bytes in the same order, however they are taken."""

from __future__ import annotations

import random

import pytest

from barbicel.disk import Bytes
from barbicel.gateway.outbox import PIECES_MAX, SMALL_BYTES, Outbox


def take(outbox: Outbox, max_bytes: int) -> bytes:
    """All that may be sent at once is."""
    data = b"".join(outbox.front(max_bytes))
    outbox.drop(len(data))
    return data


PIECES: list[Bytes] = [
    b"head",
    memoryview(b"a batch of records"),
    b"",
    memoryview(bytearray(b"another")),
    b"end",
]
WHOLE = b"".join(PIECES)


@pytest.mark.parametrize("max_bytes", range(1, len(WHOLE) + 2))
def test_all_is_taken_in_order(max_bytes: int) -> None:
    outbox = Outbox()
    outbox.put(PIECES)
    taken = []
    while outbox:
        before = outbox.size_bytes
        taken.append(take(outbox, max_bytes))
        assert outbox.size_bytes == before - len(taken[-1])
    assert b"".join(taken) == WHOLE
    assert [len(part) for part in taken[:-1]] == [max_bytes] * (len(taken) - 1)


def test_what_is_put_meanwhile_comes_behind() -> None:
    chooser = random.Random(1)
    outbox, put, taken = Outbox(), bytearray(), bytearray()
    for _ in range(500):
        pieces = [chooser.randbytes(chooser.randrange(40)) for _ in range(chooser.randrange(4))]
        outbox.put(pieces)
        put += b"".join(pieces)
        taken += take(outbox, chooser.randrange(1, 80))
    assert outbox.size_bytes == len(put) - len(taken)
    assert taken + take(outbox, len(put)) == put


def test_what_was_sent_is_let_go() -> None:
    first = bytearray(10)
    outbox = Outbox()
    outbox.put([memoryview(first), bytes(10)])
    take(outbox, 15)
    first.clear()  # refused while a view is left
    assert outbox.size_bytes == 5


def test_nothing_is_left_of_a_client_that_is_gone() -> None:
    outbox = Outbox()
    outbox.put(PIECES)
    outbox.clear()
    assert not outbox
    assert take(outbox, 100) == b""


def test_the_kernel_may_take_less_than_it_is_given() -> None:
    chooser = random.Random(2)
    outbox, put, sent = Outbox(), bytearray(), bytearray()
    for _ in range(500):
        pieces = [chooser.randbytes(chooser.randrange(40)) for _ in range(chooser.randrange(4))]
        outbox.put(pieces)
        put += b"".join(pieces)
        front = b"".join(outbox.front(60))
        taken = chooser.randrange(len(front) + 1)
        outbox.drop(taken)
        sent += front[:taken]
    assert sent + take(outbox, len(put)) == put


def test_pieces_are_not_copied_unless_they_are_many_or_small() -> None:
    piece = memoryview(bytearray(SMALL_BYTES // 2))
    outbox = Outbox()
    outbox.put([piece] * 2)
    assert len(outbox.front(1 << 30)) == 1
    outbox.put([piece] * (PIECES_MAX - 2))
    assert all(part is piece for part in outbox.front(1 << 30))
    outbox.put([piece])
    assert len(outbox.front(1 << 30)) == 1
