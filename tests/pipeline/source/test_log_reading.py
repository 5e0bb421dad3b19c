"""One log's rows: every codec, every part of a segment, damage, loss, trims and a writer beside it."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from barbicel.codecs.kafka import columns
from barbicel.codecs.kafka.compression import Codec
from barbicel.codecs.kafka.new_batch import ControlType, NewRecord, build_control_batch
from barbicel.disk import OpenMode, RealDisk, RealFile
from barbicel.errors import CorruptFile, CorruptLog, DiskError, NotALog, OffsetOutOfRange, OffsetsLost
from barbicel.keratin import Log, LogSettings
from barbicel.keratin.layout import Layout
from barbicel.keratin.recovery import plan_recovery
from barbicel.keratin.repair import apply_plan
from barbicel.pipeline.source.arrow import KAFKA_SCHEMA_WITH_HEADERS
from barbicel.pipeline.source.log_shape import survey_log
from barbicel.pipeline.source.options import BadOption, ReadUpTo
from barbicel.pipeline.source.shapes import LogStretch
from barbicel.pipeline.source.splits import LogSplit
from tests.codecs.kafka.golden_batches import batch_of
from tests.pipeline.source.stored import (
    SMALL_SEGMENTS,
    T,
    append,
    batch,
    offsets_of,
    read,
    reader,
    records,
    rows_of,
)


def test_every_column_of_every_codec(tmp_path: Path) -> None:
    new = [
        NewRecord(T, None, b"plain"),
        NewRecord(T + 5, b"key", None, ((b"h", b"1"), (b"h", None))),
        NewRecord(T - 3, b"", b"", ((b"\xff", b""),)),
    ]
    with Log.open(str(tmp_path / "7")) as log:
        for codec in Codec:
            append(log, batch(new, codec))
    rows = read(tmp_path / "7", KAFKA_SCHEMA_WITH_HEADERS, topic="orders", partition="7")
    assert offsets_of(rows) == list(range(15))
    for first in range(0, 15, 3):
        plain, keyed, empty = rows[first : first + 3]
        assert (plain["key"], plain["value"], plain["headers"]) == (None, b"plain", None)
        assert (keyed["key"], keyed["value"]) == (b"key", None)
        assert keyed["headers"] == [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
        assert (empty["key"], empty["value"], empty["headers"]) == (
            b"",
            b"",
            [{"key": "\ufffd", "value": b""}],
        )
        assert [round(row["timestamp"].timestamp() * 1000) for row in (plain, keyed, empty)] == [
            T,
            T + 5,
            T - 3,
        ]
        assert {(row["topic"], row["partition"], row["timestampType"]) for row in rows} == {("orders", 7, 0)}


# Bytes, and what Java's `new String(bytes, UTF_8)` makes of them, which is what the connector shows.
AS_IN_JAVA = {
    b"\xc3\xa4": "\xe4",
    b"\xf0\x9f\x98\x80": "\U0001f600",
    b"a\xffb\xc0\x80": "a\ufffdb\ufffd\ufffd",
    b"\xe2\x82": "\ufffd",
    b"\xf0\x80\x80\x80": "\ufffd" * 4,
    b"\xed\xa0\x80": "\ufffd",
    b"\xed\xa0\x80\xed\xb0\x80": "\ufffd" * 2,
    b"\xed\xb0A": "\ufffdA",
    b"\xed\xed\xa0": "\ufffd" * 2,
    b"\xf4\xed\xbf": "\ufffd" * 2,
}


def test_keys_of_headers_that_are_no_text_are_shown_as_java_shows_them(tmp_path: Path) -> None:
    with Log.open(str(tmp_path)) as log:
        append(log, batch([NewRecord(T, None, b"", tuple((key, None) for key in AS_IN_JAVA))]))
    (row,) = read(tmp_path, KAFKA_SCHEMA_WITH_HEADERS)
    assert [header["key"] for header in row["headers"]] == list(AS_IN_JAVA.values())


def test_only_the_columns_of_the_given_schema(tmp_path: Path) -> None:
    with Log.open(str(tmp_path)) as log:
        append(log, batch(records(3)))
    schema = StructType([StructField("offset", LongType()), StructField("value", BinaryType())])
    assert [set(row) for row in read(tmp_path, schema)] == [{"offset", "value"}] * 3
    with pytest.raises(BadOption, match="no column 'offsets'"):
        reader(tmp_path, StructType([StructField("offsets", LongType())]))
    with pytest.raises(BadOption, match="'value' is of type binary"):
        reader(tmp_path, StructType([StructField("value", StringType())]))


def test_a_time_that_spark_cannot_hold_is_null(tmp_path: Path) -> None:
    with Log.open(str(tmp_path)) as log:
        append(log, batch([NewRecord(2**62, None, b"a"), NewRecord(-1, None, b"b")]))
    first, second = read(tmp_path)
    assert first["timestamp"] is None
    assert second["timestamp"].timestamp() == -0.001


@pytest.mark.parametrize("split_bytes", ["1", "1000", "3000", "1g"])
def test_splits_have_every_offset_once(tmp_path: Path, split_bytes: str) -> None:
    with Log.open(str(tmp_path), settings=SMALL_SEGMENTS) as log:
        for first in range(0, 600, 6):
            append(log, batch(records(6, first)))
        assert len(log.segments) > 3
    source = reader(tmp_path, splitBytes=split_bytes)
    splits = source.partitions()
    assert offsets_of(rows_of(source, splits)) == list(range(600))
    assert all(offsets_of(rows_of(source, [split])) for split in splits)
    segments = len({split.stretch.path for split in splits if isinstance(split, LogSplit)})
    assert segments > 3
    assert (len(splits) == segments) == (split_bytes == "1g")


def test_more_splits_are_made_if_wanted(tmp_path: Path) -> None:
    with Log.open(str(tmp_path), settings=LogSettings(index_stride_bytes=256)) as log:
        for first in range(0, 600, 6):
            append(log, batch(records(6, first)))
    assert len(reader(tmp_path).partitions()) == 1
    assert len(reader(tmp_path, minPartitions="10").partitions()) >= 8


def test_without_an_index_and_with_a_wrong_one(tmp_path: Path) -> None:
    with Log.open(str(tmp_path), settings=SMALL_SEGMENTS) as log:
        for first in range(0, 300, 6):
            append(log, batch(records(6, first)))
    indexes = sorted(tmp_path.glob("segments/*.idx"))
    indexes[0].unlink()
    data = bytearray(indexes[1].read_bytes())
    for at in range(72 + 15, len(data), 16):
        data[at] ^= 1  # every position leads astray
    indexes[1].write_bytes(data)
    assert offsets_of(read(tmp_path, splitBytes="500")) == list(range(300))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (0, 100)),
        ({"startingOffsets": "latest"}, (100, 100)),
        ({"startingOffsets": '{"t": {"0": 37}}', "endingOffsets": '{"t": {"0": 52}}'}, (37, 52)),
        ({"startingOffsets": '{"t": {"0": -2}}', "endingOffsets": '{"t": {"0": -1}}'}, (0, 100)),
        ({"startingTimestamp": str(T + 41)}, (41, 100)),
        ({"startingTimestamp": str(T - 41), "endingTimestamp": str(T + 9)}, (0, 9)),
        ({"endingTimestamp": str(T + 10_000)}, (0, 100)),
        ({"startingOffsetsByTimestamp": f'{{"t": {{"0": {T + 99}}}}}'}, (99, 100)),
        ({"startingTimestamp": str(T + 100), "startingOffsetsByTimestampStrategy": "latest"}, (100, 100)),
    ],
)
def test_where_to_begin_and_to_end(
    tmp_path: Path, options: dict[str, str], expected: tuple[int, int]
) -> None:
    with Log.open(str(tmp_path / "t"), settings=SMALL_SEGMENTS) as log:
        for first in range(0, 100, 10):
            append(log, batch(records(10, first), Codec.LZ4))
    assert offsets_of(read(tmp_path / "t", **options)) == list(range(*expected))


def test_a_time_after_all_records_is_an_error_unless_it_means_the_end(tmp_path: Path) -> None:
    with Log.open(str(tmp_path)) as log:
        append(log, batch(records(10)))
    with pytest.raises(BadOption, match="startingOffsetsByTimestampStrategy=latest"):
        read(tmp_path, startingTimestamp=str(T + 10))


def test_offsets_that_the_log_does_not_have(tmp_path: Path) -> None:
    with Log.open(str(tmp_path / "t"), settings=SMALL_SEGMENTS) as log:
        for first in range(0, 300, 10):
            append(log, batch(records(10, first)))
        log.truncate_before(155)
    assert offsets_of(read(tmp_path / "t")) == list(range(155, 300))
    for options in ({"startingOffsets": '{"t": {"0": 154}}'}, {"endingOffsets": '{"t": {"0": 301}}'}):
        with pytest.raises(OffsetOutOfRange, match="failOnDataLoss=false reads what there is"):
            read(tmp_path / "t", **options)
        rows = read(tmp_path / "t", failOnDataLoss="false", **options)
        assert offsets_of(rows) == list(range(155, 300))


def test_a_segment_that_goes_while_the_query_runs(tmp_path: Path) -> None:
    with Log.open(str(tmp_path), settings=SMALL_SEGMENTS) as log:
        for first in range(0, 300, 10):
            append(log, batch(records(10, first)))
        source, lenient = reader(tmp_path), reader(tmp_path, failOnDataLoss="false")
        splits, same = source.partitions(), lenient.partitions()
        log.truncate_before(155)
    with pytest.raises(OffsetOutOfRange, match="deleted while the query ran"):
        rows_of(source, splits)
    left = offsets_of(rows_of(lenient, same))
    assert left == list(range(left[0], 300))
    assert left[0] <= 155


def damage(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x40
    path.write_bytes(data)


def test_damage_names_the_file_the_position_and_the_offsets(tmp_path: Path) -> None:
    with Log.open(str(tmp_path), settings=SMALL_SEGMENTS) as log:
        for first in range(0, 300, 10):
            append(log, batch(records(10, first)))
    second = sorted(tmp_path.glob("segments/*.log"))[1]
    damage(second, 68 + 40 + 30)
    with pytest.raises(CorruptLog, match="crc32c does not match") as found:
        read(tmp_path, splitBytes="500")
    assert found.value.path == str(second)
    assert found.value.position == 68
    assert found.value.first_offset == int(second.stem)
    assert "log verify" in str(found.value)


def test_a_batch_that_lies_behind_good_sums(tmp_path: Path) -> None:
    good = bytearray(batch(records(3)))
    good[-1] ^= 1
    with Log.open(str(tmp_path)) as log:
        append(log, batch(records(3)), bytes(good))
    with pytest.raises(CorruptLog, match="record batch's crc32c") as found:
        read(tmp_path)
    assert (found.value.first_offset, found.value.end_offset) == (3, 6)
    assert found.value.position is not None


def test_a_record_that_lies_behind_good_sums(tmp_path: Path) -> None:
    lie = batch_of(bytes.fromhex("0e 00 00 00 01 01 00"), count=1)
    with Log.open(str(tmp_path)) as log:
        append(log, batch(records(3)), lie, batch(records(3)))
    with pytest.raises(CorruptLog, match="is damaged; offset 3 cannot be read"):
        read(tmp_path)


def test_without_compiled_code_the_rows_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Log.open(str(tmp_path)) as log:
        for codec in Codec:
            append(log, batch(records(30), codec))
    expected = read(tmp_path, KAFKA_SCHEMA_WITH_HEADERS)
    monkeypatch.setattr(columns, "_quick", None)
    assert not columns.is_compiled()
    assert read(tmp_path, KAFKA_SCHEMA_WITH_HEADERS) == expected


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    with Log.open(str(tmp_path)) as log:
        append(log, batch([NewRecord(T, None, bytes(4 << 20))], Codec.ZSTD))
    with pytest.raises(CorruptLog, match="more than the allowed"):
        read(tmp_path, maxBatchBytes="1m")
    assert len(read(tmp_path)[0]["value"]) == 4 << 20


def test_offsets_that_a_repair_gave_up(tmp_path: Path) -> None:
    with Log.open(str(tmp_path)) as log:
        for first in range(0, 30, 10):
            append(log, batch(records(10, first)))
    path = next(tmp_path.glob("segments/*.log"))
    damage(path, path.stat().st_size // 2)
    disk = RealDisk()
    apply_plan(disk, plan_recovery(disk, Layout(str(tmp_path)), None, deep=True), T, accept_loss=True)
    with pytest.raises(OffsetsLost, match="offsets 10 to 19.*failOnDataLoss=false"):
        read(tmp_path)
    rows = read(tmp_path, failOnDataLoss="false")
    assert offsets_of(rows) == [*range(10), *range(20, 30)]


def test_control_batches_and_aborted_transactions_are_passed_over(tmp_path: Path) -> None:
    def transactional(producer: int, first: int) -> bytes:
        return batch(
            records(2, first), producer_id=producer, producer_epoch=0, base_sequence=0, is_transactional=True
        )

    def marker(kind: ControlType, producer: int) -> bytes:
        return build_control_batch(
            kind, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp_ms=T
        )

    with Log.open(str(tmp_path / "t"), settings=SMALL_SEGMENTS) as log:
        append(log, transactional(1, 0), transactional(2, 2), batch(records(1, 4)))  # 0-1, 2-3, 4
        append(log, marker(ControlType.COMMIT, 2), transactional(1, 6))  # 5, 6-7
        log.roll()
        append(log, marker(ControlType.ABORT, 1), transactional(1, 9))  # 8, 9-10
        append(log, marker(ControlType.COMMIT, 1), transactional(3, 12))  # 11, 12-13: it never ends
    committed = [2, 3, 4, 9, 10]
    assert offsets_of(read(tmp_path / "t")) == committed
    assert offsets_of(read(tmp_path / "t", splitBytes="1")) == committed
    raw = read(tmp_path / "t", **{"kafka.isolation.level": "read_uncommitted"})
    assert offsets_of(raw) == [0, 1, 2, 3, 4, 6, 7, 9, 10, 12, 13]
    # Where the query ends a transaction may be open that was committed later.
    assert offsets_of(read(tmp_path / "t", endingOffsets='{"t": {"0": 5}}')) == [2, 3, 4]


def test_an_empty_log(tmp_path: Path) -> None:
    Log.open(str(tmp_path)).close()
    assert read(tmp_path) == []


def test_no_log_at_all(tmp_path: Path) -> None:
    with pytest.raises(NotALog, match="there is no such path.*data directory"):
        read(tmp_path / "absent")
    with pytest.raises(NotALog, match="a data directory with topics/"):
        read(tmp_path)
    with Log.open(str(tmp_path / "log")) as log:
        append(log, batch(records(1)))
    (tmp_path / "log" / "manifest.bin").unlink()
    with pytest.raises(NotALog, match="'barbicel log repair' rebuilds it"):
        read(tmp_path / "log")
    (tmp_path / "log" / "manifest.bin").write_bytes(b"KERATIN\0" + bytes(80))
    with pytest.raises(CorruptFile, match="manifest.bin"):
        read(tmp_path / "log")


# --- beside a writer -----------------------------------------------------------------------------------


class SyncsNoted(RealDisk):
    """A disk that notes which files are synced, and may fail to."""

    def __init__(self, failure: OSError | None = None) -> None:
        self.synced: list[str] = []
        self.failure = failure

    def open(self, path: str, mode: OpenMode) -> RealFile:
        disk = self

        class Noted(RealFile):
            def fdatasync(self) -> None:
                if disk.failure is not None:
                    raise DiskError("fdatasync", path, disk.failure)
                disk.synced.append(path)
                super().fdatasync()

        return Noted(path, mode)


def last_stretch(path: Path, known: LogStretch | None = None) -> LogStretch:
    stretch = survey_log(RealDisk(), str(path), known=known).stretches[-1]
    assert isinstance(stretch, LogStretch)
    return stretch


def test_what_is_written_and_not_vouched_for_is_synced_before_it_is_read(tmp_path: Path) -> None:
    disk = SyncsNoted()
    with Log.open(str(tmp_path)) as log:
        append(log, batch(records(5)))
        assert survey_log(disk, str(tmp_path), up_to=ReadUpTo.VOUCHED).end_offset == 0
        assert not disk.synced
        shape = survey_log(disk, str(tmp_path))
        assert shape.end_offset == 5
        assert disk.synced == [last_stretch(tmp_path).path]
        log.checkpoint()
        assert survey_log(disk, str(tmp_path), up_to=ReadUpTo.VOUCHED).end_offset == 5
        assert read(tmp_path, readUpTo="vouched") == read(tmp_path)
        assert read(tmp_path, readUpTo="sealed") == []
        log.roll()
        append(log, batch(records(5, 5)))
        ending = f'{{"{tmp_path.name}": {{"0": 5}}}}'
        assert read(tmp_path, readUpTo="sealed") == read(tmp_path, endingOffsets=ending)


def test_a_sync_that_fails_shows_nothing(tmp_path: Path) -> None:
    disk = SyncsNoted(OSError(errno.EIO, "Input/output error"))
    with Log.open(str(tmp_path)) as log:
        append(log, batch(records(5)))
        with pytest.raises(DiskError, match="fdatasync failed"):
            survey_log(disk, str(tmp_path))


@pytest.mark.parametrize("cut", [1, 30, 60, 100])
def test_a_torn_end_is_not_read_and_nothing_is_changed(tmp_path: Path, cut: int) -> None:
    with Log.open(str(tmp_path)) as log:
        append(log, batch(records(5)))
        log.checkpoint()
        append(log, batch(records(5)))
        append(log, batch(records(5)))
        stretch = last_stretch(tmp_path)
        path, end = Path(stretch.path), stretch.size_bytes
        whole = path.read_bytes()
        torn = whole[: end - cut] + bytes(len(whole) - end + cut)
        path.write_bytes(torn)
        before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*") if file.is_file()}
        assert offsets_of(read(tmp_path)) == list(range(10))
        assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*") if file.is_file()} == before
        path.write_bytes(whole)


def test_a_log_that_was_cut_back_is_looked_at_anew(tmp_path: Path) -> None:
    with Log.open(str(tmp_path)) as log:
        append(log, batch(records(5)))
        known = last_stretch(tmp_path)
        append(log, batch(records(5, 5)))
        longer = last_stretch(tmp_path, known)
        assert (known.end_offset, longer.end_offset) == (5, 10)
    with Path(longer.path).open("r+b") as file:
        file.truncate(longer.last_position)
    # The clean close has vouched for what is missing now.
    with pytest.raises(CorruptLog):
        survey_log(RealDisk(), str(tmp_path), known=longer)


def test_reading_beside_a_writer_that_rolls_and_trims(tmp_path: Path) -> None:
    is_done = threading.Event()
    with Log.open(str(tmp_path), settings=SMALL_SEGMENTS) as log:

        def write() -> None:
            for first in range(0, 6000, 6):
                stored = batch(records(6, first))
                append(log, stored)
                if first % 600 == 0:
                    log.truncate_before(max(0, first - 300))
            is_done.set()

        thread = threading.Thread(target=write)
        thread.start()
        ends = []
        while not is_done.is_set():
            source = reader(tmp_path, failOnDataLoss="false")
            splits = [split for split in source.partitions() if isinstance(split, LogSplit)]
            rows = offsets_of(rows_of(source, splits))
            assert rows == sorted(set(rows))
            # What was planned, not what was read: the writer may trim all of it in between.
            ends += [split.end_offset for split in splits[-1:]]
            assert not rows or rows[-1] < ends[-1]
        thread.join()
        assert ends == sorted(ends)
        assert offsets_of(read(tmp_path))[-1] == 5999


@pytest.mark.parametrize("has_compiled_code", [True, False])
def test_small_batches_with_others_between_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_compiled_code: bool
) -> None:
    if not has_compiled_code:
        monkeypatch.setattr(columns, "_quick", None)
    with Log.open(str(tmp_path), settings=LogSettings(index_stride_bytes=1024)) as log:
        for first in range(0, 300, 100):
            append(log, *(batch(records(1, number)) for number in range(first, first + 97)))
            append(log, batch(records(1, first + 97), Codec.ZSTD), batch(records(1, first + 98, 20_000)))
            append(log, batch(records(1, first + 99)))
    for options in ({}, {"splitBytes": "3000"}):
        rows = read(tmp_path, **options)
        assert offsets_of(rows) == list(range(300))
        assert [row["key"] for row in rows] == [b"k%d" % number for number in range(300)]
    path = next(tmp_path.glob("segments/*.log"))
    damage(path, 5060)  # in a payload
    with pytest.raises(CorruptLog, match="crc32c") as found:
        read(tmp_path)
    assert found.value.position is not None
    assert found.value.position < 5060 < found.value.position + 300
