"""Kafka's primitive types: round trips, kio's bytes, and lengths that are not believed."""

from __future__ import annotations

import io
import struct
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import readers, writers

from barbicel.codecs.kafka.wire import (
    CLASSIC,
    FLEXIBLE,
    INT32,
    ClassicReader,
    Encoding,
    FlexibleReader,
    MalformedRequest,
    decode_uvarint,
    encode_tagged_fields,
    encode_uvarint,
    skip_tagged_fields,
)

uint32s = st.integers(0, 2**32 - 1) | st.sampled_from([0x7F, 0x80, 0x3FFF, 0x4000, 2**28 - 1, 2**28])
both = pytest.mark.parametrize(
    ("encoding", "reader_of"),
    [(CLASSIC, ClassicReader), (FLEXIBLE, FlexibleReader)],
    ids=["classic", "flexible"],
)
ReaderOf = Callable[..., ClassicReader]


# --- varints --------------------------------------------------------------------------------------------


@given(uint32s)
def test_a_varint_is_what_others_write_and_read(value: int) -> None:
    written = io.BytesIO()
    writers.write_unsigned_varint(written, value)  # type: ignore[arg-type]
    assert encode_uvarint(value) == written.getvalue()
    assert readers.read_unsigned_varint(encode_uvarint(value), 0)[0] == value


@given(uint32s, st.binary(max_size=3), st.binary(max_size=3))
def test_a_varint_is_read_where_it_stands(value: int, before: bytes, behind: bytes) -> None:
    encoded = encode_uvarint(value)
    view = memoryview(before + encoded + behind)
    end = len(before) + len(encoded)
    assert decode_uvarint(view, len(before)) == (value, end)
    reader = FlexibleReader(view, len(before), end)
    assert reader.uvarint("a length") == value
    assert reader.position == end
    for cut in range(len(before), end):
        with pytest.raises(IndexError):
            decode_uvarint(view[:cut], len(before))
        reader = FlexibleReader(view, len(before), cut)
        with pytest.raises(MalformedRequest, match=f"at byte {len(before)}: a length is cut"):
            reader.uvarint("a length")


@pytest.mark.parametrize("fifth", [0x80, 0xFF])
def test_a_varint_has_five_bytes_at_most(fifth: int) -> None:
    view = memoryview(b"\x80" * 4 + bytes([fifth]) + b"\xff" * 200_000)
    with pytest.raises(MalformedRequest, match="at byte 0: a varint of more than five bytes"):
        decode_uvarint(view, 0)
    with pytest.raises(MalformedRequest, match="more than five bytes"):
        FlexibleReader(view).uvarint("a length")


def test_what_does_not_fit_32_bits_is_longer_than_any_message() -> None:
    view = memoryview(b"\xff\xff\xff\xff\x7f" + bytes(100))
    assert decode_uvarint(view, 0) == (2**35 - 1, 5)
    with pytest.raises(MalformedRequest, match="the name has 34359738366 bytes, 100 are left"):
        FlexibleReader(view).string("the name")


# --- strings, arrays, ids -------------------------------------------------------------------------------


@both
@given(text=st.none() | st.text() | st.sampled_from(["x" * 126, "x" * 127, "ü" * 16383]))
def test_a_string_comes_back(encoding: Encoding, reader_of: ReaderOf, text: str | None) -> None:
    encoded = encoding.string(text)
    reader = reader_of(memoryview(encoded + b"more"))
    assert reader.nullable_string("the name") == text
    assert reader.position == len(encoded)
    for size in range(len(encoded)) if len(encoded) < 200 else (0, 1, len(encoded) - 1):
        with pytest.raises(MalformedRequest, match="the name"):
            reader_of(memoryview(encoded), 0, size).nullable_string("the name")


@both
def test_a_null_is_refused_where_none_may_be(encoding: Encoding, reader_of: ReaderOf) -> None:
    with pytest.raises(MalformedRequest, match="the name is null"):
        reader_of(memoryview(encoding.string(None))).string("the name")
    with pytest.raises(MalformedRequest, match="at byte 0: -1 topics declared"):
        reader_of(memoryview(encoding.length(None) + bytes(8))).count(1, "topics")
    with pytest.raises(ValueError, match="without a name"):
        encoding.name(None)


@both
@pytest.mark.parametrize(("smallest", "left", "most"), [(1, 5, 5), (3, 8, 2), (3, 9, 3), (9, 8, 0)])
def test_a_count_is_held_against_the_bytes_left(
    encoding: Encoding, reader_of: ReaderOf, smallest: int, left: int, most: int
) -> None:
    def count(declared: int) -> int:
        start = encoding.length(declared)
        view = memoryview(start + bytes(left) + b"of another")
        return reader_of(view, 0, len(start) + left).count(smallest, "topics")

    assert count(most) == most
    with pytest.raises(MalformedRequest, match=f"{most + 1} topics declared in the {left} bytes"):
        count(most + 1)


@pytest.mark.parametrize("count", [-2, -(2**31)])
def test_a_negative_count_is_refused(count: int) -> None:
    with pytest.raises(MalformedRequest, match=f"{count} topics declared"):
        ClassicReader(memoryview(INT32.pack(count) + bytes(100))).count(1, "topics")


@both
def test_a_length_is_refused_before_anything_is_allocated(encoding: Encoding, reader_of: ReaderOf) -> None:
    view = memoryview(struct.pack(">h", 32767) if encoding is CLASSIC else encode_uvarint(2**31))
    tracemalloc.start()
    with pytest.raises(MalformedRequest, match="the name has"):
        reader_of(view).string("the name")
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 10_000


def test_an_id_has_sixteen_bytes() -> None:
    view = memoryview(bytes(range(20)))
    reader = ClassicReader(view, 2)
    assert reader.uuid("an id") == bytes(range(2, 18))
    with pytest.raises(MalformedRequest, match="at byte 18: an id has 16 bytes, 2 are left"):
        reader.uuid("an id")


def test_a_reader_does_not_leave_its_view_or_its_end() -> None:
    view = memoryview(bytes(10))
    assert ClassicReader(view, 0, 99).end == 10
    with pytest.raises(MalformedRequest, match="at byte 4: a number has 4 bytes, 3 are left"):
        ClassicReader(view, 4, 7).unpack(INT32, "a number")


# --- tagged fields --------------------------------------------------------------------------------------

fields = st.dictionaries(uint32s, st.binary(max_size=20), max_size=4).map(lambda tags: list(tags.items()))


@given(fields)
def test_tagged_fields_come_back_in_the_order_of_their_tags(tags: list[tuple[int, bytes]]) -> None:
    encoded = encode_tagged_fields(tags)
    view = memoryview(encoded + b"more")
    reader = FlexibleReader(view)
    found = [(tag, bytes(view[reader.position : end])) for tag, end in reader.tagged_fields()]
    assert found == sorted(tags)
    assert reader.position == len(encoded)
    assert skip_tagged_fields(view, 0) == len(encoded)
    reader = FlexibleReader(view)
    reader.skip_tagged_fields()
    assert reader.position == len(encoded)
    for size in range(len(encoded)):
        with pytest.raises((MalformedRequest, IndexError)):
            skip_tagged_fields(view[:size], 0)
        with pytest.raises(MalformedRequest):
            FlexibleReader(view, 0, size).skip_tagged_fields()


def test_a_reader_of_a_tagged_field_need_not_read_all_of_it() -> None:
    view = memoryview(encode_tagged_fields([(1, b"abc"), (2, b"de")]))
    reader = FlexibleReader(view)
    seen = []
    for tag, _ in reader.tagged_fields():
        seen.append((tag, reader.view[reader.position]))
        reader.take(1, "a byte")
    assert seen == [(1, ord("a")), (2, ord("d"))]
    assert reader.position == len(view)


@pytest.mark.parametrize("padding", [0, 7])
def test_a_count_of_tagged_fields_is_not_believed(padding: int) -> None:
    view = memoryview(encode_uvarint(2**31 - 1) + bytes(padding))
    with pytest.raises(MalformedRequest, match=f"tagged fields declared in the {padding} bytes"):
        skip_tagged_fields(view, 0)
    with pytest.raises(MalformedRequest, match=f"tagged fields declared in the {padding} bytes"):
        FlexibleReader(view).skip_tagged_fields()


def test_the_size_of_a_tagged_field_is_not_believed() -> None:
    view = memoryview(b"\x01\x05\x04abc")
    with pytest.raises(MalformedRequest, match="at byte 3: tagged field 5 is cut"):
        skip_tagged_fields(view, 0)
    with pytest.raises(MalformedRequest, match="at byte 3: tagged field 5 has 4 bytes, 3 are left"):
        FlexibleReader(view).skip_tagged_fields()


def test_the_classic_encoding_has_no_tagged_fields() -> None:
    reader = ClassicReader(memoryview(b"\x01\x05\x04abc"))
    reader.skip_tagged_fields()
    assert list(reader.tagged_fields()) == []
    assert reader.position == 0
