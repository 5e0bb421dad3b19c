"""Integration matrix, crash on commit: payloads are there and the header is not; nothing counts twice."""

from __future__ import annotations

from random import Random

import pytest

from barbicel.codecs.aof2_manifest import decode_chunk
from barbicel.tier.manifest_log.layout import chunk_path
from tests.support.fault_disk import Call, Fate, FaultDisk
from tests.tier.manifest_log.builders import ROOT, begun, opened


def found_in(disk: FaultDisk) -> list[int]:
    return [entry.segment_id for entry in opened(disk, read_only=True).catalogue.segments]


def test_an_uncommitted_tail_is_trimmed_and_not_appended_twice() -> None:
    disk = FaultDisk()
    stream = opened(disk)
    stream.append(*begun(0))
    stream.commit()
    committed = stream.end
    stream.append(*begun(100))  # in the mapping, not in the header
    left = disk.crash(Fate.KEEP, Random(0))
    data = left.files()[chunk_path(ROOT, 0)]
    assert any(data[committed.chunk_offset :])  # the bytes are there
    again = opened(left)
    assert again.trimmed_bytes > 0
    assert again.end == committed
    assert [entry.segment_id for entry in again.catalogue.segments] == [0]
    assert len(left.files()[chunk_path(ROOT, 0)]) == committed.chunk_offset
    again.append(*begun(100))
    again.commit()
    header, placed = decode_chunk(left.files()[chunk_path(ROOT, 0)], 0)
    assert [each.record.segment_id for each in placed] == [0, 0, 100, 100]
    for fate in Fate:
        assert found_in(left.crash(fate, Random(1))) == [0, 100]
    assert header.base_record == 0


def test_reading_trims_nothing() -> None:
    disk = FaultDisk()
    stream = opened(disk)
    stream.append(*begun(0))
    stream.commit()
    stream.append(*begun(100))
    left = disk.crash(Fate.KEEP, Random(0))
    before = left.files()
    assert found_in(left) == [0]
    assert left.files() == before


@pytest.mark.parametrize("first", [True, False], ids=["first commit", "later commit"])
def test_a_crash_at_every_call_of_a_commit(first: bool) -> None:
    """Before it returns either state is right, and each can be gone on from."""
    disk = FaultDisk()
    stream = opened(disk)
    if not first:
        stream.append(*begun(0))
        stream.commit()
    before = [] if first else [0]
    stream.append(*begun(100))
    seen: list[str] = []

    def cut(call: Call) -> None:
        seen.append(call.operation)
        for seed in range(20):
            for fate in Fate:
                left = disk.crash(fate, Random(seed))
                found = found_in(left)
                assert found in (before, [*before, 100])
                again = opened(left)
                again.append(*begun(200))
                again.commit()
                assert found_in(left.crash(Fate.DROP, Random(seed))) == [*found, 200]

    disk.observer = cut
    stream.commit()
    assert seen == (
        ["write", "fdatasync", "rename", "fsync"] if first else ["fdatasync", "write", "fdatasync"]
    )
    disk.observer = None
    for fate in Fate:
        assert found_in(disk.crash(fate, Random(3))) == [*before, 100]


def test_a_crash_at_every_call_of_a_seal() -> None:
    disk = FaultDisk()
    stream = opened(disk)
    stream.append(*begun(0))
    stream.commit()
    seen: list[str] = []

    def cut(call: Call) -> None:
        seen.append(call.operation)
        for seed in range(20):
            for fate in Fate:
                left = disk.crash(fate, Random(seed))
                again = opened(left)
                again.append(*begun(100))
                again.seal()
                assert found_in(left.crash(Fate.DROP, Random(seed))) == [0, 100]

    disk.observer = cut
    stream.seal()
    assert seen == ["write", "truncate", "fdatasync"]
