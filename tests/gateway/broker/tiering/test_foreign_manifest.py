"""Two that write one partition's manifest: an older copy of the data, or another server of the cluster."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from barbicel.errors import ForeignManifest
from barbicel.tier.retention import Limits
from barbicel.tier.tiered_partition import Policy, TieredPartition
from tests.tier.partitions import PlainLog, Rig
from tests.tier.segments import batches_of, read_all

COPY = Policy(is_copied=True)
EVICT = Policy(is_copied=True, on_disk=Limits(max_bytes=0))


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    """Two sealed segments of 100 offsets, and an open one."""
    return Rig(tmp_path, PlainLog([batches_of(10, first_offset=base) for base in (0, 100, 200)]))


def publish(partition: TieredPartition) -> None:
    assert partition.flush(COPY) == []
    partition.close()


def goes_on(rig: Rig, seed: int) -> None:
    """Another 100 offsets are sealed; their values depend on who writes them."""
    rig.log.segments.append(batches_of(10, first_offset=300, value_bytes=seed))


def contents(rig: Rig) -> dict[str, bytes]:
    return {info.key: rig.store.inner.get(info.key) for info in rig.store.inner.list("")}


def is_refused(rig: Rig, partition: TieredPartition) -> None:
    """It says so, every time, and changes nothing in the store."""
    before = contents(rig)
    for problems in (
        partition.work(COPY, has_store=True),
        partition.work(EVICT, has_store=True),
        partition.flush(COPY),
    ):
        (problem,) = problems
        assert isinstance(problem, ForeignManifest)
        assert "older copy" in str(problem)
    assert contents(rig) == before
    assert partition.is_foreign


def test_an_older_copy_of_the_data_does_not_touch_what_the_store_has_since(rig: Rig) -> None:
    publish(rig.open())
    shutil.copytree(rig.directory, f"{rig.directory}-copy")
    goes_on(rig, 20)
    publish(rig.open())
    shutil.rmtree(rig.directory)
    shutil.move(f"{rig.directory}-copy", rig.directory)
    rig.log.segments.pop()
    goes_on(rig, 30)
    partition = rig.open()
    is_refused(rig, partition)
    # It can be read all the same.
    assert read_all(partition.read(150, 200, 1, at_least_one=True)) == [batches_of(1, first_offset=150)[0]]


def test_of_two_servers_the_one_that_uploads_second_stops_and_so_it_does_after_a_restart(rig: Rig) -> None:
    publish(rig.open())
    shutil.copytree(rig.directory, f"{rig.directory}-other")
    goes_on(rig, 20)
    first = rig.open()
    assert first.work(COPY, has_store=True) == []
    assert not first.is_foreign
    # The other one begins now, and is the first to upload its manifest.
    mine, rig.directory = rig.directory, f"{rig.directory}-other"
    publish(rig.open())
    rig.directory = mine
    assert [type(one) for one in first.flush(COPY)] == [ForeignManifest]
    is_refused(rig, first)
    first.close()
    is_refused(rig, rig.open())


def test_a_manifest_directory_that_was_deleted_is_not_begun_anew_over_the_old_one(rig: Rig) -> None:
    publish(rig.open())
    shutil.rmtree(rig.directory)
    is_refused(rig, rig.open())
