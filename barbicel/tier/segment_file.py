"""`.kfs` segments as a library, without a server: from a path, a `file://` or an `s3://` URL.

    with open_segment("s3://bucket/production/orders-…/0/segment-00000000000000000000.kfs") as segment:
        for batch in segment.batches():
            ...

The invariant is the cold reader's: a batch that is handed out is sound, damage raises CorruptFile with the
URL and the position, and memory is bounded whatever the size of the object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

from barbicel.closing import Closing
from barbicel.codecs.kafka.record_batch import decode_header
from barbicel.codecs.kfs import KFS_FOOTER_BYTES, MAX_KFS_BYTES
from barbicel.codecs.kfs_index import INDEX_ENTRY_BYTES, INDEX_HEADER_BYTES, KfsIndex, decode_index
from barbicel.disk import Disk, RealDisk
from barbicel.errors import CorruptFile, CorruptObject, ObjectMissing
from barbicel.tier.body import sound_batches
from barbicel.tier.cold_reader import ColdReader, TieredSegment
from barbicel.tier.keys import parse_segment_key
from barbicel.tier.object_store import ObjectStore
from barbicel.tier.packing import Packed
from barbicel.tier.stores import open_store
from barbicel.tier.whole_segment import check_whole, read_ends, whole_batches

__all__ = ["FoundSegment", "SegmentFile", "list_segments", "open_segment"]

_NAME = re.compile(r"(?:.*/)?segment-([0-9]{20})\.kfs", re.ASCII | re.DOTALL)
SUFFIX, INDEX_SUFFIX = ".kfs", ".index"
CHUNK_BYTES = 4 << 20
# Enough for the one batch that is looked at.
SMALL_BYTES = 64 << 10
CACHE_BYTES = 16 << 20
# A library has the interpreter to itself.
SHARE = 1.0


class FoundSegment(NamedTuple):
    """A segment as its name describes it. Topic and partition are None in a directory that has none."""

    url: str
    topic_dir: str | None
    partition: int | None
    base_offset: int
    size: int


def open_segment(
    url: str, *, disk: Disk | None = None, options: Mapping[str, str] | None = None
) -> SegmentFile:
    """The segment at a path or URL. `options` are those of the store. Raises CorruptFile, StoreError."""
    directory, slash, name = url.rpartition("/")
    store = open_store(directory or slash or ".", disk=disk or RealDisk(), options=options)
    try:
        return SegmentFile(store, name, url)
    except BaseException:
        store.close()
        raise


def list_segments(
    url: str, *, disk: Disk | None = None, options: Mapping[str, str] | None = None
) -> Iterator[FoundSegment]:
    """Every segment below a directory, a bucket or a prefix that ends with a whole name, sorted by key."""
    root = url.rstrip("/") or "/"
    store = open_store(root, disk=disk or RealDisk(), options=options)
    try:
        for info in store.list(""):
            named = _NAME.fullmatch(info.key)
            if named:
                where = f"{root.rstrip('/')}/{info.key}"
                found = parse_segment_key(where)
                topic_dir, partition = (None, None) if found is None else (found.topic_dir, found.partition)
                yield FoundSegment(where, topic_dir, partition, int(named[1]), info.size)
    finally:
        store.close()


class SegmentFile(Closing):
    """An open segment; it owns the store that it was opened in."""

    def __init__(self, store: ObjectStore, key: str, url: str) -> None:
        self.url = url
        self.index_url = url.removesuffix(SUFFIX) + INDEX_SUFFIX
        self._store = store
        self._key = key
        self._index: KfsIndex | None = None
        self._index_key = key.removesuffix(SUFFIX) + INDEX_SUFFIX
        _, self.size, etag, _ = store.head(key)
        if self.size > MAX_KFS_BYTES:
            raise CorruptFile(f"{self.size} bytes, a .kfs ends at {MAX_KFS_BYTES}", path=url, position=0)
        self._body_end = self.size - KFS_FOOTER_BYTES
        with _naming(url):
            self.header, self.footer = read_ends(self._read, self.size)
        self._segment = TieredSegment(
            key, self._index_key, self.header.base_offset, self.footer.last_offset + 1, self.size, etag
        )

    def close(self) -> None:
        self._store.close()

    def _read(self, position: int, length: int) -> bytes:
        return self._store.get(self._key, position, length)

    # --- the index ----------------------------------------------------------------------------------

    @property
    def index(self) -> KfsIndex:
        """The stored index, or one made of the batches if there is none or it is damaged."""
        if self._index is None:
            with suppress(CorruptFile):
                self._index = self.read_index()
        if self._index is None:
            self._index = decode_index(self._check_whole().index)
        return self._index

    def read_index(self) -> KfsIndex | None:
        """What the `.index` beside the segment says, None if there is none. Raises CorruptFile."""
        try:
            data = self._store.get(self._index_key)
        except ObjectMissing:
            return None
        with _naming(self.index_url):
            return decode_index(data)

    # --- checking -----------------------------------------------------------------------------------

    def verify(self) -> Packed:
        """Check every byte of the segment, and its index if it has one. Raises CorruptFile."""
        packed = self._check_whole()
        index = self.read_index()
        if index is not None and index != decode_index(packed.index):
            self._check_entries(index)
        return packed

    def _check_whole(self) -> Packed:
        with _naming(self.url):
            return check_whole(self._read, self.size, share=SHARE, chunk_bytes=CHUNK_BYTES)

    def _check_entries(self, index: KfsIndex) -> None:
        """Others may index other batches than we do, but only where there are some."""
        for number, (offset, position) in enumerate(zip(index.offsets, index.positions, strict=True)):
            if self._offset_at(position) != offset:
                at = INDEX_HEADER_BYTES + number * INDEX_ENTRY_BYTES
                message = f"no batch with offset {offset} begins at byte {position} of the segment"
                raise CorruptFile(message, path=self.index_url, position=at)

    def _offset_at(self, position: int) -> int | None:
        """The offset of the batch that begins there, None if none does."""
        try:
            first = next(sound_batches(self._read, position, self._body_end, chunk_bytes=SMALL_BYTES), None)
        except CorruptFile:
            return None
        return None if first is None else first.facts.base_offset

    # --- reading ------------------------------------------------------------------------------------

    def batches(self) -> Iterator[memoryview]:
        """All batches. What no batch shows by itself is known, and raised, at the end only."""
        with _naming(self.url):
            for batch in whole_batches(self._read, self.size, chunk_bytes=CHUNK_BYTES):
                yield batch.data

    def read(self, offset: int) -> Iterator[memoryview]:
        """Batches from the one that contains the offset, or else follows it, on. Raises CorruptObject."""
        end_offset = self.footer.last_offset + 1
        with _naming(self.url), self._reader() as reader:
            while offset < end_offset and (
                views := reader.read([self._segment], offset, end_offset, CHUNK_BYTES, at_least_one=True)
            ):
                yield from views
                offset = decode_header(views[-1]).end_offset

    def _reader(self) -> ColdReader:
        return ColdReader(
            self._store, segment_cache_bytes=CACHE_BYTES, index_cache_bytes=CACHE_BYTES, threads=0
        )


@contextmanager
def _naming(url: str) -> Iterator[None]:
    """Tell where what is wrong is."""
    try:
        yield
    except (CorruptFile, CorruptObject) as problem:
        problem.path = url
        raise
