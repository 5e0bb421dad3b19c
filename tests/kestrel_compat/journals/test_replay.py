"""Journals to queues: golden ones, cut anywhere, random ones, and rubbish, in bounded memory."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from unittest import mock

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from barbicel.disk import RealDisk
from barbicel.errors import BarbicelError, DiskError
from barbicel.kestrel_compat.journals import replay as replay_module
from barbicel.kestrel_compat.journals import state as state_module
from barbicel.kestrel_compat.journals.queue import DoubtKind, JournalFile, ReplayedQueue
from barbicel.kestrel_compat.journals.replay import replay
from tests.golden.kestrel import writer
from tests.golden.kestrel.journals import GOLDEN, MODIFIED_MS, Golden
from tests.golden.kestrel.writer import Step, addx, i32, i64, join, remove, reserve, state_dump
from tests.kestrel_compat.journals.directory import JournalDirectory
from tests.kestrel_compat.journals.model import Model, ModelItem, read_steps

# So small that heads of entries are cut by the ends of pieces, up to one that has all.
PIECES = (25, 26, 33, 64, 1 << 20)
BAD_KINDS = {DoubtKind.DAMAGED, DoubtKind.TRUNCATED, DoubtKind.ZEROS}
EMPTY = DoubtKind.EMPTY


@contextmanager
def pieces_of(size: int) -> Iterator[None]:
    """Read files in such pieces, and give back the slots of taken items at once."""
    with (
        mock.patch.object(replay_module, "PIECE_BYTES", size),
        mock.patch.object(state_module, "_SPARE_SLOTS", 0 if size < 1 << 20 else 1 << 20),
    ):
        yield


def everything(queue: ReplayedQueue) -> list[ModelItem]:
    return [ModelItem(*item) for item in queue.items]


def same_as_model(queue: ReplayedQueue, model: Model) -> None:
    assert everything(queue) == model.items()
    assert [(one.xid, one.file, one.position) for one in queue.open] == [
        (xid, item.file, item.position) for xid, item in model.sorted_open()
    ]
    assert queue.operations == model.operations
    assert first_of(queue, DoubtKind.SURPLUS) == firsts(model.surplus)
    assert first_of(queue, DoubtKind.REOPENED) == firsts(model.reopened)
    assert first_of(queue, EMPTY) == firsts(
        (item.file, item.position) for item in model.items() if not item.data
    )


def first_of(queue: ReplayedQueue, kind: DoubtKind) -> dict[str, int]:
    return firsts((doubt.file, doubt.position) for doubt in queue.doubts if doubt.kind is kind)


def firsts(found: Sequence[tuple[str, int]] | Iterator[tuple[str, int]]) -> dict[str, int]:
    """The first of each file, in the order in which it was found."""
    by_file: dict[str, int] = {}
    for file, position in found:
        by_file.setdefault(file, position)
    return by_file


def bad_places(queue: ReplayedQueue) -> list[tuple[str, int]]:
    return [(doubt.file, doubt.position) for doubt in queue.doubts if doubt.kind in BAD_KINDS]


# --- goldens --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("piece_bytes", PIECES)
@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_directory_gives_its_queue(name: str, piece_bytes: int) -> None:
    golden = GOLDEN[name]
    directory = JournalDirectory(golden.contents())
    selection = directory.select()
    (files,) = selection.queues.values()
    assert [file.name for file in files.files] == list(golden.files)
    with pieces_of(piece_bytes):
        queue = replay(files.files, directory.open)
    assert [item.data for item in queue.items] == golden.items
    assert [read.xid for read in queue.open] == golden.open
    found = [*selection.doubts, *queue.doubts]
    assert [(doubt.file, doubt.position, str(doubt.kind)) for doubt in found] == golden.doubts
    assert all(doubt.what for doubt in found)


WITHOUT_END = [
    name
    for name, golden in GOLDEN.items()
    if not golden.tails and not any(step.verb == "dump" for steps in golden.files.values() for step in steps)
]


@pytest.mark.parametrize("name", WITHOUT_END)
def test_a_golden_gives_its_queue_also_if_it_goes_on(name: str) -> None:
    """The last entries of a piece are not the fast loop's: here they close what is not open."""
    golden = GOLDEN[name]
    behind = writer.confirm(77777).raw * 10
    contents = {file: raw + behind for file, raw in golden.contents().items()}
    directory = JournalDirectory(contents)
    selection = directory.select()
    (files,) = selection.queues.values()
    queue = replay(files.files, directory.open)
    assert [item.data for item in queue.items] == golden.items
    assert [read.xid for read in queue.open] == golden.open
    found = [*selection.doubts, *queue.doubts]
    assert [(doubt.file, doubt.position, str(doubt.kind)) for doubt in found] == golden.doubts
    assert queue.operations == sum(len(steps) + 10 for steps in golden.files.values())


@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_queue_is_that_of_the_model(name: str) -> None:
    golden = GOLDEN[name]
    model = Model()
    for file, steps in golden.files.items():
        model.replay(file, steps, MODIFIED_MS)
    assert [item.data for item in model.items()] == golden.items
    assert [xid for xid, _ in model.sorted_open()] == golden.open


@pytest.mark.parametrize("piece_bytes", PIECES[-2:])
@pytest.mark.parametrize("name", GOLDEN)
def test_a_file_that_is_cut_gives_its_sound_part_and_says_where_that_ends(
    name: str, piece_bytes: int
) -> None:
    golden = GOLDEN[name]
    with pieces_of(piece_bytes):
        for file, steps in golden.files.items():
            for size in range(len(join(steps))):
                check_cut(golden, file, size)


def check_cut(golden: Golden, cut_file: str, size: int) -> None:
    contents = {name: join(steps) for name, steps in golden.files.items()}
    contents[cut_file] = contents[cut_file][:size]
    queue = JournalDirectory(contents).replay()
    same_as_model(queue, model_of(contents))
    bad = [position for file, position in bad_places(queue) if file == cut_file]
    position = 0
    for step in golden.files[cut_file]:
        if position + len(step.raw) > size:
            break
        position += len(step.raw)
    if size == position:
        assert bad == []
    elif step.verb == "dump":
        assert len(bad) == 1
        assert position <= bad[0] <= size
    else:
        assert bad == [position]


def model_of(contents: Mapping[str, bytes]) -> Model:
    model = Model()
    for file, raw in contents.items():
        model.replay(file, read_steps(raw).steps, MODIFIED_MS)
    return model


# --- random journals ------------------------------------------------------------------------------------

# Few xids, so that they meet; at the ends of their range as well.
xids = st.one_of(st.integers(-3, 5), st.sampled_from([2**31 - 1, 2**31 - 2, -(2**31)]))
data = st.one_of(st.binary(max_size=4), st.binary(min_size=20, max_size=90))
times_ms = st.integers(0, 4_000_000_000_000)
expiries_ms = st.one_of(st.just(0), st.integers(-(2**63), 2**63 - 1))
adding = st.one_of(
    st.builds(addx, data, st.one_of(times_ms, st.integers(-(2**63), 2**63 - 1)), expiries_ms),
    st.builds(addx, data),
    st.builds(writer.add, data, st.integers(-(2**31), 2**31 - 1)),
    st.builds(writer.add_xid, xids, data, times_ms, expiries_ms),
    st.builds(writer.go_on, xids, data, times_ms, expiries_ms),
)
taking = st.one_of(
    st.builds(remove),
    st.builds(reserve, st.one_of(st.none(), xids)),
    st.builds(writer.save_xid, xids),
    st.builds(writer.unremove, xids),
    st.builds(writer.confirm, xids),
)
journals = st.lists(st.one_of(adding, adding, taking, taking), max_size=40)
# Many of a kind, to come into the long runs of the fast loop.
runs = st.lists(
    st.tuples(st.one_of(adding, taking), st.integers(1, 30)).map(lambda run: [run[0]] * run[1]), max_size=8
).map(lambda lists: [step for run in lists for step in run])
many_files = st.lists(st.one_of(journals, runs), min_size=1, max_size=3)


@given(many_files, st.sampled_from(PIECES))
@example([[addx(b"a")] * 30 + [remove()] * 40], 1 << 20)
@example([[addx(b"abc")] * 3 + [reserve()] * 2 + [writer.unremove(1)] * 2 + [addx(b"")] * 30], 1 << 20)
@settings(deadline=None)
def test_random_journals_give_the_queue_of_the_model(files: list[list[Step]], piece_bytes: int) -> None:
    contents = {f"q.{number}": join(steps) for number, steps in enumerate(files)}
    model = Model()
    for name, steps in zip(contents, files, strict=True):
        model.replay(name, steps, MODIFIED_MS)
    with pieces_of(piece_bytes):
        queue = JournalDirectory(contents).replay()
    same_as_model(queue, model)
    assert bad_places(queue) == []


@pytest.mark.parametrize("missing", range(4))
def test_a_run_of_removes_takes_what_there_is(missing: int) -> None:
    raw = join([addx(b"x")] * 5) + b"\x01" * (5 + missing) + writer.confirm(1).raw * 10 + addx(b"y").raw
    queue = JournalDirectory({"q": raw}).replay()
    assert [item.data for item in queue.items] == [b"y"]
    assert first_of(queue, DoubtKind.SURPLUS) == ({"q": 5 * 22 + 5} if missing else {})
    assert [doubt.what.split()[0] for doubt in queue.doubts if doubt.kind is DoubtKind.MORE] == (
        [str(missing - 1)] if missing > 1 else []
    )


@given(many_files, st.data(), st.sampled_from(PIECES))
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_damaged_journals_give_what_the_plain_decoder_reads(
    files: list[list[Step]], choose: st.DataObject, piece_bytes: int
) -> None:
    contents = {f"q.{number}": damage(join(steps), choose) for number, steps in enumerate(files)}
    with pieces_of(piece_bytes):
        queue = JournalDirectory(contents).replay()
    same_as_model(queue, model_of(contents))
    for name, raw in contents.items():
        found = read_steps(raw)
        if found.bad_at is not None:
            assert (name, found.bad_at) in bad_places(queue)


def damage(raw: bytes, choose: st.DataObject) -> bytes:
    """Bytes replaced, cut out or put in, where entries are and where they are not."""
    changed = bytearray(raw)
    for _ in range(choose.draw(st.integers(1, 4))):
        at = choose.draw(st.integers(0, len(changed)))
        length = choose.draw(st.integers(0, 6))
        changed[at : at + length] = choose.draw(
            st.one_of(st.binary(max_size=6), st.lists(st.integers(0, 10), max_size=6).map(bytes))
        )
    return bytes(changed)


@given(st.lists(st.one_of(st.integers(0, 10), st.integers(0, 255)), max_size=300).map(bytes))
@settings(deadline=None)
def test_rubbish_is_read_as_the_plain_decoder_reads_it(raw: bytes) -> None:
    queue = JournalDirectory({"q": raw}).replay()
    same_as_model(queue, model_of({"q": raw}))


def test_a_long_journal_through_many_pieces_is_that_of_the_model() -> None:
    """As a worker's day: more than the fast loop sees in one go, with everything in it now and then."""
    chance = Random(1)
    steps: list[Step] = []
    for number in range(3000):
        xid = number % 50 + 1
        steps += chance.choice(
            [
                [addx(b"%d" % number * chance.randrange(9), 1_300_000_000_000 + number)] * 2,
                [addx(b"x" * 700, 1_300_000_000_000 + number), remove()],
                [addx(b"y", 1_300_000_000_000 + number), reserve(xid), writer.confirm(xid)],
                [addx(b"z", 1_300_000_000_000 + number), reserve(xid), writer.unremove(xid)],
                [reserve(), addx(b"")],
                [writer.go_on(xid, b"continued"), remove(), remove()],
                [writer.save_xid(1000 + number), writer.add(b"old", 5)],
            ]
        )
    model = Model()
    model.replay("q", steps, MODIFIED_MS)
    assert len(model.items()) > 100
    for piece_bytes in (1000, 65536):
        with pieces_of(piece_bytes):
            same_as_model(JournalDirectory({"q": join(steps)}).replay(), model)


# --- times ----------------------------------------------------------------------------------------------


def test_items_have_their_times_and_places() -> None:
    steps = [writer.add(b"old", 7), writer.add(b"older"), addx(b"new", 5, 6), addx(b"newer", 5)]
    queue = JournalDirectory({"q": join(steps)}).replay()
    assert everything(queue) == [
        ModelItem(b"old", MODIFIED_MS, 7000, "q", 0),
        ModelItem(b"older", MODIFIED_MS, None, "q", 12),
        ModelItem(b"new", 5, 6, "q", 26),
        ModelItem(b"newer", 5, None, "q", 50),
    ]


@pytest.mark.parametrize(("early_ms", "is_odd"), [(1000, False), (1001, True)])
def test_items_may_be_a_second_older_than_the_file_before_theirs(early_ms: int, is_odd: bool) -> None:
    rotated_ms = 1_300_000_000_000
    steps = [addx(b"a", rotated_ms - early_ms), addx(b"b" * 50, rotated_ms)]
    directory = JournalDirectory({f"q.{rotated_ms}": join([addx(b"x", 1)]), "q": join(steps)})
    queue = replay(directory.select().queues["q"].files, directory.open)
    assert len(queue.items) == 3
    assert [doubt.position for doubt in queue.doubts if doubt.kind is DoubtKind.DUPLICATES] == [0] * is_odd


def test_a_continued_item_may_be_a_duplicate_too() -> None:
    directory = JournalDirectory({"q.90000": b"", "q": join([writer.go_on(1, b"a", 88_999)])})
    queue = replay(directory.select().queues["q"].files, directory.open)
    assert [doubt.kind for doubt in queue.doubts] == [DoubtKind.DUPLICATES]


# --- files that are not as they were listed -------------------------------------------------------------


@pytest.mark.parametrize(("listed", "read"), [(44, 2), (22, 1), (65, 2), (1000, 3)])
def test_a_file_that_has_changed_is_read_as_far_as_it_was_listed(listed: int, read: int) -> None:
    directory = JournalDirectory({"q": join([addx(b"a"), addx(b"b"), addx(b"c")])})
    queue = replay([JournalFile("q", listed, 0)], directory.open)
    assert len(queue.items) == read
    assert (queue.doubts[0].kind, queue.doubts[0].position) == (DoubtKind.CHANGED, min(listed, 66))


def test_a_file_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(DiskError):
        replay([JournalFile("gone", 5, 0)], JournalDirectory({}).open)


def test_files_that_are_too_large_are_refused() -> None:
    with pytest.raises(BarbicelError, match="larger than is possible"):
        replay([JournalFile("q", 1 << 44, 0)], JournalDirectory({}).open)
    with pytest.raises(BarbicelError, match="at most"):
        replay([JournalFile("q", 1, 0)] * (1 << 18), JournalDirectory({}).open)


# --- bounds ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in GOLDEN if "huge" in name or "negative" in name])
def test_no_size_that_a_file_declares_is_allocated(name: str) -> None:
    directory = JournalDirectory(GOLDEN[name].contents())
    assert peak_of_replay(directory) < 100_000


def peak_of_replay(directory: JournalDirectory) -> int:
    directory.replay()  # what is imported and cached by the first use is not meant
    tracemalloc.start()
    try:
        directory.replay()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_large_items_are_passed_without_reading_them(tmp_path: Path) -> None:
    """Two items of a gigabyte, which the disk does not really have."""
    path, size = tmp_path / "q", 1 << 30
    with path.open("wb") as file:
        for _ in range(2):
            file.write(b"\x02" + i32(size) + i64(1) + i64(0))
            file.seek(size - 16, os.SEEK_CUR)
        file.write(b"\x01")
    disk = RealDisk()
    tracemalloc.start()
    try:
        queue = replay([JournalFile("q", 2 * (size + 5) + 1, 0)], lambda name: disk.open(str(path), "read"))
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert (len(queue.items), queue.operations, queue.doubts) == (1, 3, ())


def test_a_million_oddities_are_a_handful_of_doubts() -> None:
    raw = (addx(b"").raw + b"\x01\x01") * 20_000 + addx(b"").raw * 1000
    queue = JournalDirectory({"q": raw}).replay()
    kinds = [doubt.kind for doubt in queue.doubts]
    assert kinds == [DoubtKind.SURPLUS] + [EMPTY] * 100 + [DoubtKind.MORE] * 2
    assert [doubt.what for doubt in queue.doubts[-2:]] == [
        "19,999 more of the kind 'surplus' behind this one",
        "900 more of the kind 'empty' behind this one",
    ]


def test_memory_does_not_grow_with_what_was_taken() -> None:
    """Each round adds as much as it takes, so that places of taken items must be given back."""
    round_of = join([addx(b"x")] * 1000) + b"\x01" * 1000
    with (
        mock.patch.object(state_module, "_SPARE_SLOTS", 5000),
        mock.patch.object(replay_module, "PIECE_BYTES", 4096),
    ):
        short = peak_of_replay(JournalDirectory({"q": round_of * 20}))
        long = peak_of_replay(JournalDirectory({"q": round_of * 60}))
    assert long < short * 1.5


def test_progress_adds_up_to_the_size_of_all_files() -> None:
    contents = {
        "q.1": join([addx(b"x" * 100)] * 50),
        "q.2": b"\xff" * 70,
        "q.3": join([addx(b"x"), state_dump(0)]),
        "q.4": b"",
    }
    passed: list[int] = []
    directory = JournalDirectory(contents)
    files = [JournalFile(name, len(raw), 0) for name, raw in contents.items()]
    with pieces_of(1000):
        replay(files, directory.open, passed.append)
    assert sum(passed) == sum(map(len, contents.values()))
    assert len(passed) > 5
    assert min(passed) >= 0
