"""A stretch of whole batches out of a segment in the store, checked: what a cold read hands out views of.

Nothing here reads. A batch is sound if its CRC is right and it stands where the index, the batch before it
and the one behind it expect it. What a batch's CRC does not cover, its base offset and its leader epoch, is
compared with its neighbours: a gap in the offsets, or an epoch that only one batch has, may be right, but is
a doubt that only the CRC of the whole body can settle (whole_segment.py). Where that fails, batches that are
sound by themselves are handed out without an epoch, for nobody can tell which ones are right.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import NamedTuple

from barbicel.codecs.kafka.record_batch import LEADER_EPOCH, LEADER_EPOCH_AT
from barbicel.codecs.kfs_batches import BatchFacts, Run, declared_bytes, decode_batch_facts, decode_run
from barbicel.codecs.kfs_index import KfsIndex
from barbicel.errors import BarbicelError, CorruptFile
from barbicel.tier.pace import Pace

__all__ = ["Block", "Damage", "Doubt", "Place", "check_block"]

# The numbers that are kept for each batch.
BATCH_OVERHEAD_BYTES = 32
# Between two looks at the clock: some 60 microseconds of work.
RUN_BATCHES = 32
NO_EPOCH = -1
# Of a block, at least the half is handed out in its place.
VIEWED_SHARE = 2


class Place(NamedTuple):
    """Where batches may be read from: one begins at `position`; one ends, and the next begins, at `limit`."""

    position: int
    limit: int
    # Of the batch at `position`, and of the one at `limit`; lower if there is a gap before it.
    base_offset: int
    limit_offset: int
    # Of the batch before, if it was read.
    epoch_before: int | None = None


class Damage(NamedTuple):
    first_offset: int
    end_offset: int
    position: int
    reason: str


class Doubt(BarbicelError):
    """Something that is damage unless the whole segment says otherwise."""


class Block:
    """Batches in the order of their offsets. `damages` has what lies before a batch, by its number."""

    __slots__ = (
        "_bases",
        "_ends",
        "_starts",
        "_stops",
        "damages",
        "data",
        "end_offset",
        "last_epoch",
        "next_position",
    )

    def __init__(self, data: bytes) -> None:
        self.data = memoryview(data)
        # The first offset, and the position in the segment, after all that is known here.
        self.end_offset = self.next_position = 0
        self.last_epoch: int | None = None
        self.damages: dict[int, Damage] = {}
        self._bases, self._ends = array("q"), array("q")
        self._starts, self._stops = array("q"), array("q")

    @property
    def size(self) -> int:
        return len(self.data) + BATCH_OVERHEAD_BYTES * len(self._bases)

    def __len__(self) -> int:
        return len(self._bases)

    def add(self, facts: BatchFacts, start: int) -> None:
        self._bases.append(facts.base_offset)
        self._ends.append(facts.end_offset)
        self._starts.append(start)
        self._stops.append(start + facts.size)

    def add_run(self, run: Run, start: int, base_offset: int) -> None:
        self._bases.extend([base_offset, *run.end_offsets[:-1]])
        self._ends.extend(run.end_offsets)
        self._starts.extend([start, *run.stops[:-1]])
        self._stops.extend(run.stops)

    def forget_epochs(self) -> None:
        data = bytearray(self.data)
        for start in self._starts:
            LEADER_EPOCH.pack_into(data, start + LEADER_EPOCH_AT, NO_EPOCH)
        self.data = memoryview(bytes(data))

    def add_damage(self, damage: Damage) -> None:
        self.damages[len(self)] = damage

    def damage_at(self, offset: int) -> Damage | None:
        """The damage that a read from the offset on begins with."""
        damage = self.damages.get(bisect_right(self._ends, offset))
        if damage is None or offset >= damage.end_offset:
            return None
        # Where the index is damaged too, it may have said that the block begins behind the offset.
        return damage._replace(first_offset=min(damage.first_offset, offset))

    def take(self, offset: int, end_offset: int, max_bytes: int, *, at_least_one: bool) -> Taken:
        """Batches from the one that contains the offset, or else follows it, up to a damage or a limit."""
        first, count = bisect_right(self._ends, offset), len(self._bases)
        barrier = min((number for number in self.damages if number > first), default=count)
        end = min(barrier, bisect_left(self._bases, end_offset))
        if first < end:  # up to the barrier one batch follows the other
            fitting = bisect_right(self._stops, self._starts[first] + max_bytes, first, end)
            end = max(fitting, first + at_least_one)
        is_all = max(first, end) == count and count not in self.damages
        if first >= end:
            return Taken([], is_all)
        data, begin = self._stretch(self._starts[first], self._stops[end - 1])
        spans = zip(self._starts[first:end], self._stops[first:end], strict=True)
        return Taken([data[start - begin : stop - begin] for start, stop in spans], is_all)

    def _stretch(self, start: int, stop: int) -> tuple[memoryview, int]:
        """Something that has these bytes, and which byte of the block it begins with.

        A little of a block is copied: whoever is slow to take it would keep the whole block in memory, out
        of every budget.
        """
        if (stop - start) * VIEWED_SHARE >= len(self.data):
            return self.data, 0
        return memoryview(bytes(self.data[start:stop])), start


class Taken(NamedTuple):
    views: list[memoryview]
    # Whether what follows is in the next block.
    is_all: bool


def check_block(
    data: bytes, place: Place, index: KfsIndex, pace: Pace, *, is_settled: bool, is_sound: bool
) -> Block:
    """The whole batches in `data`, which was read from `place.position` on.

    Doubt at the first thing that is wrong; if the segment `is_settled`, that becomes a damage, and the next
    batch that the index knows goes on behind it. Only a batch that the end of `data` cuts is no damage. If it
    is settled that the segment `is_sound`, any gaps and epochs are right.
    """
    walk = _Walk(Block(data), place, is_sound)
    at = walk.run(0)
    while not walk.is_over(at):
        try:
            at = walk.run(walk.step(at))
        except CorruptFile as problem:
            if not is_settled:
                raise Doubt(problem.message, position=place.position + at) from None
            at = walk.pass_over(at, problem.message, index)
        pace.rest()
    if not is_settled:
        _check_epochs(walk.epochs, place)
        walk.block.last_epoch = walk.epochs[-1] if walk.epochs else None
    elif not is_sound:
        walk.block.forget_epochs()
    return walk.block


def _check_epochs(epochs: list[int], place: Place) -> None:
    """An epoch rises at a restart, and then many batches have it. Doubt where only an outermost one has."""
    known = epochs if place.epoch_before is None else [place.epoch_before, *epochs]
    if len(known) < 2:
        return
    is_rising = all(before <= after for before, after in pairwise(known))
    is_first_alone = place.epoch_before is None and known[0] != known[1]
    if not is_rising or is_first_alone or known[-2] != known[-1]:
        raise Doubt("a leader epoch that no other batch has", position=place.position)


class _Walk:
    """From batch to batch through a block, comparing each with what came before it."""

    def __init__(self, block: Block, place: Place, is_sound: bool) -> None:
        self.block = block
        self._place = place
        self._allows_gaps = is_sound
        self._is_ended = False
        self._expected = place.base_offset
        self.epochs: list[int] = []

    def is_over(self, at: int) -> bool:
        """Whether all that can be known of the data is. A batch that its end cuts is the next block's."""
        if at < len(self.block.data) and not self._is_cut(at):
            return False
        self.block.next_position = self._place.position + at
        self.block.end_offset = self._expected
        return self._is_ended or self.block.next_position < self._place.limit

    def _is_cut(self, at: int) -> bool:
        left = self._place.limit - self._place.position - at
        size = declared_bytes(self.block.data, at)
        if len(self.block.data) - at == left:
            return False
        return size is None or len(self.block.data) - at < size <= left

    def run(self, at: int) -> int:
        """Take the batches from `at` on that are as one would wish; where the next one begins."""
        run = decode_run(self.block.data, at, self._expected, RUN_BATCHES)
        if not run.stops or run.end_offsets[-1] > self._place.limit_offset:
            return at
        self.block.add_run(run, at, self._expected)
        self.epochs += [run.leader_epoch] * len(run.stops)
        self._expected = run.end_offsets[-1]
        return run.stops[-1]

    def step(self, at: int) -> int:
        """Take the batch at `at`; where the next one begins. Raises CorruptFile."""
        if self._place.position + at == self._place.limit:
            self._end(at)
            return at
        facts = decode_batch_facts(self.block.data, at)
        self._compare(facts, at)
        self.block.add(facts, at)
        self._expected = facts.end_offset
        self.epochs.append(facts.leader_epoch)
        return at + facts.size

    def _compare(self, facts: BatchFacts, at: int) -> None:
        has_gap = facts.base_offset > self._expected
        if facts.base_offset < self._expected or (has_gap and not self._allows_gaps):
            raise CorruptFile(f"offset {facts.base_offset} where {self._expected} is expected", position=at)
        if facts.end_offset > self._place.limit_offset:
            message = f"a batch ends at offset {facts.end_offset}, behind {self._place.limit_offset}"
            raise CorruptFile(message, position=at)

    def _end(self, at: int) -> None:
        """The limit: the next batch begins here, with an offset that is known."""
        if self._expected < self._place.limit_offset and not self._allows_gaps:
            message = f"the batches end at offset {self._expected}, not at {self._place.limit_offset}"
            raise CorruptFile(message, position=at)
        self._expected, self._is_ended = self._place.limit_offset, True

    def pass_over(self, at: int, reason: str, index: KfsIndex) -> int:
        """Note the damage up to the next batch that the index knows; where that begins, else the limit."""
        begin = self._place.position
        number = bisect_right(index.positions, begin + at)
        end, end_offset = self._place.limit, self._place.limit_offset
        if number < len(index) and index.positions[number] < end:
            end, end_offset = index.positions[number], index.offsets[number]
        end_offset = max(end_offset, self._expected)
        self.block.add_damage(Damage(self._expected, end_offset, begin + at, reason))
        self._expected = end_offset
        self._is_ended = end == self._place.limit
        return end - begin
