"""Packing segments, against the goldens and against damage; memory, and the turn of other threads."""

from __future__ import annotations

import hashlib
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barbicel.codecs.kfs import KFS_HEADER_BYTES
from barbicel.disk import Bytes
from barbicel.errors import CorruptFile, SegmentTooLarge
from barbicel.tier.pace import SLICE_SECONDS, Pace
from barbicel.tier.packing import grouped, pieces, survey
from tests.codecs.kafka.golden_batches import COMMIT, PLAIN
from tests.golden import load
from tests.tier.segments import T, batch, batches_of, flipped

BATCH_BYTES = [89, 78, 77, 61, 1077, 69]


def golden_batches() -> list[bytes]:
    """Those of segment-all-kinds."""
    body, found = load("kfs/segment-all-kinds")[32:-16], []
    for size in BATCH_BYTES:
        found.append(body[:size])
        body = body[size:]
    assert not body
    return found


# --- what comes out -------------------------------------------------------------------------------


def test_golden_of_one_batch() -> None:
    packed = survey([PLAIN], T)
    assert b"".join(pieces(packed, [PLAIN])) == load("kfs/segment-one")
    assert packed.index == load("kfs/index-one")


def test_golden_of_all_kinds() -> None:
    packed = survey(golden_batches(), T + 1)
    assert b"".join(pieces(packed, golden_batches())) == load("kfs/segment-all-kinds")
    assert packed.index == load("kfs/index-all-kinds")
    assert (packed.base_offset, packed.end_offset, packed.message_count) == (100, 2**32 + 1, 125)
    assert packed.max_timestamp_ms == T + 300
    assert packed.has_plain_batches
    assert packed.object_bytes == len(load("kfs/segment-all-kinds"))


def test_crc64_of_the_body() -> None:
    # CRC-64/NVME, one bit at a time.
    register = 2**64 - 1
    for byte in PLAIN:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x9A6C9329AC4BC9B5 if register & 1 else 0)
    assert survey([PLAIN], T).crc64 == register ^ 2**64 - 1


@pytest.mark.parametrize(("batches", "expected"), [([COMMIT], False), ([PLAIN], True)])
def test_control_batches_are_not_to_be_compressed(batches: list[bytes], expected: bool) -> None:
    assert survey(batches, T).has_plain_batches is expected


def test_segment_without_a_timestamp() -> None:
    empty = golden_batches()[3]
    assert survey([empty], T).max_timestamp_ms == -1


def test_md5_is_known_at_the_end_only() -> None:
    packed = survey([PLAIN], T)
    sent = pieces(packed, [PLAIN])
    with pytest.raises(ValueError, match="once all pieces were taken"):
        _ = sent.md5_hex
    content = b"".join(sent)
    assert sent.md5_hex == hashlib.md5(content).hexdigest()


@settings(deadline=None, max_examples=30)
@given(sizes=st.lists(st.integers(0, 40_000), min_size=1, max_size=60))
def test_any_sizes(sizes: list[int]) -> None:
    batches = [batch(number, value_bytes=size) for number, size in enumerate(sizes)]
    packed = survey(batches, T, share=1.0)
    sent = b"".join(pieces(packed, iter(batches), share=1.0))
    assert sent[KFS_HEADER_BYTES:-16] == b"".join(batches)
    assert packed.message_count == len(sizes)
    assert packed.index[16:28] == bytes(8) + (32).to_bytes(4, "big")


def test_pieces_are_about_a_mebibyte() -> None:
    batches = batches_of(400, value_bytes=2000)
    sizes = [len(piece) for piece in pieces(survey(batches, T, share=1.0), batches, share=1.0)]
    assert (sizes[0], sizes[-1]) == (32, 16)
    assert all(1 << 20 <= size < 3 << 19 for size in sizes[1:-2])


def test_groups() -> None:
    assert [len(group) for group in grouped([b"x"] * 70)] == [32, 32, 6]
    assert [len(group) for group in grouped([bytes(200_000)] * 5)] == [2, 2, 1]
    assert list(grouped([])) == []


# --- what is refused ------------------------------------------------------------------------------


def test_no_batches() -> None:
    with pytest.raises(ValueError, match="needs a batch"):
        survey([], T)


def test_damaged_batch_is_not_packed() -> None:
    batches = batches_of(3)
    for position in (16, 17, 30, len(batches[1]) - 1):
        with pytest.raises(CorruptFile) as caught:
            survey([batches[0], flipped(batches[1], position), batches[2]], T)
        assert caught.value.position == 32 + len(batches[0])
        assert "after offset 9" in caught.value.message


@pytest.mark.parametrize("item", [PLAIN + COMMIT, PLAIN[:-1], b"", PLAIN + b"\0"])
def test_item_that_is_not_one_batch(item: bytes) -> None:
    with pytest.raises(CorruptFile):
        survey([item], T)


@pytest.mark.parametrize("second", [0, 8, 9])
def test_offsets_that_go_back(second: int) -> None:
    with pytest.raises(CorruptFile, match=f"offset {second} follows offset 9"):
        survey([batch(0, 10), batch(second, 10)], T)


def test_gap_is_allowed() -> None:
    assert survey([batch(5, 2), batch(100, 1)], T).end_offset == 101


def test_more_than_two_gibibytes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = batches_of(3)
    monkeypatch.setattr("barbicel.codecs.kfs.MAX_KFS_BYTES", sum(map(len, batches)) + 48)
    survey(batches, T)
    monkeypatch.setattr("barbicel.codecs.kfs.MAX_KFS_BYTES", sum(map(len, batches)) + 47)
    with pytest.raises(SegmentTooLarge, match="the format ends at"):
        survey(batches, T)


def test_segment_that_becomes_too_large_is_told_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once all of it was read: there may be no end to it."""
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        while True:
            yield batch(taken)
            taken += 1

    monkeypatch.setattr("barbicel.codecs.kfs.MAX_KFS_BYTES", 100_000)
    with pytest.raises(SegmentTooLarge):
        survey(endless(), T)
    assert taken < 2000


def test_second_pass_with_other_batches_is_no_object() -> None:
    batches = batches_of(5)
    packed = survey(batches, T)
    for others in (batches[:-1], [*batches, batch(50)], [*batches[:-1], batch(40, 10, 50, seed=9)]):
        taken: list[Bytes] = []
        with pytest.raises(CorruptFile, match="not what was surveyed"):
            taken.extend(pieces(packed, others))
        assert packed.footer not in taken


# --- memory and turns -----------------------------------------------------------------------------


def test_memory_is_bounded() -> None:
    template = batch(0, 1, 100_000)

    def many() -> Iterator[bytes]:
        for number in range(600):
            yield number.to_bytes(8, "big") + template[8:]

    tracemalloc.start()
    try:
        packed = survey(many(), T, share=1.0)
        for _ in pieces(packed, many(), share=1.0):
            pass
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert packed.object_bytes > 60_000_000
    assert peak < 6_000_000


def test_pace_pauses_in_proportion_to_its_work() -> None:
    now = [0.0]
    pauses: list[float] = []
    pace = Pace(0.2, cpu_seconds=lambda: now[0], pause=pauses.append)
    pace.rest()
    now[0] += SLICE_SECONDS / 2
    pace.rest()
    assert pauses == []
    now[0] += SLICE_SECONDS
    pace.rest()
    assert pauses == [pytest.approx(SLICE_SECONDS * 1.5 * 4)]
    now[0] += 10
    pace.restart()
    pace.rest()
    assert len(pauses) == 1


def test_survey_pauses_between_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("barbicel.tier.packing.Pace", lambda share: Pace(share, pause=pauses.append))
    survey(batches_of(3000, count=1), T, share=0.5)
    # 3000 batches take some milliseconds, and none of the slices more than a few times SLICE_SECONDS.
    assert len(pauses) > 5
