"""What is known of the segments in the store: L2, a cache of their indexes.

A small segment is read whole, a large one begins with its `.index`. That is only believed as far as the
segment agrees: where it does not, or is missing, the whole segment is read once, and then either a new index
is made of it or the segment is known to be damaged.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable

from barbicel.codecs.kafka.record_batch import BATCH_HEADER_BYTES
from barbicel.codecs.kfs import KFS_FOOTER_BYTES, KFS_HEADER_BYTES
from barbicel.codecs.kfs_index import (
    INDEX_ENTRY_BYTES,
    INDEX_HEADER_BYTES,
    INDEX_INTERVAL_MESSAGES,
    KfsIndex,
    decode_index,
)
from barbicel.errors import CorruptFile, ObjectMissing
from barbicel.tier.body import ReadRange
from barbicel.tier.cache import ByteCache
from barbicel.tier.cold_map import SegmentMap, TieredSegment
from barbicel.tier.object_store import ObjectStore
from barbicel.tier.whole_segment import check_whole

__all__ = ["SHARE", "SegmentMaps"]

# Of its time a thread that checks batches works so much, and leaves the rest to the reactor.
SHARE = 0.5

# Is told of a small segment that was read whole, and turned out to be sound.
KeepWhole = Callable[[TieredSegment, SegmentMap, bytes], None]


class SegmentMaps:
    """For any number of threads; all of it waits for the store."""

    def __init__(self, store: ObjectStore, max_bytes: int, block_bytes: int, keep_whole: KeepWhole) -> None:
        self.cache: ByteCache[SegmentMap] = ByteCache(max_bytes, lambda known: known.size)
        # Segments that were read whole, and those of them that are damaged.
        self.settled = self.damaged = 0
        self._store = store
        self._block_bytes = block_bytes
        self._keep_whole = keep_whole

    def get(self, segment: TieredSegment) -> SegmentMap:
        """Raises StoreError."""
        # One request for all of a small segment is quicker than two, and leaves no doubt.
        if segment.object_bytes <= self._block_bytes:
            return self.get_settled(segment)
        settled = self.cache.find(_key(segment, is_settled=True))
        if settled is not None:
            return settled
        return self.cache.get(_key(segment), lambda: self._load(segment))

    def get_settled(self, segment: TieredSegment) -> SegmentMap:
        """The same, for a segment that gave a reason to doubt it or its index."""
        return self.cache.get(_key(segment, is_settled=True), lambda: self._settle(segment))

    def peek(self, segment: TieredSegment) -> SegmentMap | None:
        """What is known without asking the store."""
        settled = self.cache.peek(_key(segment, is_settled=True))
        return settled if settled is not None else self.cache.peek(_key(segment))

    def forget(self, segment: TieredSegment) -> None:
        self.cache.drop(_key(segment))
        self.cache.drop(_key(segment, is_settled=True))

    def _load(self, segment: TieredSegment) -> SegmentMap:
        index = self._stored_index(segment)
        return self.get_settled(segment) if index is None else self._new(segment, index)

    def _new(
        self, segment: TieredSegment, index: KfsIndex, *, is_settled: bool = False, is_sound: bool = False
    ) -> SegmentMap:
        return SegmentMap(
            index,
            end_offset=segment.end_offset,
            body_end=segment.object_bytes - KFS_FOOTER_BYTES,
            block_bytes=self._block_bytes,
            is_settled=is_settled,
            is_sound=is_sound,
        )

    def _settle(self, segment: TieredSegment) -> SegmentMap:
        """Read the whole segment: is it sound, and where are its batches really?"""
        self.settled += 1
        whole = b""
        if segment.object_bytes <= self._block_bytes:
            whole = self._store.get(segment.key, 0, segment.object_bytes)
        try:
            read = self._range_of(segment, whole)
            packed = check_whole(read, segment.object_bytes, share=SHARE, chunk_bytes=self._block_bytes)
            _check_range(segment, packed.base_offset, packed.end_offset)
        except CorruptFile:
            self.damaged += 1
            index = self._stored_index(segment) or _only_first(segment)
            return self._new(segment, index, is_settled=True)
        known = self._new(segment, decode_index(packed.index), is_settled=True, is_sound=True)
        if whole:
            self._keep_whole(segment, known, whole)
        return known

    def _range_of(self, segment: TieredSegment, whole: bytes) -> ReadRange:
        if whole:
            return lambda position, length: whole[position : position + length]
        return lambda position, length: self._store.get(segment.key, position, length)

    def _stored_index(self, segment: TieredSegment) -> KfsIndex | None:
        """None if it is missing or cannot be this segment's: the segment itself knows all that it says."""
        most_entries = segment.object_bytes // BATCH_HEADER_BYTES
        try:
            size = self._store.head(segment.index_key).size
            if size > INDEX_HEADER_BYTES + most_entries * INDEX_ENTRY_BYTES:
                return None
            index = decode_index(self._store.get(segment.index_key, 0, size))
            _check_range(segment, index.offsets[0], index.offsets[-1] + 1)
        except (ObjectMissing, CorruptFile):
            return None
        is_within = index.positions[-1] < segment.object_bytes - KFS_FOOTER_BYTES
        return index if is_within else None


def _key(segment: TieredSegment, *, is_settled: bool = False) -> tuple[str, str, bool]:
    return segment.key, segment.etag, is_settled


def _check_range(segment: TieredSegment, first_offset: int, end_offset: int) -> None:
    if not segment.base_offset <= first_offset < end_offset <= segment.end_offset:
        raise CorruptFile(f"offsets {first_offset} to {end_offset - 1} are not this segment's", position=0)


def _only_first(segment: TieredSegment) -> KfsIndex:
    """What is known without an index: where the first batch begins."""
    offsets, positions = array("q", [segment.base_offset]), array("q", [KFS_HEADER_BYTES])
    return KfsIndex(offsets, positions, INDEX_INTERVAL_MESSAGES)
