"""Any bytes at all, in any pieces: requests come out, the same ones, and little is held."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from barbicel.kestrel_compat.memcache.reader import RequestReader
from barbicel.kestrel_compat.memcache.requests import Bad, Get, Set
from tests.kestrel_compat.memcache.feeding import WAYS, drain, told
from tests.kestrel_compat.memcache.transcripts import TRANSCRIPTS

MAX_LINE_BYTES = 40
MAX_ITEM_BYTES = 12

FRAGMENTS = [
    b"set q 0 0 ",
    b"get ",
    b"q",
    b"/open",
    b"/t=",
    b"5",
    b"-",
    b" ",
    b"\r\n",
    b"\n",
    b"\r",
    b"noreply",
]
NOISE = st.one_of(
    st.sampled_from([transcript.data for transcript in TRANSCRIPTS.values()]),
    st.sampled_from(FRAGMENTS),
    st.binary(max_size=20),
)
STREAMS = st.lists(NOISE, max_size=30).map(b"".join)

KEYS = st.text("abcQ+-_:\xe9", min_size=1, max_size=8)
SETS = st.builds(
    Set,
    KEYS,
    st.integers(0, 2**32 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.binary(max_size=200),
    st.booleans(),
)
GETS = st.builds(lambda key: Get(key, key, False, False, False, False, None), KEYS)


def new_reader() -> RequestReader:
    return RequestReader(MAX_LINE_BYTES, lambda queue: MAX_ITEM_BYTES)


def rendered(request: Set | Get) -> bytes:
    if isinstance(request, Get):
        return b"get %b\r\n" % request.key.encode("latin-1")
    assert request.data is not None
    words = (
        f"set {request.queue} {request.flags} {request.expiry_s} {len(request.data)}"
        f"{' noreply' if request.noreply else ''}"
    )
    return b"%b\r\n%b\r\n" % (words.encode("latin-1"), request.data)


@settings(deadline=None)
@given(STREAMS)
def test_pieces_do_not_matter(stream: bytes) -> None:
    results = [told(way(new_reader(), stream)) for way in WAYS.values()]
    assert all(result == results[0] for result in results)
    requests = [request for _, request in results[0]]
    closing = [request for request in requests if isinstance(request, Bad) and request.closes]
    assert closing == [] or closing == requests[-1:]


@settings(deadline=None)
@given(st.lists(NOISE, max_size=30))
def test_what_is_held_is_bounded(pieces: list[bytes]) -> None:
    reader = new_reader()
    for piece in pieces:
        reader.feed(piece)
        list(drain(reader))
        assert reader.held_bytes <= MAX_LINE_BYTES
        assert len(reader._buffer) == reader.held_bytes or reader._body is not None


@settings(deadline=None)
@given(st.lists(st.one_of(SETS, GETS), max_size=20), st.integers(1, 300))
def test_what_is_written_is_read(requests: list[Set | Get], piece_bytes: int) -> None:
    reader = RequestReader(8192, lambda queue: 100)
    stream = b"".join(map(rendered, requests))
    seen: list[object] = []
    for position in range(0, len(stream), piece_bytes):
        reader.feed(stream[position : position + piece_bytes])
        seen.extend(drain(reader))
    assert told(seen) == told(
        request._replace(data=None)
        if isinstance(request, Set) and request.data is not None and len(request.data) > 100
        else request
        for request in requests
    )
