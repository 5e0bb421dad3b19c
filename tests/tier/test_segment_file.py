"""Segments without a server: whole files, cut and flipped at every byte, from paths, URLs and a bucket."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barbicel.codecs.kfs import SegmentFooter, SegmentHeader
from barbicel.codecs.kfs_index import decode_index
from barbicel.disk import RealDisk
from barbicel.errors import BarbicelError, CorruptFile, CorruptObject, ObjectMissing, StoreRefused
from barbicel.tier.segment_file import FoundSegment, list_segments, open_segment
from barbicel.tier.stores import open_store
from barbicel.tier.whole_segment import check_whole
from tests.codecs.kafka.golden_batches import PLAIN
from tests.golden import load
from tests.support.object_store_server import ObjectStoreServer
from tests.tier.segments import batch, batches_of, flipped, object_bytes, read_all, same

NAME = "segment-00000000000000000100"
CREATED_MS = range(20, 28)  # of a segment: the only bytes that nothing repeats


def put(directory: Path, segment: bytes, index: bytes | None) -> Path:
    path = directory / f"{NAME}.kfs"
    path.write_bytes(segment)
    if index is not None:
        (directory / f"{NAME}.index").write_bytes(index)
    return path


@pytest.fixture
def all_kinds(tmp_path: Path) -> Path:
    return put(tmp_path, load("kfs/segment-all-kinds"), load("kfs/index-all-kinds"))


# --- reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["{}", "file://{}"])
def test_golden(all_kinds: Path, form: str) -> None:
    with open_segment(form.format(all_kinds)) as segment:
        assert segment.header == SegmentHeader(100, 125, 1_700_000_000_001)
        assert isinstance(segment.footer, SegmentFooter)
        assert segment.footer.last_offset == 2**32
        assert segment.index == decode_index(load("kfs/index-all-kinds"))
        assert segment.verify().message_count == 125
        assert b"".join(segment.batches()) == load("kfs/segment-all-kinds")[32:-16]


def test_relative_path(all_kinds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(all_kinds.parent)
    with open_segment(all_kinds.name) as segment:
        assert segment.verify().base_offset == 100


@pytest.mark.parametrize(
    ("offset", "first"),
    [(0, 100), (100, 100), (101, 101), (102, 104), (105, 104), (110, 106), (235, 116), (236, 2**32)],
)
def test_read_begins_with_the_batch_that_has_the_offset_or_follows_it(
    all_kinds: Path, offset: int, first: int
) -> None:
    with open_segment(os.fspath(all_kinds)) as segment:
        found = read_all(segment.read(offset))
        assert int.from_bytes(found[0][:8], "big") == first
        assert b"".join(found) == load("kfs/segment-all-kinds")[32:-16][-sum(map(len, found)) :]


def test_read_behind_the_end(all_kinds: Path) -> None:
    with open_segment(os.fspath(all_kinds)) as segment:
        assert list(segment.read(2**32 + 1)) == []


@pytest.mark.parametrize("index", [None, b"", b"garbage", load("kfs/index-one")], ids=repr)
def test_without_a_good_index_it_is_made_of_the_batches(tmp_path: Path, index: bytes | None) -> None:
    path = put(tmp_path, load("kfs/segment-all-kinds"), index)
    with open_segment(os.fspath(path)) as segment:
        assert int.from_bytes(next(segment.read(2**32))[:8], "big") == 2**32
        if index != load("kfs/index-one"):
            assert segment.index == decode_index(load("kfs/index-all-kinds"))


def test_index_of_another_interval_is_right_too(tmp_path: Path) -> None:
    batches = batches_of(30)
    segment_bytes, _ = object_bytes(batches)
    at, entries = 32, b""
    for number, item in enumerate(batches):
        if number % 3 == 0:
            entries += (number * 10).to_bytes(8, "big") + at.to_bytes(4, "big")
        at += len(item)
    index = b"IDX\n" + bytes.fromhex("0001 0000000a 00000014 0000") + entries
    with open_segment(os.fspath(put(tmp_path, segment_bytes, index))) as segment:
        segment.verify()
        assert read_all(segment.read(155)) == batches[15:]
    with (
        open_segment(os.fspath(put(tmp_path, segment_bytes, flipped(index, 16 + 12 + 7)))) as segment,
        pytest.raises(CorruptFile, match="no batch with offset 31 begins") as caught,
    ):
        segment.verify()
    assert caught.value.position == 28
    assert str(caught.value.path).endswith(".index")


# --- damage ---------------------------------------------------------------------------------------


def small() -> tuple[bytes, bytes, list[bytes]]:
    batches = [PLAIN, batch(7, 2), batch(9, 1)]
    return *object_bytes(batches), batches


def outcomes(path: Path) -> Iterator[list[bytes] | BarbicelError]:
    """What each way to read the whole segment gives."""
    try:
        segment = open_segment(os.fspath(path))
    except CorruptFile as problem:
        yield problem
        return
    with segment:
        for read in (segment.batches, lambda: segment.read(0)):
            try:
                yield read_all(read())
            except (CorruptFile, CorruptObject) as problem:
                yield problem
        try:
            segment.verify()
        except CorruptFile as problem:
            yield problem


def test_every_flipped_byte_of_a_segment_is_noticed(tmp_path: Path) -> None:
    content, index, batches = small()
    starts = [32 + sum(map(len, batches[:number])) for number in range(3)]
    # What no batch's own content depends on: header, footer, and leader epochs, which are left out then.
    beside = {*range(32), *range(len(content) - 16, len(content))}
    beside |= {start + byte for start in starts for byte in range(12, 16)}
    for position in range(len(content)):
        path = put(tmp_path, flipped(content, position, 0x11), index)
        for outcome in outcomes(path):
            if position in CREATED_MS:
                assert outcome == batches
            elif not isinstance(outcome, BarbicelError):
                assert same(outcome, batches)
                assert position in beside
            else:
                assert outcome.path == os.fspath(path)
                assert outcome.position is not None
                assert outcome.position <= max(position, len(content) - 16)


def test_flipped_bytes_are_always_found_by_verify(tmp_path: Path) -> None:
    content, index, _ = small()
    for position in set(range(len(content))) - set(CREATED_MS):
        path = put(tmp_path, flipped(content, position, 0x80), index)
        with pytest.raises(CorruptFile), open_segment(os.fspath(path)) as segment:
            segment.verify()


@settings(deadline=None, max_examples=200)
@given(start=st.floats(0, 1), size=st.integers(0, 100), new=st.binary(max_size=100))
def test_whole_check_knows_no_other_segment(start: float, size: int, new: bytes) -> None:
    content, _, _ = small()
    at = int(start * len(content))
    other = content[:at] + new + content[at + size :]
    try:
        check_whole(lambda position, length: other[position : position + length], len(other), share=1.0)
    except CorruptFile as problem:
        assert other != content
        assert problem.position is not None
    else:
        assert other[:20] + other[28:] == content[:20] + content[28:]


def test_every_cut_is_noticed(tmp_path: Path) -> None:
    content, index, _ = small()
    for size in range(len(content)):
        for outcome in outcomes(put(tmp_path, content[:size], index)):
            assert isinstance(outcome, BarbicelError)
            assert outcome.path == os.fspath(tmp_path / f"{NAME}.kfs")


@pytest.mark.parametrize("tail", [b"\0", bytes(100), PLAIN, load("kfs/segment-one")])
def test_trailing_data_is_refused(tmp_path: Path, tail: bytes) -> None:
    content, index, _ = small()
    whole, *others = outcomes(put(tmp_path, content + tail, index))
    assert isinstance(whole, BarbicelError)
    # Behind the first footer there may be another one, of which the first batch is the only one.
    assert all(isinstance(outcome, BarbicelError) or same(outcome, [PLAIN]) for outcome in others)


def test_every_flipped_byte_of_an_index_is_noticed_or_does_no_harm(tmp_path: Path) -> None:
    batches = batches_of(40)
    content, index = object_bytes(batches)
    for position in range(len(index)):
        path = put(tmp_path, content, flipped(index, position, 0x04))
        with open_segment(os.fspath(path)) as segment:
            for offset in (0, 99, 100, 250, 399):
                assert read_all(segment.read(offset)) == batches[offset // 10 :]
            if position not in range(10, 14):  # the interval says nothing of this segment
                with pytest.raises(CorruptFile) as caught:
                    segment.verify()
                assert caught.value.path == os.fspath(tmp_path / f"{NAME}.index")


def test_missing_segment(tmp_path: Path) -> None:
    with pytest.raises(ObjectMissing):
        open_segment(os.fspath(tmp_path / f"{NAME}.kfs"))


def test_unknown_scheme() -> None:
    with pytest.raises(StoreRefused):
        open_segment(f"gopher://host/{NAME}.kfs")


# --- listing --------------------------------------------------------------------------------------


def test_list_of_a_directory(tmp_path: Path) -> None:
    for name in ("ns/orders-x/0", "ns/orders-x/10", "flat"):
        (tmp_path / name).mkdir(parents=True)
        put(tmp_path / name, load("kfs/segment-one"), b"")
    (tmp_path / "flat" / "segment-1.kfs").write_bytes(b"no segment's name")
    root, size = os.fspath(tmp_path), len(load("kfs/segment-one"))
    assert list(list_segments(root)) == [
        FoundSegment(f"{root}/flat/{NAME}.kfs", None, None, 100, size),
        FoundSegment(f"{root}/ns/orders-x/0/{NAME}.kfs", "orders-x", 0, 100, size),
        FoundSegment(f"{root}/ns/orders-x/10/{NAME}.kfs", "orders-x", 10, 100, size),
    ]
    (only,) = list_segments(f"file://{root}/ns/orders-x/10/")
    assert only == FoundSegment(f"file://{root}/ns/orders-x/10/{NAME}.kfs", "orders-x", 10, 100, size)
    with open_segment(only.url) as segment:
        assert read_all(segment.batches()) == [PLAIN]


def test_segments_of_a_bucket(s3_server: ObjectStoreServer) -> None:
    batches = batches_of(2000)
    content, index = object_bytes(batches)
    store = open_store("s3://bucket/segment-file/production", disk=RealDisk(), options=s3_server.options)
    store.put_large(f"orders-x/3/{NAME}.kfs", iter([content]))
    store.put_new(f"orders-x/3/{NAME}.index", [index])
    store.close()
    (found,) = list_segments("s3://bucket/segment-file", options=s3_server.options)
    assert found == FoundSegment(
        f"s3://bucket/segment-file/production/orders-x/3/{NAME}.kfs", "orders-x", 3, 100, len(content)
    )
    with open_segment(found.url, options=s3_server.options) as segment:
        assert segment.verify().message_count == 20_000
        assert read_all(segment.batches()) == batches
        assert read_all(segment.read(12_345)) == batches[1234:]
