"""Finding the way past damage, whatever payloads hold."""

from __future__ import annotations

import struct
import tracemalloc

import pytest

from barbicel.codecs.keratin_record import encode_record
from barbicel.keratin.index import SparseIndex
from barbicel.keratin.resumption import find_resumption
from barbicel.keratin.walk import LARGE_RECORD_BYTES, Walk
from tests.support.fault_disk import FaultDisk, FaultFile

PAYLOAD_LENGTH_AT = 12
NO_BOUND = 1 << 64


def record(offset: int, payload: bytes, span: int = 1) -> bytes:
    return b"".join(encode_record(offset, span, 1000, b"", payload))


def with_length(data: bytes, length: int) -> bytes:
    """The same record with another payload length: what a flipped bit there leaves."""
    return data[:PAYLOAD_LENGTH_AT] + struct.pack(">I", length) + data[PAYLOAD_LENGTH_AT + 4 :]


def file_of(data: bytes) -> FaultFile:
    disk = FaultDisk()
    disk.put("/file", data)
    return disk.open("/file", "read")


def test_damage_in_a_payload_costs_that_record() -> None:
    first, second, third = (record(offset, b"x" * 50) for offset in range(3))
    data = first + second.replace(b"x", b"y", 1) + third
    found = find_resumption(file_of(data), len(first), len(data), 1, 3)
    assert found == (len(first) + len(second), 2)


def test_damage_in_a_length_costs_that_record() -> None:
    first, second, third = (record(offset, b"x" * 50) for offset in range(3))
    data = first + with_length(second, 7) + third
    assert find_resumption(file_of(data), len(first), len(data), 1, 3) == (len(first) + len(second), 2)


@pytest.mark.parametrize("tail", [b"", bytes(500)], ids=["sealed", "preallocated"])
@pytest.mark.parametrize("length", [0, 36 + 4, 3 * 40, 1 << 31])
def test_records_in_a_payload_are_not_the_logs(length: int, tail: bytes) -> None:
    """A copy of a log, kept in a log: its records are sound and have offsets that may come next."""
    inside = b"".join(record(offset, b"fake") for offset in range(6, 30))
    holder, then = record(5, inside, span=40), record(45, b"true")
    data = with_length(holder, length) + then + record(46, b"true too") + tail
    assert find_resumption(file_of(data), 0, len(data), 5, NO_BOUND) == (len(holder), 45)


def test_the_farthest_chain_wins_where_a_second_damage_ends_them_all() -> None:
    inside = b"".join(record(offset, b"fake") for offset in range(6, 30))
    holder, then = record(5, inside, span=40), record(45, b"true")
    data = with_length(holder, 1) + then + b"garbage" * 30
    assert find_resumption(file_of(data), 0, len(data), 5, NO_BOUND) == (len(holder), 45)


def test_an_index_entry_ends_the_search() -> None:
    damaged, sound = with_length(record(0, b"x" * 50), 3), record(1, b"y" * 50)
    more = b"".join(record(offset, b"z" * 1000) for offset in range(2, 5000))
    index = SparseIndex(0)
    index.add(0, 0)
    index.add(1, len(damaged))
    file = file_of(damaged + sound + more)
    reads: list[int] = []
    pread = file.pread

    class Counted:
        path = "/file"
        end = 0

        def pread(self, size: int, position: int) -> bytes:
            reads.append(size)
            return pread(size, position)

    counted = Counted()
    end = len(damaged) + len(sound) + len(more)
    found = find_resumption(counted, 0, end, 0, NO_BOUND, index)  # type: ignore[arg-type]  # only reads
    assert found == (len(damaged), 1)
    assert sum(reads) < len(more) // 2


@pytest.mark.parametrize("damaged_length", [False, True])
def test_damage_of_the_record_that_the_index_knows_costs_no_other(damaged_length: bool) -> None:
    records = [record(offset, b"x" * 50) for offset in range(5)]
    size = len(records[0])
    for offset in (1, 2):
        hurt = with_length(records[offset], 7) if damaged_length else records[offset].replace(b"x", b"y", 1)
        records[offset] = hurt
    index = SparseIndex(0)
    for offset in (0, 2, 4):
        index.add(offset, offset * size)
    assert find_resumption(file_of(b"".join(records)), size, 5 * size, 1, 5, index) == (3 * size, 3)


def test_a_payload_full_of_heads_costs_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them claims to be long, so that checking each of them would read everything each time."""
    size, count = 64, 20_000
    inside = b"".join(
        struct.pack(">HHHHIIQQ", 0x4B52, 1, 0, 0, 0, size * (count - number) // 2, 0, 6 + number).ljust(
            size, b"-"
        )
        for number in range(count)
    )
    holder, then = record(5, inside, span=count + 10), record(5 + count + 10, b"true")
    data = with_length(holder, 1) + then
    file = file_of(data)
    read = 0
    pread = FaultFile.pread

    def counting(self: FaultFile, size: int, position: int) -> bytes:
        nonlocal read
        read += size
        return pread(self, size, position)

    monkeypatch.setattr(FaultFile, "pread", counting)
    tracemalloc.start()
    try:
        assert find_resumption(file, 0, len(data), 5, NO_BOUND) == (len(holder), 5 + count + 10)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    assert read < 12 * len(data)


def test_a_damaged_length_costs_no_memory() -> None:
    large = 4 * LARGE_RECORD_BYTES
    data = with_length(record(0, b"x"), large) + bytes(large + 100)
    file = file_of(data)
    walk = Walk(file, 0, len(data), 0)
    tracemalloc.start()
    try:
        assert not list(walk)
        assert tracemalloc.get_traced_memory()[1] < LARGE_RECORD_BYTES
    finally:
        tracemalloc.stop()
    assert walk.problem == "the record's crc32c does not match"


def test_a_large_record_is_read_all_the_same() -> None:
    payload = b"x" * (LARGE_RECORD_BYTES + 1)
    file = file_of(record(0, payload) + record(1, b"next"))
    walk = Walk(file, 0, file.size(), 0)
    assert [len(found.payload) for found in walk] == [len(payload), 4]
