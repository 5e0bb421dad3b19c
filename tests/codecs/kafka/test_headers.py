"""Headers against kio's, and frames that end too early."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.request_header.v1 import header as header_v1
from kio.schema.request_header.v2 import header as header_v2
from kio.schema.response_header.v0 import header as answer_v0
from kio.schema.response_header.v1 import header as answer_v1
from kio.serial import entity_reader, entity_writer

from barbicel.codecs.kafka.headers import (
    RequestHeader,
    RequestStart,
    decode_request_header,
    decode_request_start,
    encode_response_header,
    has_flexible_response_header,
)
from barbicel.codecs.kafka.wire import MalformedRequest, encode_uvarint

API_VERSIONS = 18
FETCH = 1

int16s = st.integers(-(2**15), 2**15 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
client_ids = st.none() | st.text(max_size=20) | st.sampled_from(["", "rdkafka", "x" * 32767])


def a_header(flexible: bool, client_id: bytes = b"me") -> bytes:
    start = struct.pack(">hhih", FETCH, 12, 77, len(client_id)) + client_id
    return start + b"\x00" if flexible else start


@pytest.mark.parametrize("flexible", [False, True])
@settings(max_examples=50, deadline=None)
@given(int16s, int16s, int32s, client_ids, st.binary(max_size=10))
def test_a_header_is_what_others_wrote(
    flexible: bool, api_key: int, version: int, correlation_id: int, client_id: str | None, body: bytes
) -> None:
    kind = header_v2.RequestHeader if flexible else header_v1.RequestHeader
    written = io.BytesIO()
    theirs = kind(
        request_api_key=api_key,  # type: ignore[arg-type]
        request_api_version=version,  # type: ignore[arg-type]
        correlation_id=correlation_id,  # type: ignore[arg-type]
        client_id=client_id,
    )
    entity_writer(kind)(written, theirs)
    asked = []

    def is_flexible(*key_and_version: int) -> bool:
        asked.append(key_and_version)
        return flexible

    header, position = decode_request_header(memoryview(written.getvalue() + body), is_flexible)
    assert header == RequestHeader(api_key, version, correlation_id, client_id)
    assert position == len(written.getvalue())
    assert asked == [(api_key, version)]


@pytest.mark.parametrize("flexible", [False, True])
def test_every_truncation_is_refused(flexible: bool) -> None:
    frame = a_header(flexible)
    for size in range(len(frame)):
        with pytest.raises(MalformedRequest) as refused:
            decode_request_header(memoryview(frame)[:size], lambda *_: flexible)
        assert refused.value.position is not None
        assert refused.value.position <= size


@pytest.mark.parametrize("rest", [b"", b"\x00", b"\x7f\xff", b"\x80\x00", b"\xff\xff\xff"])
def test_the_start_is_found_whatever_follows(rest: bytes) -> None:
    frame = memoryview(struct.pack(">hhi", API_VERSIONS, 999, -5) + rest)
    assert decode_request_start(frame) == RequestStart(API_VERSIONS, 999, -5)
    for size in range(8):
        with pytest.raises(MalformedRequest, match=f"at byte {size}: the frame is too short"):
            decode_request_start(frame[:size])


@pytest.mark.parametrize("length", [-2, -32768, 3, 32767])
def test_a_length_that_cannot_be_is_refused(length: int) -> None:
    frame = memoryview(struct.pack(">hhih", FETCH, 4, 1, length) + b"me")
    with pytest.raises(MalformedRequest, match=f"the client id has {length} bytes, 2 are left"):
        decode_request_header(frame, lambda *_: False)


def test_unknown_tagged_fields_are_skipped() -> None:
    tags = b"\x02" + b"\x00\x01a" + encode_uvarint(2**31) + b"\x02bc"
    frame = memoryview(a_header(False) + tags + b"body")
    header, position = decode_request_header(frame, lambda *_: True)
    assert header == RequestHeader(FETCH, 12, 77, "me")
    assert bytes(frame[position:]) == b"body"


def test_a_client_id_that_is_no_text_is_no_reason_to_refuse() -> None:
    header, _ = decode_request_header(memoryview(a_header(False, b"caf\xe9")), lambda *_: False)
    assert header.client_id == "caf\ufffd"


@settings(max_examples=50, deadline=None)
@given(int32s)
def test_others_read_the_header_of_an_answer(correlation_id: int) -> None:
    for flexible, kind in ((False, answer_v0.ResponseHeader), (True, answer_v1.ResponseHeader)):
        encoded = encode_response_header(correlation_id, flexible)
        assert len(encoded) == 4 + flexible
        theirs = kind(correlation_id=correlation_id)  # type: ignore[arg-type]
        assert entity_reader(kind)(encoded, 0) == (theirs, len(encoded))


@pytest.mark.parametrize("flexible", [False, True])
def test_only_api_versions_never_has_a_flexible_header(flexible: bool) -> None:
    assert has_flexible_response_header(FETCH, flexible) is flexible
    assert has_flexible_response_header(API_VERSIONS, flexible) is False
