"""What a server sends, and for how long it may."""

from __future__ import annotations

from typing import Any

import pytest

from barbicel.gateway.client.answers import MIN_BYTES_PER_SECOND, Answers

SECONDS_PER_READ = 10.0


class Slow:
    """A socket whose every read takes ten seconds by its own clock, and gives the next piece."""

    def __init__(self, *pieces: bytes) -> None:
        self.now_s = 0.0
        self._pieces = list(pieces)

    def settimeout(self, seconds: float) -> None:
        assert seconds > 0

    def recv(self, size: int) -> bytes:
        self.now_s += SECONDS_PER_READ
        return self._pieces.pop(0) if self._pieces else b""


def answers_of(*pieces: bytes) -> Answers:
    slow: Any = Slow(*pieces)
    answers = Answers(slow, lambda: slow.now_s)
    answers.begin()
    return answers


def test_lines_and_pieces_however_they_come() -> None:
    sent = b"VALUE q 0 3\r\nabc\r\nEND\r\n"
    for size in (1, 2, 5, len(sent)):
        answers = answers_of(*(sent[at : at + size] for at in range(0, len(sent), size)))
        answers.begin(1000.0)
        found = [answers.line(100), b"".join(answers.pieces(5)), answers.line(100)]
        assert found == [b"VALUE q 0 3\r\n", b"abc\r\n", b"END\r\n"]


def test_a_line_is_cut_at_the_limit() -> None:
    assert answers_of(b"abcdef\n").line(4) == b"abcd"


@pytest.mark.parametrize("read", [lambda one: one.line(1000), lambda one: list(one.pieces(1000))])
def test_a_server_that_drips_is_not_waited_for(read: Any) -> None:
    with pytest.raises(TimeoutError, match="too long"):
        read(answers_of(*[b"x"] * 100))


def test_what_comes_fast_enough_may_take_long() -> None:
    piece = bytes(int(SECONDS_PER_READ * MIN_BYTES_PER_SECOND))
    assert sum(map(len, answers_of(*[piece] * 20).pieces(20 * len(piece)))) == 20 * len(piece)


def test_what_the_server_waits_itself_does_not_count() -> None:
    answers = answers_of(*[b"x"] * 9, b"\n")
    answers.begin(100.0)
    assert len(answers.line(100)) == 10


def test_a_server_that_hangs_up_is_told_of() -> None:
    with pytest.raises(ConnectionError, match="closed"):
        answers_of(b"abc").line(100)
