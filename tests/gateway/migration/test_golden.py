"""Every golden queue, imported into a data directory: the items that Kestrel's users must find."""

from __future__ import annotations

import pytest

from barbicel.gateway.migration.importing import Outcome
from barbicel.gateway.migration.verify import Verdict
from tests.gateway.migration.support import line, run_import, run_verify
from tests.golden.kestrel.journals import GOLDEN, Golden
from tests.support.fault_disk import FaultDisk


@pytest.mark.parametrize("golden", GOLDEN.values(), ids=GOLDEN)
def test_a_golden_queue_is_imported(golden: Golden) -> None:
    disk = FaultDisk()
    for name, raw in golden.contents().items():
        disk.put(f"/journals/{name}", raw)
    outcomes = {one.master: one for one in run_import(disk)}
    assert outcomes["q"].outcome is Outcome.IMPORTED
    name = next(iter(golden.files)).partition(".")[0]
    assert [item.data for item in line(disk, name)] == golden.items
    assert {one.verdict for one in run_verify(disk)} == {Verdict.COMPLETE}


def test_every_cut_of_a_journal_gives_its_sound_part() -> None:
    golden = next(iter(GOLDEN.values()))
    name, steps = next(iter(golden.files.items()))
    raw = b"".join(step.raw for step in steps)
    for size in range(len(raw) + 1):
        disk = FaultDisk()
        disk.put(f"/journals/{name}", raw[:size])
        (outcome,) = run_import(disk)
        assert outcome.outcome is Outcome.IMPORTED
        position, whole = 0, {0}
        for step in steps:
            position += len(step.raw)
            whole.add(position)
        assert bool(outcome.doubts) == (size not in whole)
        assert [one.verdict for one in run_verify(disk)] == [Verdict.COMPLETE]
