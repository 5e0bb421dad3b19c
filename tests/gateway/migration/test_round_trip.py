"""Random operations → journal → import → export → import: the queue that a plain model has."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from barbicel.gateway.migration.importing import ImportRules, Outcome
from barbicel.gateway.migration.source import open_source
from barbicel.gateway.migration.verify import Verdict
from tests.gateway.migration.support import (
    NOW_MS,
    Kept,
    disk_with,
    line,
    run_export,
    run_import,
    run_verify,
)
from tests.golden.kestrel.writer import (
    Step,
    add,
    add_xid,
    addx,
    confirm,
    go_on,
    remove,
    reserve,
    save_xid,
    unremove,
)
from tests.kestrel_compat.journals.model import Model

BACK, SECOND = "/back", "/second"
XIDS = st.integers(1, 5)
TIMES = st.integers(1_300_000_000_000, 1_300_000_000_009)
EXPIRIES = st.sampled_from([0, 1, 1_300_000_000_500, 9_999_999_999_999])
DATA = st.sampled_from([b"a", b"bb", b"", b"\r\n\0", b"x" * 300])
STEPS = st.lists(
    st.one_of(
        st.builds(addx, DATA, TIMES, EXPIRIES),
        st.builds(addx, DATA, TIMES, EXPIRIES),
        st.builds(add, DATA, st.sampled_from([0, 1_400_000_000])),
        st.builds(remove),
        st.builds(reserve),
        st.builds(reserve, XIDS),
        st.builds(add_xid, XIDS, DATA, TIMES, EXPIRIES),
        st.builds(save_xid, st.sampled_from([0, 3, -2, 2**31 - 1])),
        st.builds(unremove, XIDS),
        st.builds(confirm, XIDS),
        st.builds(go_on, XIDS, DATA, TIMES, EXPIRIES),
    ),
    max_size=40,
)
QUEUES = st.dictionaries(st.sampled_from(["q", "q+a", "q+b", "a:b", "+x"]), STEPS, min_size=1)


def model_of(steps: list[Step]) -> Model:
    model = Model()
    model.replay("q", steps, 0)
    return model


def expected(model: Model) -> list[Kept]:
    return [Kept(item.data, item.added_ms, item.expiry_ms) for item in model.items()]


@settings(deadline=None)
@given(QUEUES, st.booleans())
def test_there_and_back_and_there_again(queues: dict[str, list[Step]], keep_open: bool) -> None:
    disk = disk_with(queues)
    rules = ImportRules(keep_open_until_ms=NOW_MS + 1 if keep_open else None)
    assert {one.outcome for one in run_import(disk, rules)} == {Outcome.IMPORTED}
    assert {one.verdict for one in run_verify(disk)} == {Verdict.COMPLETE}
    run_export(disk, BACK)
    assert sorted(entry.name for entry in disk.list(BACK)) == sorted(queues)
    source = open_source(disk, BACK)
    run_import(disk, source=BACK, data=SECOND)
    for name, steps in queues.items():
        model = model_of(steps)
        assert line(disk, name, data=SECOND) == expected(model)
        (exported,) = (one for family in source.families for one in family.lines if one.name.text == name)
        replayed = source.replay(exported)
        assert len(replayed.open) == (len(model.sorted_open()) if keep_open else 0)
        assert not [doubt for doubt in replayed.doubts if doubt.kind != "empty"]
