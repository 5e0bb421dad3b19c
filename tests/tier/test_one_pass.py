"""Packing in one pass gives the object that two passes give; what it must not pack, and what it holds."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barbicel.codecs.kafka.compression import Codec
from barbicel.disk import Bytes
from barbicel.errors import CorruptFile
from barbicel.tier.one_pass import OnePass, PlainBatches
from barbicel.tier.packing import NoBatches, pieces, survey
from tests.codecs.kafka.golden_batches import PLAIN
from tests.golden import load
from tests.tier.segments import T, batch, batches_of, flipped


def whole(passing: OnePass) -> bytes:
    body = b"".join(b"".join(group) for group in passing)
    return passing.packed.header + body


def passing_of(batches: list[bytes], *, may_be_plain: bool = True) -> OnePass:
    return OnePass(batches, lambda: T, may_be_plain=may_be_plain, share=1.0)


def test_golden() -> None:
    passing = passing_of([PLAIN])
    assert whole(passing) == load("kfs/segment-one")
    assert passing.packed.index == load("kfs/index-one")


@given(st.lists(st.integers(0, 30_000), min_size=1, max_size=50))
def test_the_same_as_in_two_passes(sizes: list[int]) -> None:
    batches = [batch(number, value_bytes=size) for number, size in enumerate(sizes)]
    passing = passing_of(batches)
    packed = survey(batches, T, share=1.0)
    assert whole(passing) == b"".join(pieces(packed, batches, share=1.0))
    assert passing.packed == packed


def test_what_it_has_is_known_at_the_end_only() -> None:
    passing = passing_of(batches_of(100))
    groups = iter(passing)
    next(groups)
    with pytest.raises(ValueError, match="once all of it was taken"):
        _ = passing.packed


def test_no_batches() -> None:
    with pytest.raises(NoBatches):
        whole(passing_of([]))


def test_a_damaged_batch_is_not_handed_out() -> None:
    batches = batches_of(100)
    batches[70] = flipped(batches[70], 65)
    groups = iter(passing_of(batches))
    taken: list[Bytes] = []

    def take_all() -> None:
        for group in groups:
            taken.extend(group)

    with pytest.raises(CorruptFile, match="after offset 699: the record batch's crc32c does not match"):
        take_all()
    assert len(taken) < 70


@pytest.mark.parametrize("plain_at", [0, 99])
def test_plain_batches_are_told_wherever_they_are(plain_at: int) -> None:
    batches = [batch(number, codec=Codec.LZ4, value_bytes=5000) for number in range(100)]
    assert len(list(passing_of(batches, may_be_plain=False))) > 1
    batches[plain_at] = batch(plain_at)
    with pytest.raises(PlainBatches):
        whole(passing_of(batches, may_be_plain=False))
    whole(passing_of(batches))


def test_memory_is_bounded() -> None:
    def batches() -> Iterator[bytes]:
        for number in range(3000):
            yield batch(number, value_bytes=20_000, seed=0)

    passing = OnePass(batches(), lambda: T, may_be_plain=True, share=1.0)
    tracemalloc.start()
    try:
        for _ in passing:
            pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert passing.packed.body_bytes > 60_000_000
    assert peak < 2 << 20
