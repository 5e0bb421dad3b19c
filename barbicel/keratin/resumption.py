"""Finding a way past damage: where in a file sound records go on.

A record's payload may hold anything, records too, and the length that would lead past them is part of what
may be damaged. So one sound record is no proof. Heads form chains: each says where the next one lies and
which offset it has. The chain that meets an entry of the index, or else the one that leads farthest, is
the log's; a chain inside a payload ends with that payload. One pass over the bytes, in bounded memory,
whatever a payload holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from barbicel.codecs.keratin_record import RECORD_OVERHEAD_BYTES, RecordHead, find_record, peek_record
from barbicel.disk import File
from barbicel.keratin.index import IndexHit, SparseIndex
from barbicel.keratin.walk import CHUNK_BYTES, is_sound

__all__ = ["Resumption", "find_resumption"]

# A payload made of heads could open a chain with each of them.
MAX_OPEN_CHAINS = 10_000
# Chains that are looked at closely, the farthest first.
MAX_TRIED_CHAINS = 8


class Resumption(NamedTuple):
    """A sound record behind damage."""

    position: int
    offset: int


class _Chain(NamedTuple):
    """Heads that lead from one to the next: where the first is, where the next one is due."""

    start: int
    end: int
    next_offset: int


def find_resumption(
    file: File,
    position: int,
    end: int,
    from_offset: int,
    below_offset: int,
    index: SparseIndex | None = None,
) -> Resumption | None:
    """The first sound record behind the damage at `position` that has an offset between the two.

    The damage took at least one record, so `from_offset` itself is not among them.
    """
    while True:
        anchor = None if index is None else index.above(from_offset)
        chains = _likeliest_chains(file, position, end, from_offset, below_offset, anchor)
        for chain in chains:
            for at, head in _heads(file, chain):
                if is_sound(file, at, head.size):
                    return Resumption(at, head.offset)
        if anchor is None or not anchor.position < end or anchor.offset >= below_offset:
            return None
        # Even the record that the index knows is damaged: look behind it.
        from_offset, position = anchor


def _heads(file: File, chain: _Chain) -> Iterator[tuple[int, RecordHead]]:
    at = chain.start
    while at < chain.end:
        head = peek_record(memoryview(file.pread(RECORD_OVERHEAD_BYTES, at)), 0)
        if head is None:
            return
        yield at, head
        at += head.size


def _likeliest_chains(
    file: File, position: int, end: int, from_offset: int, below_offset: int, anchor: IndexHit | None
) -> list[_Chain]:
    open_chains: dict[int, _Chain] = {}  # by where the next head is due
    ended = _Farthest()
    for at, head in _candidates(file, position + 1, end):
        if not from_offset < head.offset < below_offset or at + head.size > end:
            continue
        before = open_chains.pop(at, None)
        if before is not None and before.next_offset != head.offset:
            ended.add(before)
            before = None
        chain = _Chain(at if before is None else before.start, at + head.size, head.offset + head.span)
        if anchor is not None and anchor == (head.offset, at):
            return [chain]
        due = open_chains.setdefault(chain.end, chain)
        if due is not chain and due.next_offset != chain.next_offset:
            ended.add(chain)
        if len(open_chains) > MAX_OPEN_CHAINS:
            _end_some(open_chains, at, ended)
    for chain in open_chains.values():
        ended.add(chain)
    return ended.chains


def _end_some(open_chains: dict[int, _Chain], position: int, ended: _Farthest) -> None:
    """Those that found no next head, and of the others the older half."""
    chains = list(open_chains.values())
    going_on = [chain for chain in chains if chain.end > position]
    kept = going_on[-MAX_OPEN_CHAINS // 2 :]
    open_chains.clear()
    open_chains.update((chain.end, chain) for chain in kept)
    for chain in chains:
        if chain.end not in open_chains:
            ended.add(chain)


class _Farthest:
    """Of the chains that were added the few that lead farthest; of equals the one that begins first."""

    def __init__(self) -> None:
        self.chains: list[_Chain] = []

    def add(self, chain: _Chain) -> None:
        if len(self.chains) == MAX_TRIED_CHAINS and chain.end <= self.chains[-1].end:
            return
        self.chains.append(chain)
        self.chains.sort(key=lambda known: (-known.end, known.start))
        del self.chains[MAX_TRIED_CHAINS:]


def _candidates(file: File, position: int, end: int) -> Iterator[tuple[int, RecordHead]]:
    """Everything that looks like the head of a record."""
    overlap = RECORD_OVERHEAD_BYTES - 1  # a head may lie across the border of two reads
    while position < end:
        window = file.pread(min(CHUNK_BYTES, end - position), position)
        view = memoryview(window)
        at = find_record(window, 0)
        while at >= 0:
            head = peek_record(view, at)
            if head is not None:
                yield position + at, head
            at = find_record(window, at + 1)
        if len(window) < CHUNK_BYTES:
            return
        position += CHUNK_BYTES - overlap
