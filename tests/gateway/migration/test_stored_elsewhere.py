"""Queues whose segments were moved to an object store: what a data directory does not have is never taken for
read, for deleted, or for not imported."""

from __future__ import annotations

from pathlib import Path

import pytest

from barbicel.clock import wall_clock_ms
from barbicel.codecs.kafka.compression import Codec
from barbicel.disk import RealDisk
from barbicel.gateway.broker.tiering.keratin_log import KeratinLog
from barbicel.gateway.migration.directory_queue import PARTITION
from barbicel.gateway.migration.directory_target import DirectoryTarget
from barbicel.gateway.migration.importing import Outcome
from barbicel.gateway.migration.marks import cut_batches
from barbicel.gateway.migration.source import open_source
from barbicel.gateway.migration.target import TargetRefused
from barbicel.gateway.migration.verify import Verdict
from barbicel.keratin import Log
from barbicel.kestrel_compat.items import new_record
from barbicel.kestrel_compat.names import parse_queue_name
from barbicel.stroma import BumpAckedUntil, GroupKey
from barbicel.tier.cold_reader import ColdReader
from barbicel.tier.keys import Keys
from barbicel.tier.manifest_log.stream import ManifestStream
from barbicel.tier.policy import Policy, Tier
from barbicel.tier.retention import Limits
from barbicel.tier.stores import open_store
from barbicel.tier.tiered_partition import TieredPartition
from tests.gateway.migration.support import run_export, run_import, run_verify
from tests.golden.kestrel.writer import addx, join

STEPS = [addx(b"a", 1), addx(b"b", 2), addx(b"c", 3)]
EVERYTHING = Policy(is_copied=True, on_disk=Limits(max_bytes=0))
DISK = RealDisk()


@pytest.fixture
def journals(tmp_path: Path) -> str:
    directory = tmp_path / "journals"
    directory.mkdir()
    (directory / "q").write_bytes(join(STEPS))
    return str(directory)


@pytest.fixture
def data(tmp_path: Path) -> str:
    return str(tmp_path / "data")


def opened(data: str) -> DirectoryTarget:
    return DirectoryTarget.open(DISK, data)


def move_to_a_store(data: str, store: Path) -> None:
    """All of q's log, as a gateway does."""
    store.mkdir()
    objects = open_store(str(store), disk=DISK)
    reader = ColdReader(objects)
    tier = Tier(objects, Keys("cluster"), reader, DISK, wall_clock_ms, Codec.NONE, 1, 1)
    with opened(data) as target:
        topic = target.catalogue.by_name("q")
        assert topic is not None
        layout = target.catalogue.layout
        manifest, stream_id = layout.manifest(topic, PARTITION), layout.stream(topic, PARTITION)
        DISK.make_directory(manifest)
        with Log.open(layout.partition(topic, PARTITION)) as log:
            stream = ManifestStream.open(manifest, stream_id=stream_id, disk=DISK, clock=wall_clock_ms)
            tiered = TieredPartition(tier, stream, manifest, stream_id, PARTITION)
            tiered.attach(KeratinLog(log))
            assert not tiered.flush(EVERYTHING)
            assert not tiered.work(EVERYTHING, has_store=True)
            assert log.start_offset == log.end_offset > 0
            tiered.close()
    reader.close()
    objects.close()


def test_an_export_without_what_is_in_a_store_is_refused(journals: str, data: str, tmp_path: Path) -> None:
    run_import(DISK, source=journals, data=data)
    move_to_a_store(data, tmp_path / "store")
    back = tmp_path / "back"
    with pytest.raises(TargetRefused, match=r"offsets 0 to 2 are unread by group 'kestrel'"):
        run_export(DISK, str(back), data=data)
    assert not back.exists()
    with opened(data) as target:
        target.store.record(GroupKey("q", PARTITION, "kestrel"), [BumpAckedUntil(3)])
    run_export(DISK, str(back), data=data)
    assert (back / "q").read_bytes() == b""


def test_an_import_whose_marks_are_in_a_store_does_not_begin_anew(
    journals: str, data: str, tmp_path: Path
) -> None:
    (family,) = open_source(DISK, journals).families
    with opened(data) as target, target.make([parse_queue_name("q")]) as queue:
        begun = queue.begin(family.import_id)
        for batch in cut_batches([new_record(b"a", 0, None, None, 1)], family.import_id):
            queue.append(batch, begun.numbers(0))
        queue.settle()
    move_to_a_store(data, tmp_path / "store")
    (outcome,) = run_import(DISK, source=journals, data=data)
    assert outcome.outcome is Outcome.FAILED
    assert "under way since offset 0, and the log begins at 1" in (outcome.problem or "")
    with opened(data) as target:
        found = target.find("q")
        assert found is not None
        with found:
            assert found.end_offset == 1


def test_a_verification_says_that_it_has_nothing_to_compare_with(
    journals: str, data: str, tmp_path: Path
) -> None:
    run_import(DISK, source=journals, data=data)
    move_to_a_store(data, tmp_path / "store")
    (verdict,) = run_verify(DISK, source=journals, data=data)
    assert verdict.verdict is Verdict.INCOMPLETE
    assert "moved to an object store" in (verdict.problem or "")
