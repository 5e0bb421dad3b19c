"""Segments for tests: batches, the objects that they make, and stores that count and fail."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from random import Random

from barbicel.codecs.kafka.compression import Codec
from barbicel.codecs.kafka.new_batch import NewRecord, build_batch
from barbicel.codecs.kafka.record_batch import decode_header
from barbicel.tier.cold_reader import ColdReader, TieredSegment
from barbicel.tier.directory import DirectoryObjects
from barbicel.tier.object_store import ObjectInfo
from barbicel.tier.packing import pieces, survey
from tests.support.mortal_disk import MortalDisk

__all__ = [
    "BLOCK",
    "MIB",
    "T",
    "WatchedStore",
    "batch",
    "batches_of",
    "flipped",
    "object_bytes",
    "put_segment",
    "read_all",
    "read_on",
    "reader_of",
    "same",
]

T = 1_700_000_000_000
BLOCK = 4096
MIB = 1 << 20


def batch(
    base_offset: int,
    count: int = 1,
    value_bytes: int = 20,
    *,
    leader_epoch: int = 3,
    codec: Codec = Codec.NONE,
    seed: int | None = None,
) -> bytes:
    random = Random(base_offset if seed is None else seed)
    records = [
        NewRecord(T + base_offset + number, b"k%d" % number, random.randbytes(value_bytes))
        for number in range(count)
    ]
    return build_batch(records, base_offset=base_offset, leader_epoch=leader_epoch, codec=codec)


def batches_of(number: int, *, count: int = 10, value_bytes: int = 50, first_offset: int = 0) -> list[bytes]:
    """So many batches without a gap, `count` records each."""
    return [batch(first_offset + index * count, count, value_bytes) for index in range(number)]


def object_bytes(batches: Sequence[bytes]) -> tuple[bytes, bytes]:
    """The `.kfs` and the `.index` of the batches."""
    packed = survey(batches, T, share=1.0)
    return b"".join(pieces(packed, batches, share=1.0)), packed.index


def flipped(data: bytes, position: int, bits: int = 1) -> bytes:
    return data[:position] + bytes([data[position] ^ bits]) + data[position + 1 :]


class WatchedStore(DirectoryObjects):
    """A directory whose reads are noted, and may be held up or fail."""

    def __init__(self, root: Path) -> None:
        super().__init__(os.fspath(root), disk=MortalDisk())
        self.gets: list[tuple[str, int, int | None]] = []
        self.on_get: Callable[[str, int], None] = lambda key, start: None
        self._noting = threading.Lock()

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        with self._noting:
            self.gets.append((key, start, length))
        self.on_get(key, start)
        return super().get(key, start, length)

    def put(self, key: str, content: bytes) -> ObjectInfo:
        return self.put_large(key, iter([content]))


def put_segment(
    store: WatchedStore,
    batches: Sequence[bytes],
    *,
    name: str = "segment",
    segment: bytes | None = None,
    index: bytes | None = None,
    base_offset: int | None = None,
    end_offset: int | None = None,
) -> TieredSegment:
    """Put the batches' objects, or others in their place, and describe them as the batches are."""
    packed = survey(batches, T, share=1.0)
    true_segment, true_index = object_bytes(batches)
    content = true_segment if segment is None else segment
    info = store.put(f"{name}.kfs", content)
    store.put(f"{name}.index", true_index if index is None else index)
    return TieredSegment(
        key=f"{name}.kfs",
        index_key=f"{name}.index",
        base_offset=packed.base_offset if base_offset is None else base_offset,
        end_offset=packed.end_offset if end_offset is None else end_offset,
        object_bytes=len(content),
        etag=info.etag,
    )


def read_all(views: Iterable[memoryview]) -> list[bytes]:
    return [bytes(view) for view in views]


def same(found: list[bytes], expected: list[bytes]) -> bool:
    """Of a damaged segment nobody can tell which leader epochs are right: they are left out, never wrong."""
    assert all(
        item[12:16] in (b"\xff" * 4, right[12:16]) for item, right in zip(found, expected, strict=True)
    )
    return [item[:12] + item[16:] for item in found] == [item[:12] + item[16:] for item in expected]


def reader_of(
    store: WatchedStore,
    *,
    block_bytes: int = BLOCK,
    cache_bytes: int = MIB,
    index_bytes: int = MIB,
    segments_ahead: int = 2,
    threads: int = 0,
) -> ColdReader:
    return ColdReader(
        store,
        segment_cache_bytes=cache_bytes,
        index_cache_bytes=index_bytes,
        readahead_segments=segments_ahead,
        threads=threads,
        block_bytes=block_bytes,
    )


def read_on(
    reader: ColdReader, segments: list[TieredSegment], offset: int, max_bytes: int
) -> Iterator[bytes]:
    """As a consumer reads: from where the last answer ended."""
    while views := reader.read(segments, offset, 2**62, max_bytes, at_least_one=True):
        yield from read_all(views)
        offset = decode_header(views[-1]).end_offset
        segments = [segment for segment in segments if segment.end_offset > offset]
