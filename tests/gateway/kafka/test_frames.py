"""Frames out of bytes that arrive whole, byte by byte, and with others behind them."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barbicel.gateway.kafka.frames import BadFrame, FrameReader

LIMIT = 1000
SMALL_KEY, SMALL_LIMIT = 7, 20


def reader() -> FrameReader:
    return FrameReader(LIMIT, lambda key: SMALL_LIMIT if key == SMALL_KEY else LIMIT)


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def taken(frames: FrameReader, pieces: Iterable[bytes]) -> list[bytes]:
    found = []
    for piece in pieces:
        frames.feed(piece)
        while (one := frames.next_frame()) is not None:
            found.append(bytes(one))
    return found


bodies = st.lists(st.binary(min_size=8, max_size=60).map(lambda tail: b"\0\1" + tail), max_size=6)


@given(bodies, st.lists(st.integers(1, 40), max_size=30))
def test_frames_come_out_however_the_bytes_are_cut(wanted: list[bytes], cuts: list[int]) -> None:
    stream, pieces = b"".join(map(frame, wanted)), []
    for cut in cuts:
        pieces.append(stream[:cut])
        stream = stream[cut:]
    frames = reader()
    assert taken(frames, [*pieces, stream]) == wanted
    assert not frames.is_within_a_frame


def test_byte_by_byte_and_with_a_part_of_the_next() -> None:
    frames = reader()
    stream = frame(b"\0\1abcdefgh") + frame(b"\0\2xxxxxxxxxx")[:7]
    assert taken(frames, [bytes([byte]) for byte in stream]) == [b"\0\1abcdefgh"]
    assert frames.is_within_a_frame


def test_what_is_not_taken_waits() -> None:
    frames = reader()
    frames.feed(frame(b"\0\1aaaaaaaa") + frame(b"\0\1bbbbbbbb"))
    assert frames.next_frame() == bytearray(b"\0\1aaaaaaaa")
    frames.feed(frame(b"\0\1cccccccc"))
    assert taken(frames, [b""]) == [b"\0\1bbbbbbbb", b"\0\1cccccccc"]


@pytest.mark.parametrize("length", [-1, 0, 7, LIMIT + 1, 2**31 - 1, -(2**31)])
def test_an_impossible_length_is_refused_before_anything_is_kept(length: int) -> None:
    frames = reader()
    frames.feed(struct.pack(">i", length) + b"\0\1")
    with pytest.raises(BadFrame, match=f"a request of {length} bytes; allowed are 8 to {LIMIT}"):
        frames.next_frame()


def test_frames_before_a_bad_one_are_not_lost() -> None:
    frames = reader()
    frames.feed(frame(b"\0\1abcdefgh") + struct.pack(">i", -5))
    assert frames.next_frame() == bytearray(b"\0\1abcdefgh")
    with pytest.raises(BadFrame):
        frames.next_frame()


@pytest.mark.parametrize("start", [b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\x02\x00\x01", b"PRI * HTTP/2.0"])
def test_other_protocols_are_named(start: bytes) -> None:
    frames = FrameReader(100 << 20, lambda key: LIMIT)
    frames.feed(start)
    with pytest.raises(BadFrame, match="not Kafka's protocol"):
        frames.next_frame()


@pytest.mark.parametrize("cut", [4, 5, 6, 7])
def test_an_api_has_a_limit_of_its_own_known_from_its_first_two_bytes(cut: int) -> None:
    frames = reader()
    stream = struct.pack(">ih", SMALL_LIMIT + 1, SMALL_KEY) + b"x"
    with pytest.raises(BadFrame, match=f"API key {SMALL_KEY} with {SMALL_LIMIT + 1} bytes; allowed are 20"):
        taken(frames, [stream[:cut], stream[cut:]])


@pytest.mark.parametrize("cut", [5, 6, 20])
def test_what_any_request_may_have_is_not_asked_about(cut: int) -> None:
    asked: list[int] = []

    def limit_of(key: int) -> int:
        asked.append(key)
        return SMALL_LIMIT

    frames = FrameReader(LIMIT, limit_of, SMALL_LIMIT)
    body = struct.pack(">h", SMALL_KEY) + bytes(SMALL_LIMIT - 2)
    stream = frame(body) + frame(body + b"x")
    assert taken(frames, [stream[:cut], stream[cut : 4 + SMALL_LIMIT]]) == [body]
    assert asked == []
    with pytest.raises(BadFrame, match=f"with {SMALL_LIMIT + 1} bytes; allowed are {SMALL_LIMIT}"):
        taken(frames, [stream[4 + SMALL_LIMIT :]])
    assert asked == [SMALL_KEY]


def test_a_length_alone_takes_no_memory() -> None:
    frames = FrameReader(2**31 - 1, lambda key: 2**31 - 1)
    tracemalloc.start()
    try:
        frames.feed(struct.pack(">ih", 2**31 - 1, 0))
        assert frames.next_frame() is None
        assert tracemalloc.get_traced_memory()[1] < 10_000
    finally:
        tracemalloc.stop()


def test_single_bytes_cost_no_object_each() -> None:
    frames = FrameReader(1 << 20, lambda key: 1 << 20)
    frames.feed(struct.pack(">i", 50_000))
    tracemalloc.start()
    try:
        for number in range(50_000):
            assert frames.next_frame() is None
            frames.feed(bytes([number % 7]))
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()
    frame = frames.next_frame()
    assert frame is not None
    assert frame == bytes(number % 7 for number in range(50_000))


@pytest.mark.parametrize("sizes", [(1, 40_000, 40_000), (20_000, 1, 70_000), (90_000,), (1, 1, 1, 89_997)])
def test_large_and_small_parts_make_one_frame(sizes: tuple[int, ...]) -> None:
    whole = bytes(number % 251 for number in range(sum(sizes)))
    frames = FrameReader(1 << 20, lambda key: 1 << 20)
    frames.feed(struct.pack(">i", len(whole)))
    position = 0
    for size in sizes:
        assert frames.next_frame() is None
        frames.feed(whole[position : position + size])
        position += size
    frame = frames.next_frame()
    assert isinstance(frame, bytearray)
    assert frame == whole
