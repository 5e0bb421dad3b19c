"""Every golden queue, imported into a data directory: the items that Kestrel's users must find."""

from __future__ import annotations

import pytest

from barbicel.gateway.migration.importing import Outcome
from barbicel.gateway.migration.verify import Verdict
from tests.gateway.migration.support import line, run_import, run_verify
from tests.golden.kestrel.journals import GOLDEN, Golden
from tests.golden.kestrel.writer import join
from tests.kestrel_compat.journals.model import Model
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


@pytest.mark.parametrize("name", ["0 add", "1.3.0", "2.4", "the specification's roll"])
def test_every_cut_of_a_journal_gives_its_sound_part(name: str) -> None:
    """Those that the replay has of every golden queue are stored, and what is missing is told."""
    steps = GOLDEN[name].files["q"]
    raw = join(steps)
    for size in range(len(raw) + 1):
        disk = FaultDisk()
        disk.put("/journals/q", raw[:size])
        (outcome,) = run_import(disk)
        assert outcome.outcome is Outcome.IMPORTED
        whole = [steps[:count] for count in range(len(steps) + 1) if len(join(steps[:count])) <= size][-1]
        model = Model()
        model.replay("q", whole, 0)
        assert [item.data for item in line(disk, "q")] == [item.data for item in model.items()]
        cuts = [(doubt.position, str(doubt.kind)) for doubt in outcome.doubts if doubt.kind != "empty"]
        assert cuts == ([] if len(join(whole)) == size else [(len(join(whole)), "truncated")])
        assert [one.verdict for one in run_verify(disk)] == [Verdict.COMPLETE]
