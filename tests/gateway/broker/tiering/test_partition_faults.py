"""What a partition makes of damage, of a manifest that takes nothing, and of what a crash left half done."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from barbicel.codecs.aof2_events import RepairReason
from barbicel.codecs.kafka.compression import Codec
from barbicel.errors import BarbicelError, CorruptObject, DiskError, StoreError
from barbicel.tier.retention import Limits
from barbicel.tier.tiered_partition import Policy, TieredPartition
from tests.support.fault_disk import FaultDisk
from tests.tier.partitions import KEYS, TOPIC_DIR, PlainLog, Rig
from tests.tier.segments import batches_of, flipped, read_all

COPY = Policy(is_copied=True)
EVICT = Policy(is_copied=True, on_disk=Limits(max_bytes=0))
MIDDLE = KEYS.topic(TOPIC_DIR).segment(0, 100)


def make_log() -> PlainLog:
    """Two sealed segments of 100 offsets, and an open one."""
    return PlainLog([batches_of(10, first_offset=base) for base in (0, 100, 200)])


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path, make_log())


def without_epoch(batch: bytes) -> bytes:
    """What comes before damage has none: nobody can tell whether it is the damaged one."""
    return batch[:12] + batch[16:]


def flip_gets(rig: Rig, monkeypatch: pytest.MonkeyPatch, times: int, share: float = 0.5) -> None:
    """A bit of the segment in the middle is another one, so many times."""
    true_get = rig.store.inner.get
    left = [times]

    def get(key: str, start: int = 0, length: int | None = None) -> bytes:
        data = true_get(key, start, length)
        if key != MIDDLE or left[0] == 0:
            return data
        left[0] -= 1
        return flipped(data, int(len(data) * share))

    monkeypatch.setattr(rig.store.inner, "get", get)


def read_through(partition: TieredPartition) -> None:
    """The segment in the middle, batch by batch."""
    for offset in range(100, 200, 10):
        partition.read(offset, 200, 1, at_least_one=True)


@pytest.mark.parametrize("share", [0.02, 0.5, 0.9])
def test_a_bit_that_the_network_flipped_costs_a_second_read_and_nobody_notices(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    partition = rig.open()
    partition.work(EVICT, has_store=True)
    flip_gets(rig, monkeypatch, times=1, share=share)
    found: list[bytes] = []
    while len(found) < 10:
        found += read_all(partition.read(100 + 10 * len(found), 200, 1 << 20, at_least_one=True))
    assert list(map(without_epoch, found)) == list(map(without_epoch, batches_of(10, first_offset=100)))
    assert partition.stream.catalogue.needing_repair == []


def test_a_damaged_object_is_marked_once_and_the_mark_goes_when_it_was_mended(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = rig.open()
    partition.work(EVICT, has_store=True)
    with monkeypatch.context() as damage:
        flip_gets(rig, damage, times=-1)
        for _ in range(3):
            with pytest.raises(CorruptObject):
                read_through(partition)
        (entry,) = partition.stream.catalogue.needing_repair
        assert (entry.segment_id, entry.repair) == (100, RepairReason.OBJECT_CORRUPT)
        partition.close()
        # Still damaged: the mark outlives a restart.
        partition = rig.open()
        partition.work(EVICT, has_store=True)
        assert len(partition.stream.catalogue.needing_repair) == 1
        partition.close()
    partition = rig.open()
    partition.work(EVICT, has_store=True)
    assert partition.stream.catalogue.needing_repair == []


def test_who_reads_what_is_known_to_be_damaged_does_not_load_it_twice(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = rig.open()
    partition.work(EVICT, has_store=True)
    flip_gets(rig, monkeypatch, times=-1)
    counts = []
    for _ in range(3):
        before = len(rig.store.calls)
        with pytest.raises(CorruptObject):
            read_through(partition)
        counts.append(len([call for call in rig.store.calls[before:] if call == f"get {MIDDLE}"]))
    assert counts[0] > counts[1] >= counts[2]


def test_a_manifest_that_takes_no_records_keeps_nobody_from_reading(rig: Rig) -> None:
    partition = rig.open()
    partition.work(EVICT, has_store=True)
    partition.stream.close()
    assert read_all(partition.read(0, 100, 1 << 20, at_least_one=True)) == batches_of(10)


def test_what_a_crash_kept_on_the_disk_after_it_was_given_up_leaves_it_and_blocks_nothing(rig: Rig) -> None:
    """Killed between the manifest's new start and the log's."""
    partition = rig.open()
    partition.drop_before(100)
    partition.close()
    assert rig.log.start_offset == 0
    again = rig.open()
    assert again.work(EVICT, has_store=True) == []
    assert (again.start_offset, rig.log.start_offset) == (100, 200)
    assert rig.store.keys(".kfs") == [MIDDLE]


def test_a_log_that_is_lost_after_everything_was_deleted_begins_where_it_ended(rig: Rig) -> None:
    partition = rig.open()
    partition.work(EVICT, has_store=True)
    partition.drop_before(300)
    rig.log.drop_before(300)
    rig.settle(partition, EVICT)
    partition.close()
    assert rig.store.keys(".kfs") == []
    assert rig.open().end_offset == 300


def test_a_topic_that_is_not_copied_any_more_still_seals_by_age(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = rig.open()
    sealed: list[str] = []
    monkeypatch.setattr(rig.log, "seal_if_due", lambda: sealed.append("once"))
    partition.work(Policy(is_copied=False), has_store=True)
    assert sealed == ["once"]


def test_a_search_by_time_passes_over_what_is_deleted_meanwhile(rig: Rig) -> None:
    partition = rig.open()
    partition.work(EVICT, has_store=True)
    found = partition.from_time(0, 200)
    assert next(found).offset == 0
    partition.drop_before(100)
    rig.store.inner.delete(KEYS.topic(TOPIC_DIR).segment(0, 0))
    partition._tier.reader.close()
    assert [batch.offset for batch in found][-10:] == list(range(100, 200, 10))


def test_an_object_that_vanished_is_an_error_for_a_search_by_time(rig: Rig) -> None:
    partition = rig.open()
    partition.work(EVICT, has_store=True)
    rig.store.inner.delete(MIDDLE)
    with pytest.raises(StoreError):
        list(partition.from_time(0, 200))


def test_the_callers_step_is_left_out_once_the_partition_is_closed(rig: Rig) -> None:
    partition = rig.open()
    steps: list[str] = []
    partition.work(COPY, has_store=False, first=lambda: steps.append("without a store"))
    partition.work(COPY, has_store=True, first=lambda: steps.append("a pass"))
    partition.flush(COPY, first=lambda: steps.append("a flush"))
    partition.close()
    partition.work(COPY, has_store=True, first=lambda: steps.append("closed"))
    partition.flush(COPY, first=lambda: steps.append("closed"))
    assert steps == ["a pass", "a flush"]


def test_a_step_that_fails_is_told_and_the_others_are_taken(rig: Rig) -> None:
    def fail() -> None:
        raise StoreError("no", is_passing=True)

    partition = rig.open()
    problems: list[BarbicelError] = partition.work(COPY, has_store=True, first=fail)
    assert [str(problem) for problem in problems] == ["no"]
    assert partition.pending == []


# --- a disk that is full, or fails ------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_full_disk_keeps_everything_where_it_is_until_there_is_room(tmp_path: Path, codec: Codec) -> None:
    rig = Rig(tmp_path, make_log(), codec=codec)
    rig.disk = disk = FaultDisk()
    rig.directory = "/data/tier"
    partition = rig.open()
    disk.capacity_bytes = 0
    problems = partition.work(EVICT, has_store=True)
    assert problems
    assert all(isinstance(problem, DiskError) for problem in problems)
    assert (rig.log.start_offset, rig.store.keys(".kfs"), partition.end_offset) == (0, [], None)
    disk.capacity_bytes = None
    rig.settle(partition, EVICT)
    assert rig.log.start_offset == 200
    # And again, when there is something in the store: it is read, and nothing new goes there.
    disk.capacity_bytes = 0
    rig.log.segments.append(batches_of(1, first_offset=300))
    assert read_all(partition.read(100, 200, 1 << 20, at_least_one=True))
    partition.work(EVICT, has_store=True)
    disk.capacity_bytes = None
    rig.settle(partition, EVICT)
    assert (rig.log.start_offset, partition.end_offset) == (300, 300)


def test_after_a_sync_that_failed_nothing_leaves_the_disk_and_a_restart_goes_on(tmp_path: Path) -> None:
    rig = Rig(tmp_path, make_log())
    rig.disk = disk = FaultDisk()
    rig.directory = "/data/tier"
    partition = rig.open()
    disk.fail("fdatasync", errno.EIO)
    assert partition.work(EVICT, has_store=True)
    rig.now_ms += 10_000
    assert partition.work(EVICT, has_store=True)
    assert rig.log.start_offset == 0
    partition.close()
    again = rig.open()
    rig.settle(again, EVICT)
    assert rig.log.start_offset == 200
    assert read_all(again.read(0, 100, 1 << 20, at_least_one=True)) == batches_of(10)
