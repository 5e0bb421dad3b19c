"""Journals for the way back: what is unread, in order; and nothing is ever overwritten."""

from __future__ import annotations

import errno

import pytest

from barbicel.codecs.kafka.compression import Codec
from barbicel.codecs.kafka.new_batch import NewRecord, build_batch
from barbicel.codecs.kafka.record_batch import decode_header, encode_batch, stamp
from barbicel.disk import File
from barbicel.errors import DiskError
from barbicel.gateway.migration import export
from barbicel.gateway.migration.directory_target import DirectoryTarget
from barbicel.gateway.migration.export import JournalExists, export_queues
from barbicel.gateway.migration.importing import ImportRules
from barbicel.gateway.migration.source import NoSuchQueue
from barbicel.gateway.migration.verify import Verdict
from barbicel.keratin import Log, Writer
from barbicel.keratin import NewRecord as LogRecord
from barbicel.kestrel_compat.names import parse_queue_name
from barbicel.stroma import Ack, GroupKey
from tests.gateway.migration.support import (
    DATA,
    NOW_MS,
    disk_with,
    fixed_clock,
    line,
    run_export,
    run_import,
    run_verify,
)
from tests.golden.kestrel.writer import Step, addx, join, reserve
from tests.support.fault_disk import FaultDisk

BACK = "/back"
A, B, C = (addx(name, 1000 + index) for index, name in enumerate((b"a", b"b", b"c")))


def journal(disk: FaultDisk, name: str) -> bytes:
    return disk.files()[f"{BACK}/{name}"]


def exported(queues: dict[str, list[Step]], rules: ImportRules) -> FaultDisk:
    disk = disk_with(queues)
    run_import(disk, rules)
    run_export(disk, BACK)
    return disk


def test_items_are_written_as_kestrel_does() -> None:
    expiring = addx(b"late", 5, 9_999)
    disk = exported({"q": [A, B, expiring], "q+child": [B]}, ImportRules())
    assert journal(disk, "q") == join([A, B, expiring])
    assert journal(disk, "q+child") == join([B])
    assert set(disk.files()) >= {"/back/q", "/back/q+child"}
    assert not [path for path in disk.files() if "~~" in path]


def test_open_reads_are_reserved() -> None:
    disk = exported({"q": [A, B, C, reserve(9), reserve(4)]}, ImportRules(keep_open_until_ms=NOW_MS + 1))
    assert journal(disk, "q") == join([B, reserve(1), A, reserve(2), C])


def test_what_was_read_is_left_out() -> None:
    disk = disk_with({"q": [A, B, C]})
    run_import(disk)
    with DirectoryTarget.open(disk, DATA, clock=fixed_clock) as target:
        target.store.record(GroupKey("q", 0, "kestrel"), [Ack(1)])
    run_export(disk, BACK)
    assert journal(disk, "q") == join([A, C])


def append_batch(disk: FaultDisk, batch: bytes | bytearray, count: int = 1) -> None:
    """As it is, whatever is inside."""
    batch = bytearray(batch)
    with DirectoryTarget.open(disk, DATA, clock=fixed_clock) as target:
        topic = target.catalogue.by_name("q")
        assert topic is not None
        path = target.catalogue.layout.partition(topic, 0)
        with Log.open(path, disk=disk, clock=fixed_clock) as log, Writer() as writer:
            stamp(batch, log.end_offset, 0)
            writer.append(log, [LogRecord(bytes(batch), span=count)])


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_that_a_producer_has_spoiled_does_not_end_the_way_back(codec: Codec) -> None:
    disk = disk_with({"q": [A], "q+child": [B]})
    run_import(disk)
    header = decode_header(memoryview(build_batch([NewRecord(1, None, b"x")] * 2)))
    append_batch(disk, encode_batch(header._replace(attributes=codec), b"\x99 nothing that a record is"), 2)
    append_batch(disk, build_batch([NewRecord(1002, None, b"c")]))
    with DirectoryTarget.open(disk, DATA, clock=fixed_clock, may_create=False) as target:
        exported = export_queues(disk, target, BACK)
    assert journal(disk, "q") == join([A, C])
    assert [one[:3] for one in exported.unreadable] == [("q", 2, 3), ("q+child", 2, 3)]
    # The import is as complete as it was.
    assert [one.verdict for one in run_verify(disk)] == [Verdict.COMPLETE]


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_what_readers_get_out_of_a_compressed_batch_is_written(codec: Codec) -> None:
    disk = disk_with({"q": []})
    run_import(disk)
    large = NewRecord(1000, None, bytes(17 << 20))
    append_batch(disk, build_batch([large], codec=codec))
    run_export(disk, BACK)
    assert len(journal(disk, "q")) > 17 << 20


def test_what_is_exported_goes_behind_what_kestrel_still_has() -> None:
    """Under the name of the current journal, with Kestrel's own put aside: the way back from both running."""
    disk = exported({"q": [A, B]}, ImportRules())
    disk.put("/merged/q.900", join([C, C, reserve(1)]))
    disk.put("/merged/q", journal(disk, "q"))
    run_import(disk, source="/merged", data="/other")
    assert [item.data for item in line(disk, "q", data="/other")] == [b"c", b"c", b"a", b"b"]


def test_an_empty_line_is_an_empty_journal() -> None:
    assert journal(exported({"q": []}, ImportRules()), "q") == b""


def test_what_a_journal_cannot_say_is_as_far_as_it_can() -> None:
    disk = FaultDisk()
    with (
        DirectoryTarget.open(disk, DATA, clock=fixed_clock) as target,
        target.make([parse_queue_name("q")]) as queue,
    ):
        for expiry in (b"99999999999999999999", b"0"):
            queue.append([NewRecord(7, None, b"x", ((b"kestrel-expiry-ms", expiry),))])
        queue.settle()
    run_export(disk, BACK)
    assert journal(disk, "q") == join([addx(b"x", 7, 2**63 - 1), addx(b"x", 7, 1)])


@pytest.mark.parametrize("there", ["q", "q.123", "q.5.pack"])
def test_nothing_is_overwritten(there: str) -> None:
    disk = disk_with({"q": [A], "another": [B]})
    run_import(disk)
    disk.put(f"{BACK}/{there}", b"old")
    with pytest.raises(JournalExists, match=there):
        run_export(disk, BACK)
    assert {path: raw for path, raw in disk.files().items() if path.startswith(BACK)} == {
        f"{BACK}/{there}": b"old"
    }


def test_queues_are_chosen() -> None:
    disk = disk_with({"q": [A], "q+a": [A], "another": [B]})
    run_import(disk)
    run_export(disk, BACK, queues=["q"])
    assert sorted(entry.name for entry in disk.list(BACK)) == ["q", "q+a"]
    with pytest.raises(NoSuchQueue):
        run_export(disk, "/elsewhere", queues=["nobody"])


def test_what_cannot_be_written_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full of it would stay full."""
    disk = disk_with({"q": [A]})
    run_import(disk)

    def fail(file: File, *_: object) -> None:
        file.append([b"half"])
        raise DiskError("write", "/back/q", OSError(errno.ENOSPC, "full"))

    monkeypatch.setattr(export, "_write_line", fail)
    with pytest.raises(DiskError):
        run_export(disk, BACK)
    assert not disk.names(BACK)


def test_two_exports_do_not_write_into_one_directory_at_once() -> None:
    """A half of one could get the name of a journal of the other."""
    disk = disk_with({"q": [A]})
    run_import(disk)
    disk.make_directory(BACK)
    other = disk.lock(f"{BACK}/~~export.lock")
    with pytest.raises(JournalExists, match="another export"):
        run_export(disk, BACK)
    other.release()
    run_export(disk, BACK)
    assert [entry.name for entry in disk.list(BACK)] == ["q"]


def test_what_a_killed_export_left_is_replaced() -> None:
    disk = disk_with({"q": [A]})
    run_import(disk)
    disk.put(f"{BACK}/~~export", b"half")
    run_export(disk, BACK)
    assert [entry.name for entry in disk.list(BACK)] == ["q"]


def test_the_longest_name_that_a_file_can_have_is_written() -> None:
    longest = "x" * 240 + "+" + "c" * 14
    disk = exported({longest: [A], "x" * 249: [B]}, ImportRules())
    assert journal(disk, longest) == A.raw
    assert journal(disk, "x" * 249) == B.raw
    assert all(len(path.rpartition("/")[2]) <= 255 for path in disk.files())


def test_a_name_that_no_file_can_have_is_left_out_and_told() -> None:
    """Made by a client of the gateway: Kestrel could not have had it."""
    disk = FaultDisk()
    names = ["q", "q+" + "\xe9" * 127, "q+" + "\xe9" * 126]
    with DirectoryTarget.open(disk, DATA, clock=fixed_clock) as target:
        target.make([parse_queue_name(name) for name in names]).close()
        found = export_queues(disk, target, BACK)
    assert [line.queue for line in found.lines] == [names[0], names[2]]
    assert found.left_out == [names[1]]
