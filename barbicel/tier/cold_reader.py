"""Reading segments that lie in the object store: whole batches from an offset on, through two caches.

L1 has blocks of segments (a few MiB of whole, checked batches), L2 what is known of where they begin. The
invariants: memory is bounded whatever the size of an object; one thread loads what many want; no batch is
handed out that is not sound, and damage in one place leaves the rest readable. Every method may be called
from any thread and waits for the store.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import partial
from threading import Lock

from barbicel.closing import Closing
from barbicel.codecs.kafka.record_batch import decode_header
from barbicel.codecs.kfs_batches import declared_bytes
from barbicel.errors import CorruptFile, CorruptObject, StoreError
from barbicel.tier.cache import ByteCache
from barbicel.tier.cold_block import Block, Damage, Doubt, Place, check_block
from barbicel.tier.cold_map import SegmentMap, TieredSegment
from barbicel.tier.cold_maps import SHARE, SegmentMaps
from barbicel.tier.object_store import ObjectStore
from barbicel.tier.pace import Pace
from barbicel.tier.readahead import Readahead
from barbicel.tier.whole_segment import whole_batches

__all__ = ["ColdReader", "TieredSegment"]

BLOCK_BYTES = 4 << 20
READAHEAD_BLOCKS = 8
# So many places where a read has ended are remembered, to tell who reads on from who reads here and there.
REMEMBERED_ENDS = 4096


class ColdReader(Closing):
    def __init__(
        self,
        store: ObjectStore,
        *,
        segment_cache_bytes: int = 1 << 30,
        index_cache_bytes: int = 100 << 20,
        readahead_segments: int = 2,
        threads: int = 4,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        self.blocks: ByteCache[Block] = ByteCache(
            segment_cache_bytes, lambda block: block.size, is_kept=lambda block: not block.damages
        )
        self.maps = SegmentMaps(store, index_cache_bytes, block_bytes, self._keep_whole)
        self.readahead = Readahead(threads)
        self._store = store
        self._block_bytes = block_bytes
        self._readahead_segments = readahead_segments
        self._readahead_blocks = min(READAHEAD_BLOCKS, segment_cache_bytes // (4 * block_bytes))
        self._ends = _RecentEnds()

    def close(self) -> None:
        self.readahead.close()

    # --- reading ------------------------------------------------------------------------------------

    def read(
        self,
        segments: Sequence[TieredSegment],
        offset: int,
        end_offset: int,
        max_bytes: int,
        *,
        at_least_one: bool,
    ) -> list[memoryview]:
        """Whole batches, one a view, from the one that contains the offset, or else follows it, on.

        Batches that begin at end_offset or behind it are left out. If `at_least_one`, the first one may
        exceed max_bytes. CorruptObject if the first batch is damaged; ObjectMissing, StoreError if it cannot
        be read: what is wrong behind it is no reason to keep it back.
        """
        views: list[memoryview] = []
        is_going_on = self._ends.has(segments, offset)
        for number, segment in enumerate(segments):
            while offset < min(segment.end_offset, end_offset):
                try:
                    block = self._block(segment, offset)
                except StoreError:
                    # Whoever asks for what comes next hears of it; those before it are not to wait for that.
                    if not views:
                        raise
                    return views
                damage = block.damage_at(offset)
                if damage is not None:
                    if not views:
                        raise _corrupt(segment, damage)
                    return views
                taken = block.take(offset, end_offset, max_bytes, at_least_one=at_least_one and not views)
                views += taken.views
                max_bytes -= sum(map(len, taken.views))
                if is_going_on:
                    self._read_ahead(segments[number:], block)
                is_enough = max_bytes <= 0 and (bool(views) or not at_least_one)
                if not taken.is_all or is_enough:
                    self._ends.add(segment, views)
                    return views
                offset, is_going_on = block.end_offset, True
        return views

    def batches(self, segment: TieredSegment) -> Iterator[memoryview]:
        """All batches of a segment, streamed past the caches. CorruptObject where it is damaged.

        That something is wrong which no batch shows by itself is known, and raised, at the end only.
        """
        end_offset, pace = segment.base_offset, Pace(SHARE)
        read = partial(self._store.get, segment.key)
        try:
            for data, facts in whole_batches(read, segment.object_bytes, chunk_bytes=self._block_bytes):
                yield data
                end_offset = facts.end_offset
                pace.rest()
        except CorruptFile as problem:
            first_offset = min(end_offset, segment.end_offset - 1)
            damage = Damage(first_offset, segment.end_offset, problem.position or 0, problem.message)
            raise _corrupt(segment, damage) from None

    def forget(self, segment: TieredSegment) -> None:
        """Drop what is known of where its blocks begin, and of damage: it was mended, or is deleted."""
        self.maps.forget(segment)

    # --- blocks -------------------------------------------------------------------------------------

    def _block(self, segment: TieredSegment, offset: int) -> Block:
        """The block that has the offset, or else what is behind it."""
        try:
            return self._block_of(segment, self.maps.get(segment), offset)
        except Doubt:
            return self._block_of(segment, self.maps.get_settled(segment), offset)

    def _block_of(self, segment: TieredSegment, known: SegmentMap, offset: int) -> Block:
        while True:
            place = known.locate(offset)
            block = self.blocks.get(_block_key(segment, place), partial(self._load, segment, known, place))
            known.note(place, block)
            if offset < block.end_offset or block.next_position >= place.limit:
                return block

    def _load(self, segment: TieredSegment, known: SegmentMap, place: Place) -> Block:
        left = place.limit - place.position
        length = min(self._block_bytes, left)
        data = self._store.get(segment.key, place.position, length)
        size = declared_bytes(memoryview(data), 0)
        if size is not None and length < size <= left:
            data += self._store.get(segment.key, place.position + length, size - length)
        return _check(data, known, place)

    def _keep_whole(self, segment: TieredSegment, known: SegmentMap, whole: bytes) -> None:
        """What was read to check a small segment is its only block."""
        place = known.locate(segment.base_offset)
        block = _check(whole[place.position : place.limit], known, place)
        self.blocks.put(_block_key(segment, place), block)

    # --- before anybody asks ------------------------------------------------------------------------

    def _read_ahead(self, segments: Sequence[TieredSegment], block: Block) -> None:
        """The blocks that follow in the first segment, and the first ones of the segments behind it."""
        segment, offset = segments[0], block.end_offset
        known, left = self.maps.peek(segment), self._readahead_blocks
        while known is not None and left > 0 and offset < segment.end_offset:
            place = known.locate(offset)
            self._ask_ahead(segment, known, offset)
            offset, left = max(place.limit_offset, offset + 1), left - 1
        for behind in segments[1 : 1 + min(self._readahead_segments, left)]:
            self._ask_ahead(behind, self.maps.peek(behind), behind.base_offset)

    def _ask_ahead(self, segment: TieredSegment, known: SegmentMap | None, offset: int) -> None:
        if known is None or not self.blocks.is_coming(_block_key(segment, known.locate(offset))):
            self.readahead.ask((segment.key, offset), partial(self._block, segment, offset))


class _RecentEnds:
    """Where reads have ended: who begins there goes on reading."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._ends: OrderedDict[tuple[str, int], None] = OrderedDict()

    def add(self, segment: TieredSegment, views: list[memoryview]) -> None:
        if not views:
            return
        end_offset = decode_header(views[-1]).end_offset
        with self._lock:
            self._ends[(segment.key, end_offset)] = None
            while len(self._ends) > REMEMBERED_ENDS:
                self._ends.popitem(last=False)

    def has(self, segments: Sequence[TieredSegment], offset: int) -> bool:
        if not segments or offset <= segments[0].base_offset:
            return True
        with self._lock:
            return self._ends.pop((segments[0].key, offset), self) is None


def _block_key(segment: TieredSegment, place: Place) -> tuple[str, str, int]:
    return segment.key, segment.etag, place.position


def _check(data: bytes, known: SegmentMap, place: Place) -> Block:
    return check_block(
        data, place, known.index, Pace(SHARE), is_settled=known.is_settled, is_sound=known.is_sound
    )


def _corrupt(segment: TieredSegment, damage: Damage) -> CorruptObject:
    return CorruptObject(
        damage.reason,
        first_offset=damage.first_offset,
        end_offset=damage.end_offset,
        key=segment.key,
        position=damage.position,
    )
