"""An import that ends anywhere: at every call to the disk, by a kill or a power cut, and then goes on."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from barbicel.codecs.kafka.new_batch import NewRecord
from barbicel.gateway.migration import marks
from barbicel.gateway.migration.directory_queue import DirectoryQueue
from barbicel.gateway.migration.importing import ImportRules, Outcome
from barbicel.gateway.migration.verify import Verdict
from tests.gateway.migration.support import NOW_MS, Kept, disk_with, line, run_import, run_verify, stored
from tests.golden.kestrel.writer import addx, reserve
from tests.support.fault_disk import Call, Fate, FaultDisk

QUEUES = {
    "q": [*(addx(b"item %d" % number, 1000 + number) for number in range(20)), reserve(3)],
    "q+audit": [addx(b"item %d" % number, 1000 + number) for number in range(10, 25)],
}
KEEP_OPEN = ImportRules(keep_open_until_ms=NOW_MS + 1)


append = DirectoryQueue.append


def append_and_settle(queue: DirectoryQueue, batch: Sequence[NewRecord]) -> None:
    """Or the writer would take all batches at once, and there would be nothing in between."""
    append(queue, batch)
    queue.settle()


def ends_of_an_import(fate: Fate) -> list[FaultDisk]:
    """The disk as the next process would find it, before each call of an import that goes through."""
    disk = disk_with(QUEUES)
    random = Random(6)
    found: list[FaultDisk] = []

    def look(call: Call) -> None:
        found.append(disk.crash(fate, random))

    disk.observer = look
    run_import(disk, KEEP_OPEN)
    disk.observer = None
    return [*found, disk.crash(fate, random)]


@pytest.mark.parametrize("fate", list(Fate))
def test_it_goes_on_behind_what_is_there(fate: Fate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "MAX_BATCH_RECORDS", 3)
    monkeypatch.setattr(DirectoryQueue, "append", append_and_settle)
    ends = ends_of_an_import(fate)
    resumed = 0
    for disk in ends:
        (outcome,) = run_import(disk, KEEP_OPEN)
        assert outcome.outcome in (Outcome.IMPORTED, Outcome.ALREADY)
        resumed += 0 < outcome.records_before < 25
        (verdict,) = run_verify(disk)
        assert verdict.verdict is Verdict.COMPLETE, verdict
        assert line(disk, "q") == [Kept(b"item %d" % number, 1000 + number, None) for number in range(20)]
        assert len(stored(disk, "q")) == 25
    assert len(ends) > 50
    assert resumed > 5
