"""The memcache reader: every transcript in every kind of pieces, and what it holds meanwhile."""

from __future__ import annotations

import tracemalloc
from time import process_time

import pytest

from barbicel.kestrel_compat.memcache.reader import RequestReader
from barbicel.kestrel_compat.memcache.requests import Bad, Get, Refusal, Set, Version
from tests.kestrel_compat.memcache.feeding import WAYS, Reader, Way, drain, in_two, read, told
from tests.kestrel_compat.memcache.transcripts import (
    ENDS,
    MAX_ITEM_BYTES,
    MAX_LINE_BYTES,
    TRANSCRIPTS,
    Transcript,
)

MIB = 1024 * 1024
PIECE = b"x" * 65536


def limit_of(queue: str) -> int:
    return 4 if queue == "small" else MAX_ITEM_BYTES


def new_reader() -> RequestReader:
    return RequestReader(MAX_LINE_BYTES, limit_of)


def without_reasons(requests: list[object]) -> list[tuple[str, object]]:
    return told(request._replace(reason="") if isinstance(request, Bad) else request for request in requests)


each_transcript = pytest.mark.parametrize("transcript", TRANSCRIPTS.values(), ids=TRANSCRIPTS)
each_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


@each_transcript
@each_way
def test_transcript(transcript: Transcript, way: Way) -> None:
    reader = new_reader()
    assert without_reasons(way(reader, transcript.data)) == told(transcript.requests)
    assert reader.held_bytes == 0
    assert not reader.is_within_a_request


@each_transcript
def test_transcript_in_two_pieces(transcript: Transcript) -> None:
    for position in range(len(transcript.data)):
        requests = read(new_reader(), in_two(transcript.data, position))
        assert without_reasons(requests) == told(transcript.requests)


@each_transcript
@each_way
def test_transcript_with_more_behind_it(transcript: Transcript, way: Way) -> None:
    reader = new_reader()
    is_over = ENDS in transcript.requests
    requests = way(reader, transcript.data + b"version\r\nget trai")
    assert without_reasons(requests) == told([*transcript.requests, *([] if is_over else [Version()])])
    assert reader.is_within_a_request != is_over
    assert reader.held_bytes == (0 if is_over else len(b"get trai"))
    assert without_reasons(read(reader, [b"ling\n"])) == told(
        [] if is_over else [Get("trailing", "trailing", False, False, False, False, None)]
    )


@each_way
def test_all_transcripts_pipelined(way: Way) -> None:
    going_on = [transcript for transcript in TRANSCRIPTS.values() if ENDS not in transcript.requests]
    assert len(going_on) > 80
    requests = way(new_reader(), b"".join(transcript.data for transcript in going_on))
    expected = [request for transcript in going_on for request in transcript.requests]
    assert without_reasons(requests) == told(expected)


def test_a_bad_request_says_why() -> None:
    (request,) = read(new_reader(), [b"bogus %b\r\n" % (b"x" * 100)])
    assert request == Bad(Refusal.CLIENT_ERROR, True, "unknown command b'bogus'")
    (request,) = read(new_reader(), [b"%b\r\n" % (b"x" * 100)])
    assert request == Bad(Refusal.CLIENT_ERROR, True, f"unknown command {b'x' * 50!r}")


def test_every_request_is_true() -> None:
    """So that a loop which ends at a false one loses none."""
    requests = [request for transcript in TRANSCRIPTS.values() for request in transcript.requests]
    assert all(requests)


def test_what_is_held_is_counted() -> None:
    reader: Reader = new_reader()
    assert (reader.held_bytes, reader.is_within_a_request) == (0, False)
    reader.feed(b"set q 0 0")
    assert (reader.held_bytes, reader.is_within_a_request) == (9, True)
    assert reader.next_request() is None
    reader.feed(b" 5\r\n")
    reader.feed(b"hel")
    assert reader.held_bytes == 16
    assert reader.next_request() is None
    assert (reader.held_bytes, reader.is_within_a_request) == (3, True)
    reader.feed(b"lo\r")
    assert reader.next_request() is None
    assert (reader.held_bytes, reader.is_within_a_request) == (5, True)
    reader.feed(b"\nget")
    assert reader.next_request() == Set("q", 0, 0, b"hello", False)
    assert (reader.held_bytes, reader.is_within_a_request) == (3, True)


def test_a_request_without_data_yet_is_within_a_request() -> None:
    reader = new_reader()
    assert read(reader, [b"set q 0 0 5\r\n"]) == []
    assert (reader.held_bytes, reader.is_within_a_request) == (0, True)


def test_feeding_nothing_changes_nothing() -> None:
    reader = new_reader()
    assert read(reader, [b"", b"get", b"", b" q\n", b""]) == [Get("q", "q", False, False, False, False, None)]
    assert not reader.is_within_a_request


def test_the_limit_is_asked_for_each_set() -> None:
    asked = []

    def limit(queue: str) -> int:
        asked.append(queue)
        return len(asked) * 2 - 1

    reader = RequestReader(MAX_LINE_BYTES, limit)
    first, second = read(reader, [b"set q 0 0 2\r\nab\r\n" * 2])
    assert (first, second) == (Set("q", 0, 0, None, False), Set("q", 0, 0, b"ab", False))
    assert asked == ["q", "q"]


def test_a_large_item_in_small_pieces_is_not_copied_at_each() -> None:
    """Joined at each piece, this would copy 128 GiB."""
    reader = RequestReader(MAX_LINE_BYTES, lambda queue: 64 * MIB)
    reader.feed(b"set q 0 0 %d\r\n" % (8 * MIB))
    started_s = process_time()
    for _ in range(8 * MIB // 256):
        assert reader.next_request() is None
        reader.feed(PIECE[:256])
    assert reader.next_request() is None
    assert reader.held_bytes == 8 * MIB
    reader.feed(b"\r\n")
    assert reader.next_request() == Set("q", 0, 0, b"x" * (8 * MIB), False)
    assert process_time() - started_s < 5


def test_what_piled_up_is_not_copied_at_each_request() -> None:
    """Joined at each request, this would copy 300 GiB."""
    reader = new_reader()
    started_s = process_time()
    for _ in range(2000):
        reader.feed(b"get q\r\nset q 0 0 11\r\n" + b"x" * 10)
        reader.feed(b"x\r\nget q/op")
        reader.feed(b"en\r\n" + b"get q\r\n" * 150)
    assert len(list(drain(reader))) == 2000 * 153
    assert process_time() - started_s < 5


@pytest.mark.parametrize("announced", [21, 2**31 - 1])
def test_what_is_too_large_is_never_kept(announced: int) -> None:
    reader = new_reader()
    tracemalloc.start()
    try:
        reader.feed(b"set q 0 0 %d\r\n" % announced)
        for _ in range(64):
            request = reader.next_request()
            if request is not None:
                assert request == Set("q", 0, 0, None, False)
                break
            assert reader.held_bytes == 0
            assert reader.is_within_a_request
            reader.feed(PIECE)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < MIB
    assert (request is None) == (announced > 64 * len(PIECE))


def test_an_announcement_allocates_nothing() -> None:
    reader = RequestReader(MAX_LINE_BYTES, lambda queue: 2**31)
    tracemalloc.start()
    try:
        assert read(reader, [b"set q 0 0 2147483647\r\nx"]) == []
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < MIB
    assert reader.held_bytes == 1


def test_a_waiting_connection_does_not_keep_what_it_has_read() -> None:
    reader = new_reader()
    reader.feed(b"get q\r\n" * 10_000 + b"g")
    assert len(list(drain(reader))) == 10_000
    assert len(reader._buffer) == reader.held_bytes == 1


def test_after_the_end_nothing_is_kept() -> None:
    reader = new_reader()
    reader.feed(b"bogus\r\n")
    reader.feed(PIECE)
    assert [type(request) for request in drain(reader)] == [Bad]
    reader.feed(PIECE)
    assert (reader.held_bytes, reader.is_within_a_request, reader.next_request()) == (0, False, None)
