"""Heads of requests: one like the one before is not read again, and any difference is seen."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barbicel.codecs.kafka.wire import MalformedRequest
from barbicel.gateway.kafka.request_heads import MAX_KEPT_BYTES, RequestHead, RequestHeads
from barbicel.gateway.kafka.table import UnsupportedRequest

PRODUCE, METADATA, API_VERSIONS = 0, 3, 18
FLEXIBLE_PRODUCE = 9
TAGGED = b"\x01\x07\x02ab"  # a field with tag 7 of two bytes


def frame(
    key: int = PRODUCE,
    version: int = FLEXIBLE_PRODUCE,
    correlation_id: int = 1,
    client_id: bytes | None = b"me",
    rest: bytes = b"\0body",
) -> bytearray:
    length = -1 if client_id is None else len(client_id)
    return bytearray(struct.pack(">hhih", key, version, correlation_id, length) + (client_id or b"") + rest)


def test_one_like_the_one_before_is_the_same_whatever_its_correlation_id_and_its_body() -> None:
    heads = RequestHeads()
    head = heads.read(frame())
    assert head[1:] == (FLEXIBLE_PRODUCE, True, "me", 13, True)
    assert head.api.name == "Produce"
    for number in range(5):
        assert heads.read(frame(correlation_id=number << 20, rest=b"\0" + b"x" * number)) is head


@pytest.mark.parametrize(
    "other",
    [
        frame(version=8),
        frame(key=METADATA),
        frame(client_id=b"my"),
        frame(client_id=b"m"),
        frame(client_id=b"me too"),
        frame(client_id=b""),
        frame(client_id=None),
        frame(rest=TAGGED + b"body"),
        frame(key=API_VERSIONS, version=99),
    ],
)
def test_one_that_begins_in_another_way_is_read(other: bytearray) -> None:
    alone = RequestHeads().read(other)
    heads = RequestHeads()
    first = heads.read(frame())
    assert heads.read(other) == alone != first
    assert heads.read(other) == alone
    assert heads.read(frame()) == first


parts = st.tuples(
    st.sampled_from([PRODUCE, METADATA, API_VERSIONS]),
    st.integers(0, 13),
    st.integers(-(2**31), 2**31 - 1),
    st.sampled_from([None, b"", b"a", b"ab", b"\0", b"\xff", b"a" * 300]),
    st.sampled_from([b"", b"\0", b"\0\0", TAGGED, b"a", b"\x01"]),
)


@given(st.lists(parts, max_size=8))
def test_a_connection_reads_all_as_if_each_were_the_first(
    asked: list[tuple[int, int, int, bytes, bytes]],
) -> None:
    heads = RequestHeads()
    for one in asked:
        assert read(heads, frame(*one)) == read(RequestHeads(), frame(*one))


def read(heads: RequestHeads, data: bytearray) -> RequestHead | str:
    try:
        return heads.read(data)
    except (MalformedRequest, UnsupportedRequest) as error:
        return str(error)


@pytest.mark.parametrize("size", range(13))
def test_one_that_ends_within_is_refused_behind_a_whole_one_too(size: int) -> None:
    heads = RequestHeads()
    heads.read(frame())
    with pytest.raises(MalformedRequest):
        heads.read(frame()[:size])


def test_a_long_client_id_is_not_kept() -> None:
    heads = RequestHeads()
    long = frame(client_id=b"x" * MAX_KEPT_BYTES)
    assert heads.read(long) is not heads.read(long)
    assert heads.read(long).client_id == "x" * MAX_KEPT_BYTES
