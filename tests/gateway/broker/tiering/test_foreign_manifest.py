"""Two that write one partition's manifest: an older copy of the data, or another server of the cluster."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from barbicel.errors import ForeignManifest
from barbicel.tier import offload
from barbicel.tier.retention import Limits
from barbicel.tier.tiered_partition import Policy, TieredPartition
from tests.tier.partitions import BUCKET, DIRECTORY, KEYS, TOPIC_DIR, Kind, PlainLog, Rig
from tests.tier.segments import batches_of, flipped, object_bytes, read_all

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


def test_of_two_servers_the_one_that_uploads_its_manifest_second_stops_and_so_it_does_after_a_restart(
    rig: Rig,
) -> None:
    publish(rig.open())
    shutil.copytree(rig.directory, f"{rig.directory}-other")
    first = rig.open()
    assert first.work(COPY, has_store=True) == []
    assert not first.is_foreign
    # The other one begins now, and is the first to upload anything.
    goes_on(rig, 20)
    mine, rig.directory = rig.directory, f"{rig.directory}-other"
    publish(rig.open())
    rig.directory = mine
    assert [type(one) for one in first.flush(COPY)] == [ForeignManifest]
    is_refused(rig, first)
    first.close()
    is_refused(rig, rig.open())


@pytest.mark.parametrize("kind", [BUCKET, DIRECTORY], ids=["bucket", "directory"])
@pytest.mark.parametrize("at_once_bytes", [0, 64 << 20])
def test_of_two_servers_the_one_that_uploads_a_segment_second_does_not_write_over_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Kind, at_once_bytes: int
) -> None:
    """Also while no manifest says so yet: the first one may have dropped it from its disk."""
    monkeypatch.setattr(offload, "PUT_AT_ONCE_BYTES", at_once_bytes)
    rig = Rig(tmp_path, PlainLog([batches_of(10, first_offset=base) for base in (0, 100, 200)]), kind=kind)
    publish(rig.open())
    shutil.copytree(rig.directory, f"{rig.directory}-other")
    goes_on(rig, 20)
    goes_on_here = [*rig.log.segments]
    first = rig.open()
    assert first.work(COPY, has_store=True) == []
    before = contents(rig)
    mine, rig.directory = rig.directory, f"{rig.directory}-other"
    rig.log.segments[2] = batches_of(10, first_offset=200, value_bytes=77)
    other = rig.open()
    for _ in range(2):  # and it does not take what it found for an earlier try of its own
        is_refused(rig, other)
        other.close()
        other = rig.open()
    other.close()
    assert contents(rig) == before
    rig.directory, rig.log.segments = mine, goes_on_here
    assert first.flush(COPY) == []


@pytest.mark.parametrize("what", ["no index", "damaged"])
def test_what_a_lost_server_did_not_finish_is_replaced(rig: Rig, what: str) -> None:
    keys = KEYS.topic(TOPIC_DIR)
    whole, index = object_bytes(batches_of(10, first_offset=0, value_bytes=77))
    if what == "damaged":
        rig.store.inner.put_new(keys.index(0, 0), [index])
        whole = flipped(whole, 100)
    rig.store.inner.put_new(keys.segment(0, 0), [whole])
    publish(rig.open())
    assert rig.store.inner.get(keys.segment(0, 0))[32:-16] == b"".join(batches_of(10, first_offset=0))


def test_a_manifest_directory_that_was_deleted_is_not_begun_anew_over_the_old_one(rig: Rig) -> None:
    publish(rig.open())
    shutil.rmtree(rig.directory)
    is_refused(rig, rig.open())
