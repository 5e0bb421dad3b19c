"""The text reader: every transcript in every kind of pieces, and what it holds meanwhile."""

from __future__ import annotations

from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barbicel.kestrel_compat.text.reader import RequestReader
from barbicel.kestrel_compat.text.requests import Bad, Get, Put, Version
from tests.kestrel_compat.memcache.feeding import WAYS, Way, drain, in_two, read, told
from tests.kestrel_compat.text.transcripts import (
    MAX_ITEM_BYTES,
    MAX_LINE_BYTES,
    MAX_PUT_BYTES,
    TRANSCRIPTS,
    Transcript,
    is_the_end,
)

MIB = 1024 * 1024
PIECE = b"x" * 65536


def limit_of(queue: str) -> int:
    return 4 if queue == "small" else MAX_ITEM_BYTES


def new_reader() -> RequestReader:
    return RequestReader(MAX_LINE_BYTES, limit_of, MAX_PUT_BYTES)


each_transcript = pytest.mark.parametrize("transcript", TRANSCRIPTS.values(), ids=TRANSCRIPTS)
each_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


@each_transcript
@each_way
def test_transcript(transcript: Transcript, way: Way) -> None:
    reader = new_reader()
    assert told(way(reader, transcript.data)) == told(transcript.requests)
    assert reader.held_bytes == 0
    assert not reader.is_within_a_request


@each_transcript
def test_transcript_in_two_pieces(transcript: Transcript) -> None:
    for position in range(min(len(transcript.data), 200)):
        requests = read(new_reader(), in_two(transcript.data, position))
        assert told(requests) == told(transcript.requests)


@each_transcript
@each_way
def test_transcript_with_more_behind_it(transcript: Transcript, way: Way) -> None:
    reader = new_reader()
    is_over = is_the_end(transcript.requests[-1])
    requests = way(reader, transcript.data + b"version\r\nget trai")
    assert told(requests) == told([*transcript.requests, *([] if is_over else [Version()])])
    assert reader.is_within_a_request != is_over
    assert reader.held_bytes == (0 if is_over else len(b"get trai"))
    assert told(read(reader, [b"ling\n"])) == told([] if is_over else [Get("trailing", None)])


@each_way
def test_all_transcripts_pipelined(way: Way) -> None:
    going_on = [transcript for transcript in TRANSCRIPTS.values() if not is_the_end(transcript.requests[-1])]
    assert len(going_on) > 50
    requests = way(new_reader(), b"".join(transcript.data for transcript in going_on))
    assert told(requests) == told(request for transcript in going_on for request in transcript.requests)


def test_what_is_held_is_counted() -> None:
    reader = new_reader()
    assert (reader.held_bytes, reader.is_within_a_request) == (0, False)
    reader.feed(b"put q:\n")
    assert (reader.held_bytes, reader.is_within_a_request) == (7, True)
    assert reader.next_request() is None
    assert (reader.held_bytes, reader.is_within_a_request) == (0, True)
    reader.feed(b"hello\nth")
    assert reader.next_request() is None
    assert (reader.held_bytes, reader.is_within_a_request) == (7, True)
    reader.feed(b"ere\n\nget")
    assert reader.next_request() == Put("q", None, (b"hello", b"there"))
    assert (reader.held_bytes, reader.is_within_a_request) == (3, True)


def test_a_line_that_was_too_long_stays_so_when_its_limit_grows() -> None:
    limits = {"q": 3}
    reader = RequestReader(MAX_LINE_BYTES, limits.__getitem__)
    assert read(reader, [b"put q:\n", b"hello"]) == []
    limits["q"] = 100
    assert read(reader, [b" world\nhello\n\n"]) == [Put("q", None, (b"hello",), 1)]


def test_a_large_item_in_small_pieces_is_not_copied_at_each() -> None:
    """Joined at each piece, this would copy 128 GiB."""
    reader = RequestReader(MAX_LINE_BYTES, lambda queue: 64 * MIB)
    started_s = process_time()
    reader.feed(b"put q:\n")
    for _ in range(8 * MIB // 256):
        assert reader.next_request() is None
        reader.feed(PIECE[:256])
    assert reader.next_request() is None
    assert reader.held_bytes == 8 * MIB
    reader.feed(b"\n\n")
    assert reader.next_request() == Put("q", None, (b"x" * (8 * MIB),))
    assert process_time() - started_s < 5


def test_what_is_too_large_is_never_kept() -> None:
    reader = new_reader()
    reader.feed(b"put q:\n")
    for _ in range(16):
        assert reader.next_request() is None
        assert reader.held_bytes == 0
        reader.feed(PIECE)
    assert read(reader, [b"\n", b"\n"]) == [Put("q", None, (), 1)]


def test_after_the_end_nothing_is_kept() -> None:
    reader = new_reader()
    reader.feed(b"monitor q x\n")
    reader.feed(PIECE)
    assert [type(request) for request in drain(reader)] == [Bad]
    reader.feed(PIECE)
    assert (reader.held_bytes, reader.is_within_a_request, reader.next_request()) == (0, False, None)


FRAGMENTS = [b"put q", b"put q 5", b":", b"get ", b"q", b" ", b"\r\n", b"\n", b"\n\n", b"\r", b"x" * 30]
NOISE = st.one_of(
    st.sampled_from([transcript.data for transcript in TRANSCRIPTS.values() if len(transcript.data) < 200]),
    st.sampled_from(FRAGMENTS),
    st.binary(max_size=20),
)


@settings(deadline=None)
@given(st.lists(NOISE, max_size=20).map(b"".join))
def test_pieces_do_not_matter(stream: bytes) -> None:
    results = [told(way(new_reader(), stream)) for way in WAYS.values()]
    assert all(result == results[0] for result in results)
    ends = [is_the_end(request) for _, request in results[0]]
    assert not any(ends[:-1])


@settings(deadline=None)
@given(st.lists(NOISE, max_size=20))
def test_what_is_held_is_bounded(pieces: list[bytes]) -> None:
    reader = RequestReader(MAX_LINE_BYTES, limit_of, 100)
    for piece in pieces:
        reader.feed(piece)
        for request in drain(reader):
            assert not isinstance(request, Put) or sum(map(len, request.items)) <= 100
        assert reader.held_bytes <= 101


@settings(deadline=None)
@given(
    st.lists(
        st.binary(min_size=1, max_size=15).map(lambda item: item.replace(b"\n", b"n").rstrip(b"\r") or b"r")
    ),
    st.sampled_from([b"\n", b"\r\n"]),
    st.integers(1, 50),
)
def test_what_is_put_is_read(items: list[bytes], end: bytes, piece_bytes: int) -> None:
    stream = end.join([b"put q 7:", *items, b"", b""])
    reader = new_reader()
    pieces = [stream[at : at + piece_bytes] for at in range(0, len(stream), piece_bytes)]
    assert read(reader, pieces) == [Put("q", 7, tuple(items))]
