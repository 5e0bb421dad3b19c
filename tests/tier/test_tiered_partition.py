"""The life of segments: copied, dropped from the disk, read back, given up; whatever goes wrong meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from barbicel.codecs.aof2_payloads import UploadFailed
from barbicel.codecs.kafka.compression import Codec
from barbicel.codecs.kafka.new_batch import NewRecord, build_batch
from barbicel.codecs.kafka.record_batch import BatchHeader, decode_header
from barbicel.codecs.kafka.records import KafkaRecord, decode_records
from barbicel.codecs.kfs import KFS_FOOTER_BYTES, KFS_HEADER_BYTES
from barbicel.codecs.manifest_snapshot import Progress
from barbicel.errors import CorruptLog, CorruptObject, LogBehindStore, OffsetOutOfRange, StoreError
from barbicel.tier import offload, packing, tiered_partition, transitions
from barbicel.tier.local_log import LocalSegment
from barbicel.tier.manifest_log.inspect import InspectedRecord, inspect
from barbicel.tier.pace import Foreground
from barbicel.tier.retention import Limits
from barbicel.tier.tiered_partition import Policy, TieredPartition
from barbicel.tier.warm import list_warm
from tests.tier.partitions import (
    BUCKET,
    DIRECTORY,
    KEYS,
    STREAM,
    TOPIC_DIR,
    Crash,
    How,
    Kind,
    PlainLog,
    Rig,
)
from tests.tier.segments import batch, batches_of, read_all

COPY = Policy(is_copied=True)
EVICT = Policy(is_copied=True, on_disk=Limits(max_bytes=0))
# Three sealed segments of 100 offsets, and an open one.
ENDS = [100, 200, 300, 350]


def make_log() -> PlainLog:
    return PlainLog(
        [
            batches_of(10, first_offset=0),
            batches_of(10, first_offset=100),
            batches_of(10, first_offset=200),
            batches_of(5, first_offset=300),
        ]
    )


@pytest.fixture(params=[BUCKET, DIRECTORY], ids=["bucket", "directory"])
def kind(request: pytest.FixtureRequest) -> Kind:
    chosen: Kind = request.param
    return chosen


@pytest.fixture
def rig(tmp_path: Path, kind: Kind) -> Rig:
    return Rig(tmp_path, make_log(), kind=kind)


def everything() -> list[bytes]:
    return [one for segment in make_log().segments for one in segment]


def header_of(data: bytes) -> BatchHeader:
    return decode_header(memoryview(data))


def read_from(partition: TieredPartition, offset: int, end_offset: int = 350) -> list[bytes]:
    """As a consumer does, until the log has the rest."""
    found: list[bytes] = []
    while offset < min(end_offset, partition.log.start_offset):
        views = read_all(partition.read(offset, end_offset, 1000, at_least_one=True))
        assert views
        found += views
        header = header_of(views[-1])
        offset = header.base_offset + header.last_offset_delta + 1
    return found


def records_in(rig: Rig) -> list[str]:
    found = inspect(rig.directory, stream_id=STREAM, disk=rig.disk)
    return [type(one.said).__name__ for one in found if isinstance(one, InspectedRecord)]


def segment_keys(*bases: int) -> list[str]:
    keys = KEYS.topic(TOPIC_DIR)
    return sorted([keys.segment(0, base) for base in bases] + [keys.index(0, base) for base in bases])


def objects_of(rig: Rig) -> list[str]:
    return sorted([*rig.store.keys(".kfs"), *rig.store.keys(".index")])


# --- what is told of the store ------------------------------------------------------------------------------


def test_after_a_start_it_is_told_once_what_the_store_has_and_has_not(rig: Rig) -> None:
    partition = rig.open()
    rig.settle(partition, EVICT)
    assert partition.take_findings() == []
    partition.close()
    keys = KEYS.topic(TOPIC_DIR)
    rig.store.inner.delete(keys.segment(0, 100))
    rig.store.inner.put_new(keys.segment(0, 999), [b"nobody's"])
    again = rig.open()
    rig.settle(again, EVICT)
    assert again.take_findings() == [
        f"1 segments in the store need repair, the first is {keys.segment(0, 100)}: object missing",
        f"1 objects are left that no record speaks of, the first is {keys.segment(0, 999)}",
    ]
    rig.settle(again, EVICT)
    assert again.take_findings() == []
    assert keys.segment(0, 999) in objects_of(rig)


# --- copying ----------------------------------------------------------------------------------------------


def test_sealed_segments_are_uploaded_and_the_open_one_is_not(rig: Rig) -> None:
    partition = rig.open()
    assert (partition.start_offset, partition.end_offset) == (0, None)
    assert partition.work(COPY, has_store=True) == []
    assert objects_of(rig) == segment_keys(0, 100, 200)
    assert (partition.start_offset, partition.end_offset, partition.pending) == (0, 300, [])
    assert records_in(rig)[:5] == [
        "SegmentOpened",
        "SealSegment",
        "UploadStarted",
        "SegmentDescribed",
        "UploadDone",
    ]
    # Nothing was asked to leave the disk.
    assert rig.log.start_offset == 0


def test_a_second_pass_uploads_nothing_again(rig: Rig) -> None:
    partition = rig.open()
    partition.work(COPY, has_store=True)
    before = records_in(rig)
    rig.store.calls.clear()
    assert partition.work(COPY, has_store=True) == []
    assert not [call for call in rig.store.calls if ".kfs" in call or ".index" in call]
    assert records_in(rig) == before


def test_a_partition_at_rest_asks_the_store_for_nothing(rig: Rig) -> None:
    """There may be thousands of them, in every pass."""
    partition = rig.open()
    rig.settle(partition, COPY)
    rig.store.calls.clear()
    rig.settle(partition, COPY)
    assert rig.store.calls == []


def test_an_upload_of_the_manifest_that_failed_half_way_is_looked_through_later(rig: Rig) -> None:
    partition = rig.open()
    rig.settle(partition, COPY)
    partition.stream.append(transitions.hydrating(0))
    partition.stream.seal()
    rig.store.calls.clear()
    rig.store.strike_at, rig.store.how = 0, How.IS_LOST
    assert len(partition.work(COPY, has_store=True)) == 1
    assert partition.work(COPY, has_store=True) == []
    assert [call for call in rig.store.calls if call.startswith("list ")] != []


class BusyReactor(Foreground):
    """It notes for how long whoever asks would wait, and lets nobody wait."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self.over: list[bool] = []
        self.then: Callable[[], None] = lambda: None

    def give_way(self, seconds: float, is_over: Callable[[], bool], pause: Callable[[float], None]) -> None:
        self.seconds.append(seconds)
        self.over.append(is_over())
        self.then()


def test_uploads_give_way_to_clients_by_their_size_unless_too_much_waits(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    reactor = rig.foreground = BusyReactor()
    partition = rig.open()
    sizes = [segment.size_bytes for segment in partition.pending]
    assert len(sizes) > 1
    monkeypatch.setattr(tiered_partition, "PATIENT_SEGMENTS", len(sizes) - 1)
    assert partition.work(COPY, has_store=True) == []
    assert reactor.seconds == [size / tiered_partition.PATIENT_BYTES_A_SECOND for size in sizes[1:]]
    assert partition.pending == []


def test_uploads_that_somebody_waits_for_give_way_to_nobody(rig: Rig) -> None:
    reactor = rig.foreground = BusyReactor()
    partition = rig.open()

    def ask_for_it() -> None:
        rig.is_hurried = True

    reactor.then = ask_for_it
    assert partition.work(COPY, has_store=True) == []
    assert reactor.over == [False, True, True]


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments are too large to be put at once, and go in many pieces."""
    monkeypatch.setattr(offload, "PUT_AT_ONCE_BYTES", 100)
    monkeypatch.setattr(packing, "PIECE_BYTES", 100)
    monkeypatch.setattr(packing.grouped, "__defaults__", (1, 100))


@pytest.mark.usefixtures("large")
def test_a_large_segment_gives_way_piece_by_piece(rig: Rig) -> None:
    reactor = rig.foreground = BusyReactor()
    partition = rig.open()
    sizes = [segment.size_bytes for segment in partition.pending]
    assert partition.work(COPY, has_store=True) == []
    sent = [seconds * tiered_partition.PATIENT_BYTES_A_SECOND for seconds in reactor.seconds]
    ends = KFS_HEADER_BYTES + KFS_FOOTER_BYTES if rig.store.knows_md5 else KFS_FOOTER_BYTES
    assert sum(sent) == pytest.approx(sum(sizes) + len(sizes) * ends)
    assert max(sent) < min(sizes) / 2
    partition.work(EVICT, has_store=True)
    assert read_from(partition, 0) == everything()[:30]


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("at_piece", [0, 5])
def test_a_stop_in_the_middle_of_a_large_segment_cuts_it_off_and_the_next_start_uploads_it(
    tmp_path: Path, kind: Kind, codec: Codec, at_piece: int
) -> None:
    rig = Rig(tmp_path, make_log(), codec=codec, kind=kind)
    reactor = rig.foreground = BusyReactor()
    partition = rig.open()

    def stop_in_time() -> None:
        if len(reactor.seconds) > at_piece:
            partition.stop()

    reactor.then = stop_in_time
    assert partition.work(EVICT, has_store=True) == []
    assert len(reactor.seconds) == at_piece + 1
    partition.close()
    assert (objects_of(rig), partition.failed_uploads, rig.log.start_offset) == ([], 0, 0)
    assert {"UploadFailed", "CompressionFailed", "UploadDone"}.isdisjoint(records_in(rig))
    rig.foreground = None
    again = rig.open()
    rig.settle(again, EVICT)
    assert objects_of(rig) == segment_keys(0, 100, 200)
    assert [header_of(one).base_offset for one in read_from(again, 0)] == list(range(0, 300, 10))


def test_a_stop_does_not_wait_until_a_segment_is_compressed(tmp_path: Path) -> None:
    log = make_log()
    rig = Rig(tmp_path, log, codec=Codec.ZSTD)
    partition = rig.open()
    read_batches = log.batches

    def batches(segment: LocalSegment) -> Iterator[bytes]:
        entry = partition.stream.catalogue.segment(segment.base_offset)
        for number, found in enumerate(read_batches(segment)):
            if entry is not None and entry.compression is Progress.STARTED and number == 5:
                partition.stop()
            yield found

    log.batches = batches  # type: ignore[method-assign]
    assert partition.work(COPY, has_store=True) == []
    partition.close()
    assert records_in(rig) == ["SegmentOpened", "SealSegment", "CompressionStarted"]
    assert not list_warm(rig.disk, rig.directory)


def test_without_a_store_nothing_is_copied_and_nothing_leaves_the_disk(rig: Rig) -> None:
    partition = rig.open()
    assert partition.work(EVICT, has_store=False) == []
    assert (objects_of(rig), rig.log.start_offset, len(partition.pending)) == ([], 0, 3)


def test_a_topic_that_is_not_copied_any_more_can_still_be_read(rig: Rig) -> None:
    partition = rig.open()
    partition.work(EVICT, has_store=True)
    rig.log.segments[-1:] = [batches_of(5, first_offset=300), batches_of(1, first_offset=350)]
    partition.work(Policy(is_copied=False), has_store=True)
    assert objects_of(rig) == segment_keys(0, 100, 200)
    assert read_from(partition, 0) == everything()[:30]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_plain_batches_are_compressed_on_the_way_and_hold_the_same_records(
    tmp_path: Path, codec: Codec, kind: Kind
) -> None:
    plain = [_compressible(base) for base in range(0, 100, 10)]
    rig = Rig(tmp_path, PlainLog([plain, [batch(100)]]), codec=codec, kind=kind)
    partition = rig.open()
    assert partition.work(EVICT, has_store=True) == []
    assert {"CompressionStarted", "CompressionDone"} <= set(records_in(rig))
    assert list_warm(rig.disk, rig.directory) == {}
    stored = read_from(partition, 0, 100)
    assert {header_of(one).attributes & 7 for one in stored} == {codec}
    assert sum(map(len, stored)) < sum(map(len, plain)) / 2
    assert list(map(_records, stored)) == list(map(_records, plain))


def _records(data: bytes) -> list[KafkaRecord]:
    return list(decode_records(memoryview(data), max_bytes=1 << 20))


def _compressible(base_offset: int) -> bytes:
    records = [NewRecord(1000 + number, b"key", b"value " * 40) for number in range(10)]
    return build_batch(records, base_offset=base_offset, leader_epoch=0, codec=Codec.NONE)


def test_batches_that_are_compressed_already_need_no_warm_artifact(tmp_path: Path, kind: Kind) -> None:
    compressed = [batch(base, 10, codec=Codec.LZ4) for base in range(0, 50, 10)]
    rig = Rig(tmp_path, PlainLog([compressed, [batch(50)]]), codec=Codec.ZSTD, kind=kind)
    partition = rig.open()
    partition.work(EVICT, has_store=True)
    assert "CompressionStarted" not in records_in(rig)
    assert read_from(partition, 0, 50) == compressed


# --- leaving the disk -------------------------------------------------------------------------------------


def test_what_left_the_disk_is_read_from_the_store_and_is_the_same(rig: Rig) -> None:
    partition = rig.open()
    partition.work(EVICT, has_store=True)
    assert (rig.log.start_offset, partition.start_offset) == (300, 0)
    for offset in (0, 5, 99, 100, 155, 299):
        first = offset // 10
        assert read_from(partition, offset) == everything()[first:30]
    assert records_in(rig).count("LocalEvicted") == 3


def test_a_segment_leaves_the_disk_only_if_the_store_has_it(rig: Rig) -> None:
    partition = rig.open()
    rig.store.refuses = lambda operation, key: operation.startswith("put") and "100.kfs" in key
    for _ in range(3):
        rig.now_ms += 10_000
        problems = partition.work(EVICT, has_store=True)
        assert [type(problem) for problem in problems] == [StoreError]
    # The first is there; the second failed, and the third is behind it.
    assert (rig.log.start_offset, objects_of(rig)) == (100, segment_keys(0))
    rig.store.refuses = lambda operation, key: False
    rig.settle(partition, EVICT)
    assert (rig.log.start_offset, objects_of(rig)) == (300, segment_keys(0, 100, 200))


def test_local_retention_keeps_what_it_says(rig: Rig) -> None:
    partition = rig.open()
    sizes = [segment.size_bytes for segment in rig.log.sealed()]
    keeping = Policy(is_copied=True, on_disk=Limits(max_bytes=sizes[2] + rig.log.active_bytes))
    partition.work(keeping, has_store=True)
    assert rig.log.start_offset == 200


def test_a_failed_upload_is_recorded_and_tried_again_later_and_later(rig: Rig) -> None:
    partition = rig.open()
    rig.store.refuses = lambda operation, key: operation.startswith("put") and ".kfs" in key
    tries: list[int] = []
    for _ in range(40):
        before = len(rig.store.calls)
        partition.work(COPY, has_store=True)
        if any(call.startswith("put") and ".kfs" in call for call in rig.store.calls[before:]):
            tries.append(rig.now_ms)
        rig.now_ms += 50
    waits = [after - before for before, after in pairwise(tries)]
    assert waits == [100, 200, 400, 800]
    assert partition.failed_uploads == 5
    failures = [
        one.said.reason_code
        for one in inspect(rig.directory, stream_id=STREAM, disk=rig.disk)
        if isinstance(one, InspectedRecord) and isinstance(one.said, UploadFailed)
    ]
    assert failures == [1] * 5


def test_a_segment_that_begins_below_the_start_waits_for_its_upload_as_any_other(rig: Rig) -> None:
    """Its try failed, perhaps before the manifest knew where it ends."""
    partition = rig.open()
    partition.drop_before(50)
    rig.store.refuses = lambda operation, key: operation.startswith("put") and ".kfs" in key
    rig.settle(partition, EVICT)
    assert "UploadFailed" in records_in(rig)
    assert "Tier2DeleteQueued" not in records_in(rig)
    assert partition.stream.catalogue.segments[0].upload is Progress.FAILED
    rig.store.refuses = lambda operation, key: False
    rig.settle(partition, EVICT)
    assert objects_of(rig) == segment_keys(0, 100, 200)
    assert records_in(rig).count("UploadDone") == 3
    assert read_from(partition, 50) == everything()[5:30]


def test_what_a_failed_upload_may_have_left_goes_with_its_segment(rig: Rig) -> None:
    partition = rig.open()
    rig.store.refuses = lambda operation, key: operation == "get" or "200" in key
    rig.store.knows_md5 = False
    rig.settle(partition, EVICT)
    assert "UploadFailed" in records_in(rig)
    partition.drop_before(300)
    rig.store.refuses = lambda operation, key: False
    rig.settle(partition, EVICT)
    assert objects_of(rig) == []


def test_what_does_not_go_where_all_else_is_does_not_count(rig: Rig) -> None:
    """A store that is not mounted any more takes everything."""
    is_away = [True]

    def check() -> None:
        if is_away[0]:
            raise StoreError("not mounted", is_passing=True)

    rig.check_store = check
    partition = rig.open()
    rig.settle(partition, EVICT)
    assert (rig.log.start_offset, partition.end_offset) == (0, None)
    assert "UploadDone" not in records_in(rig)
    is_away[0] = False
    rig.settle(partition, EVICT)
    assert (rig.log.start_offset, partition.end_offset) == (300, 300)


def test_a_damaged_segment_is_not_uploaded_and_stays(rig: Rig) -> None:
    partition = rig.open()
    rig.log.damaged = {100}
    problems = partition.work(EVICT, has_store=True)
    assert [type(problem) for problem in problems] == [CorruptLog]
    assert (rig.log.start_offset, objects_of(rig)) == (100, segment_keys(0))


def test_a_segment_of_which_a_repair_left_nothing_keeps_nobody_waiting(rig: Rig) -> None:
    partition = rig.open()
    rig.log.lost = {100}
    assert partition.work(EVICT, has_store=True) == []
    assert (rig.log.start_offset, objects_of(rig)) == (300, segment_keys(0, 200))
    assert read_from(partition, 0) == everything()[:10] + everything()[20:30]
    assert read_from(partition, 150) == everything()[20:30]


def test_an_object_that_is_not_what_was_sent_is_not_believed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = rig.open()
    monkeypatch.setattr(rig.store, "proves", lambda info, md5_hex: False)
    true_get = rig.store.inner.get

    def lying_get(key: str, start: int = 0, length: int | None = None) -> bytes:
        data = true_get(key, start, length)
        return bytes([data[0] ^ 1]) + data[1:] if key.endswith(".kfs") else data

    monkeypatch.setattr(rig.store.inner, "get", lying_get)
    problems = partition.work(EVICT, has_store=True)
    assert "does not match" in str(problems[0])
    assert (rig.log.start_offset, partition.end_offset) == (0, None)


def test_a_segment_that_vanished_from_the_store_is_uploaded_again_while_the_disk_has_it(rig: Rig) -> None:
    partition = rig.open()
    partition.work(COPY, has_store=True)
    partition.close()
    rig.store.inner.delete(KEYS.topic(TOPIC_DIR).segment(0, 100))
    again = rig.open()
    rig.settle(again, EVICT)
    assert objects_of(rig) == segment_keys(0, 100, 200)
    assert rig.log.start_offset == 300
    assert read_from(again, 0) == everything()[:30]


def test_a_segment_that_vanished_and_is_nowhere_else_is_an_error_and_the_rest_can_be_read(rig: Rig) -> None:
    partition = rig.open()
    partition.work(EVICT, has_store=True)
    partition.close()
    rig.store.inner.delete(KEYS.topic(TOPIC_DIR).segment(0, 100))
    again = rig.open()
    again.work(EVICT, has_store=True)
    assert [entry.segment_id for entry in again.stream.catalogue.needing_repair] == [100]
    with pytest.raises(StoreError, match="segment-00000000000000000100"):
        again.read(150, 350, 1000, at_least_one=True)
    assert read_from(again, 200) == everything()[20:30]


def test_a_damaged_object_is_an_error_with_its_offsets(rig: Rig) -> None:
    partition = rig.open()
    partition.work(EVICT, has_store=True)
    key = KEYS.topic(TOPIC_DIR).segment(0, 100)
    data = bytearray(rig.store.inner.get(key))
    data[len(data) // 2] ^= 1
    path = next(Path(rig.directory).parent.rglob("segment-00000000000000000100.kfs"))
    path.write_bytes(data)
    with pytest.raises(CorruptObject, match="segment-00000000000000000100"):
        read_from(partition, 100, 200)
    assert read_from(partition, 200) == everything()[20:30]


# --- going for good ---------------------------------------------------------------------------------------


def test_the_topics_retention_takes_segments_from_the_store_too(rig: Rig) -> None:
    partition = rig.open()
    partition.work(EVICT, has_store=True)
    held = [entry.durable_bytes for entry in partition.tiered]
    limits = Limits(max_bytes=held[2] + rig.log.active_bytes)
    rig.settle(partition, EVICT._replace(of_all=limits))
    assert (partition.start_offset, objects_of(rig)) == (200, segment_keys(200))
    with pytest.raises(OffsetOutOfRange):
        partition.read(199, 350, 1000, at_least_one=True)
    assert partition.stream.catalogue.pending_deletes == []


def test_what_is_too_old_goes_without_being_uploaded(rig: Rig) -> None:
    partition = rig.open()
    rig.now_ms += 10**12
    partition.work(COPY._replace(of_all=Limits(max_age_ms=1000)), has_store=True)
    assert (objects_of(rig), rig.log.start_offset, partition.start_offset) == ([], 300, 300)


def test_records_are_deleted_up_to_an_offset_inside_of_a_segment(rig: Rig) -> None:
    partition = rig.open()
    partition.work(EVICT, has_store=True)
    partition.drop_before(155)
    assert partition.start_offset == 155
    rig.settle(partition, EVICT)
    assert objects_of(rig) == segment_keys(100, 200)
    partition.close()
    again = rig.open()
    assert again.start_offset == 155
    assert read_from(again, 155) == everything()[15:30]


def test_everything_can_be_deleted(rig: Rig) -> None:
    partition = rig.open()
    partition.work(EVICT, has_store=True)
    partition.drop_before(350)
    rig.log.drop_before(350)
    rig.settle(partition, EVICT)
    assert (partition.start_offset, objects_of(rig)) == (350, [])
    partition.close()
    assert rig.open().start_offset == 350


# --- by time ----------------------------------------------------------------------------------------------


def test_batches_are_found_by_time_in_the_store(rig: Rig) -> None:
    partition = rig.open()
    partition.work(EVICT, has_store=True)
    times = [header_of(one).max_timestamp for one in everything()]
    for number in (0, 9, 10, 25):
        found = next(iter(partition.from_time(times[number], 300)))
        assert (found.offset, bytes(found.payload)) == (number * 10, everything()[number])
    assert list(partition.from_time(times[29] + 1, 300)) == []
    assert partition.max_timestamp_ms(300) == times[29]
    assert partition.max_timestamp_ms(150) == times[19]
    assert partition.max_timestamp_ms(0) == -1


# --- a log that is not what it was ------------------------------------------------------------------------


def test_a_log_that_ends_before_the_store_is_refused(rig: Rig) -> None:
    partition = rig.open()
    partition.work(COPY, has_store=True)
    partition.close()
    rig.log.segments = rig.log.segments[:2]
    with pytest.raises(LogBehindStore, match="ends at offset 200.*up to 300"):
        rig.open()


# --- whatever goes wrong, wherever ------------------------------------------------------------------------


def live(rig: Rig, partition: TieredPartition) -> None:
    """Copy, leave the disk, delete the first segment and a half."""
    rig.settle(partition, EVICT, passes=2)
    partition.drop_before(150)
    rig.settle(partition, EVICT, passes=2)


def count_calls(path: Path, codec: Codec, kind: Kind) -> int:
    rig = Rig(path, make_log(), codec=codec, kind=kind)
    live(rig, rig.open())
    return len(rig.store.calls)


@pytest.mark.parametrize(
    ("codec", "kind"),
    [
        (Codec.NONE, BUCKET),
        (Codec.ZSTD, Kind(knows_md5=False, streams_headed=False)),
        (Codec.NONE, DIRECTORY),
        (Codec.ZSTD, DIRECTORY),
    ],
)
@pytest.mark.parametrize("how", How)
def test_any_call_to_the_store_may_go_wrong_and_nothing_is_lost_or_left(
    tmp_path: Path, how: How, codec: Codec, kind: Kind
) -> None:
    total = count_calls(tmp_path / "count", codec, kind)
    assert total >= 20
    for number in range(total):
        rig = Rig(tmp_path / f"{number}", make_log(), codec=codec, kind=kind)
        rig.store.strike_at, rig.store.how = number, how
        partition = rig.open()
        try:
            live(rig, partition)
        except Crash:
            partition = rig.open()
        rig.settle(partition, EVICT)
        partition.drop_before(150)
        rig.settle(partition, EVICT)
        assert objects_of(rig) == segment_keys(100, 200), f"call {number}"
        assert (partition.start_offset, rig.log.start_offset) == (150, 300)
        offsets = [header_of(one).base_offset for one in read_from(partition, 150)]
        assert offsets == list(range(150, 300, 10)), f"call {number}"
        assert list_warm(rig.disk, rig.directory) == {}
        partition.close()
