"""Items are read when they are asked for, whatever their opcode, size and place."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barbicel.disk import File
from barbicel.errors import CorruptFile
from barbicel.kestrel_compat.journals.queue import JournalFile, JournalItem
from barbicel.kestrel_compat.journals.replay import replay
from tests.golden.kestrel.journals import MODIFIED_MS
from tests.golden.kestrel.writer import Step, add, add_xid, addx, confirm, go_on, i32, join, remove, reserve
from tests.kestrel_compat.journals.directory import JournalDirectory

SIZES = (0, 1, 100, 3000, 4096 - 21, 4097, 70_000, 1_100_000)


def items_of(*files: Sequence[Step]) -> Sequence[JournalItem]:
    return JournalDirectory({f"q.{number}": join(steps) for number, steps in enumerate(files)}).replay().items


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("make", [addx, add, lambda data: add_xid(5, data), lambda data: go_on(5, data)])
def test_items_of_any_size_and_opcode(size: int, make: Callable[[bytes], Step]) -> None:
    wanted = [os.urandom(size) for _ in range(5)]
    items = items_of([make(data) for data in wanted[:3]], [make(data) for data in wanted[3:]])
    assert [item.data for item in items] == wanted
    assert [items[index].data for index in range(5)] == wanted


@given(st.lists(st.integers(0, 9000), max_size=60), st.integers(0, 60), st.integers(0, 20))
@settings(deadline=None)
def test_sizes_of_all_kinds_together(sizes: list[int], open_reads: int, removes: int) -> None:
    steps = [addx(bytes([index]) * size) for index, size in enumerate(sizes)]
    steps += [reserve(100 - number) for number in range(open_reads)] + [remove()] * removes
    steps += [confirm(100 - number) for number in range(0, open_reads, 3)]
    datas = [step.data for step in steps[: len(sizes)]]
    taken = min(open_reads, len(datas))
    opened = [data for number, data in enumerate(datas[:taken]) if number % 3]
    assert [item.data for item in items_of(steps)] == opened[::-1] + datas[taken + removes :]


def test_a_slice_reads_nothing_and_is_what_it_says() -> None:
    items = items_of([addx(b"%d" % number) for number in range(10)])
    tail = items[7:]
    assert len(tail) == 3
    assert [item.data for item in tail] == [b"7", b"8", b"9"]
    assert [item.data for item in items[1:6][::2]] == [b"1", b"3", b"5"]
    assert items[-1].data == b"9"
    assert items[7:][0] == items[7]
    with pytest.raises(IndexError):
        items[10]


class Counted:
    """Which reads there were, and how many files are open."""

    def __init__(self, directory: JournalDirectory) -> None:
        self.directory = directory
        self.reads: list[int] = []
        self.open_files = 0

    def open(self, name: str) -> File:
        self.open_files += 1
        return cast(File, CountedFile(self, self.directory.open(name)))


class CountedFile:
    """As much of a file as a reader needs."""

    def __init__(self, counted: Counted, file: File) -> None:
        self._counted = counted
        self._file = file

    def size(self) -> int:
        return self._file.size()

    def pread(self, size: int, position: int) -> bytes:
        self._counted.reads.append(size)
        return self._file.pread(size, position)

    def close(self) -> None:
        self._counted.open_files -= 1
        self._file.close()


def counted_items(*files: Sequence[Step]) -> tuple[Sequence[JournalItem], Counted]:
    contents = {f"q.{number}": join(steps) for number, steps in enumerate(files)}
    counted = Counted(JournalDirectory(contents))
    listed = [JournalFile(name, len(raw), MODIFIED_MS) for name, raw in contents.items()]
    items = replay(listed, counted.open).items
    assert counted.open_files == 0
    counted.reads.clear()
    return items, counted


def test_items_in_a_row_are_read_in_large_pieces() -> None:
    items, counted = counted_items([addx(b"x" * 1000)] * 5000)
    assert sum(1 for _ in items) == 5000
    assert len(counted.reads) < 15
    assert sum(counted.reads) < 1.5 * 5000 * 1021 + (1 << 20)


def test_items_far_apart_do_not_cost_what_is_between() -> None:
    gap = [addx(b"x" * 100_000), reserve(1), confirm(1)]
    steps = [step for number in range(10) for step in [addx(b"keep"), reserve(100 + number), *gap]]
    items, counted = counted_items(steps)
    assert [item.data for item in items] == [b"keep"] * 10
    assert sum(counted.reads) <= 10 * 4096


def test_files_are_closed_after_reading_also_when_one_stops_halfway() -> None:
    items, counted = counted_items([addx(b"a")] * 3, [addx(b"b")] * 3)
    assert len(list(items)) == 6
    assert counted.open_files == 0
    halfway = iter(items)
    next(halfway)
    assert counted.open_files == 1
    halfway.close()  # type: ignore[attr-defined]
    assert counted.open_files == 0
    assert items[4].data == b"b"
    assert counted.open_files == 0


@pytest.mark.parametrize("changed", [b"", b"\x02", b"\x01" * 60, bytes(60), addx(b"12345678").raw[:-1]])
def test_a_file_that_changed_gives_no_wrong_items(changed: bytes) -> None:
    directory = JournalDirectory({"q": join([addx(b"12345678")])})
    items = directory.replay().items
    directory.disk.put("/journals/q", changed)
    with pytest.raises(CorruptFile, match="q: at byte 0: there is no item any more"):
        items[0]
    with pytest.raises(CorruptFile):
        list(items)


@pytest.mark.parametrize("size", [-(2**31), -30, 0, 15, 2**31 - 1])
def test_a_size_that_changed_gives_no_wrong_items(size: int) -> None:
    directory = JournalDirectory({"q": join([addx(b"")] * 3)})
    items = directory.replay().items
    one = addx(b"").raw
    directory.disk.put("/journals/q", one + one[:1] + i32(size) + one[5:] + one)
    with pytest.raises(CorruptFile, match="q: at byte 21: there is no item any more"):
        list(items)
