"""Segments in an object store: alone, and as the older part of a partition whose rest is on the disk."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from barbicel.clock import wall_clock_ms
from barbicel.codecs.kafka.compression import Codec
from barbicel.codecs.kafka.new_batch import ControlType, build_control_batch
from barbicel.disk import RealDisk
from barbicel.errors import BarbicelError, CorruptFile, NotALog, OffsetOutOfRange, OffsetsLost, StoreError
from barbicel.gateway.broker.tiering.keratin_log import KeratinLog
from barbicel.keratin import Log
from barbicel.pipeline.source.options import BadOption
from barbicel.pipeline.source.splits import LogSplit, ObjectSplit
from barbicel.tier.cold_reader import ColdReader
from barbicel.tier.keys import Keys
from barbicel.tier.manifest_log.stream import ManifestStream
from barbicel.tier.retention import Limits
from barbicel.tier.stores import open_store
from barbicel.tier.tiered_partition import Policy, Tier, TieredPartition
from tests.pipeline.source.stored import (
    SMALL_SEGMENTS,
    T,
    append,
    batch,
    make_topic,
    offsets_of,
    read,
    reader,
    records,
    rows_of,
)
from tests.pipeline.source.test_streaming import ALL, stream
from tests.pipeline.source.test_streaming import rows as stream_rows
from tests.support.object_store_server import ObjectStoreServer
from tests.tier.conftest import s3_server

__all__ = ["s3_server"]

COPY = Policy(is_copied=True)
COPY_AND_EVICT = Policy(is_copied=True, on_disk=Limits(max_bytes=1))


class Partition:
    """A partition of a server that has a tier, without the server."""

    def __init__(self, data: Path, directory: Path, store: str, options: Mapping[str, str]) -> None:
        disk, keys = RealDisk(), Keys("cluster")
        self._store = open_store(store, disk=disk, options=options)
        self._reader = ColdReader(self._store)
        tier = Tier(self._store, keys, self._reader, disk, wall_clock_ms, Codec.LZ4, 1, 1)
        stream_id = f"{directory.parent.name}-{directory.name}"
        manifest = data / "tier" / stream_id
        manifest.mkdir(parents=True)
        self.log = Log.open(str(directory), settings=SMALL_SEGMENTS)
        opened = ManifestStream.open(str(manifest), stream_id=stream_id, disk=disk, clock=wall_clock_ms)
        self._tiered = TieredPartition(
            tier, opened, str(manifest), directory.parent.name, int(directory.name)
        )
        self._tiered.attach(KeratinLog(self.log))

    def work(self, policy: Policy) -> None:
        problems = self._tiered.work(policy, has_store=True)
        assert not problems

    def drop_before(self, offset: int) -> None:
        self._tiered.drop_before(offset)

    def close(self) -> None:
        self._tiered.close()
        self._reader.close()
        self._store.close()
        self.log.close()


@contextmanager
def partition(
    data: Path, store: str | None = None, options: Mapping[str, str] | None = None
) -> Iterator[Partition]:
    directory, embedded = make_topic(data, "orders")[0], data / "object-store"
    embedded.mkdir()
    found = Partition(data, directory, store or str(embedded), options or {})
    try:
        yield found
    finally:
        found.close()


def fill(log: Log, count: int, first: int = 0, codec: Codec = Codec.NONE) -> None:
    for number in range(first, first + count, 5):
        append(log, batch(records(5, number), codec))


def objects(data: Path) -> list[Path]:
    return sorted(data.glob("object-store/cluster/*/0/*.kfs"))


def test_what_is_in_the_store_and_what_is_on_the_disk_read_as_one(tmp_path: Path) -> None:
    with partition(tmp_path) as orders:
        fill(orders.log, 300)
        expected = read(tmp_path, topic="orders")
        orders.work(COPY)
        assert read(tmp_path, topic="orders") == expected
        orders.work(COPY_AND_EVICT)
        assert orders.log.start_offset > 200
        source = reader(tmp_path, topic="orders")
        kinds = [type(split) for split in source.partitions()]
        assert kinds == sorted(kinds, key=lambda kind: kind is LogSplit)
        assert {ObjectSplit, LogSplit} == set(kinds)
        assert rows_of(source, source.partitions()) == expected
        fill(orders.log, 50, 300)
        assert offsets_of(read(tmp_path, topic="orders", splitBytes="300")) == list(range(350))
    assert offsets_of(read(tmp_path, topic="orders")) == list(range(350))


@pytest.mark.parametrize("late", [0, 17, 100, 249, 299])
def test_times_and_offsets_across_the_two(tmp_path: Path, late: int) -> None:
    with partition(tmp_path) as orders:
        fill(orders.log, 300)
        orders.work(COPY_AND_EVICT)
    assert offsets_of(read(tmp_path, topic="orders", startingTimestamp=str(T + late))) == list(
        range(late, 300)
    )
    ends = {"startingOffsets": f'{{"orders": {{"0": {late}}}}}', "endingTimestamp": str(T + 280)}
    assert offsets_of(read(tmp_path, topic="orders", **ends)) == list(range(late, 280))


def test_what_was_given_up_in_the_store_is_not_read(tmp_path: Path) -> None:
    with partition(tmp_path) as orders:
        fill(orders.log, 300)
        orders.work(COPY_AND_EVICT)
        orders.drop_before(123)
        assert offsets_of(read(tmp_path, topic="orders")) == list(range(123, 300))
        with pytest.raises(OffsetOutOfRange):
            read(tmp_path, topic="orders", startingOffsets='{"orders": {"0": 5}}')
        source = reader(tmp_path, topic="orders")
        splits = source.partitions()
        orders.drop_before(200)
        orders.work(COPY)
        with pytest.raises(OffsetOutOfRange, match="deleted while the query ran"):
            rows_of(source, splits)


def test_a_segment_that_goes_to_the_store_while_the_query_runs(tmp_path: Path) -> None:
    with partition(tmp_path) as orders:
        fill(orders.log, 300)
        source = reader(tmp_path, topic="orders")
        splits = source.partitions()
        assert {type(split) for split in splits} == {LogSplit}
        orders.work(COPY_AND_EVICT)
        assert orders.log.start_offset > 200
        assert offsets_of(rows_of(source, splits)) == list(range(300))


def test_a_stream_across_the_two(tmp_path: Path) -> None:
    with partition(tmp_path) as orders:
        fill(orders.log, 200)
        source = stream(tmp_path, subscribe="orders")
        start = source.initialOffset()
        middle = source.latestOffset(start, ALL)
        orders.work(COPY_AND_EVICT)
        fill(orders.log, 100, 200)
        end = source.latestOffset(middle, ALL)
        first, second = stream_rows(source, start, middle), stream_rows(source, middle, end)
        assert [offset for _, _, offset in first + second] == list(range(300))


# --- objects alone -------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with partition(tmp_path) as orders:
        for codec, first in zip(Codec, range(0, 500, 100), strict=True):
            fill(orders.log, 100, first, codec)
        orders.log.roll()
        orders.work(COPY)
    return tmp_path


def test_one_object(store: Path) -> None:
    for path in objects(store)[:3]:
        rows = read(path)
        first = int(path.stem.removeprefix("segment-"))
        assert offsets_of(rows) == list(range(first, first + len(rows)))
        assert {(row["topic"], row["partition"]) for row in rows} == {("orders", 0)}
        assert read(f"file://{path}") == rows


def test_all_objects_of_a_prefix(store: Path) -> None:
    expected = read(store, topic="orders")
    assert len(expected) == 500
    assert read(store / "object-store" / "cluster") == expected
    assert read(store / "object-store" / "cluster", subscribe="orders", splitBytes="400") == expected
    assert offsets_of(read(store / "object-store", startingTimestamp=str(T + 333))) == list(range(333, 500))
    with pytest.raises(BarbicelError, match="no topic 'absent'.*there are orders"):
        read(store / "object-store", subscribe="absent")


def test_an_object_without_a_name_for_its_topic(
    store: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    alone = tmp_path_factory.mktemp("alone") / "segment-00000000000000000000.kfs"
    alone.write_bytes(objects(store)[0].read_bytes())
    with pytest.raises(BadOption, match="does not say its topic"):
        read(alone)
    rows = read(alone, topic="orders", partition="3")
    assert {(row["topic"], row["partition"]) for row in rows} == {("orders", 3)}


def test_a_missing_object_is_a_loss(store: Path) -> None:
    gone = objects(store)[1]
    first, end = int(gone.stem[8:]), int(objects(store)[2].stem[8:])
    gone.unlink()
    with pytest.raises(OffsetsLost, match=f"offsets {first} to {end - 1}.*failOnDataLoss=false"):
        read(store / "object-store")
    rows = read(store / "object-store", failOnDataLoss="false")
    assert offsets_of(rows) == [*range(first), *range(end, 500)]


def test_a_damaged_object(store: Path) -> None:
    path = objects(store)[1]
    data = bytearray(path.read_bytes())
    data[150] ^= 1
    path.write_bytes(data)
    with pytest.raises(BarbicelError, match="segment-0.*at byte 32") as found:
        read(store / "object-store")
    assert isinstance(found.value, CorruptFile)
    with pytest.raises(BarbicelError, match="segment-0"):
        read(path, startingOffsets=f'{{"orders": {{"0": {int(path.stem[8:]) + 1}}}}}')


@pytest.mark.parametrize("number", [0, 1, -1])
@pytest.mark.parametrize("position", [10, 34, 150])
def test_damage_of_an_object_is_never_taken_for_a_loss(store: Path, number: int, position: int) -> None:
    """In its header, which no sum covers; in the offset of a batch, which the batch's own does not; in a
    record. Those who accept a loss are not silently given less for it."""
    path = objects(store)[number]
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)
    for options in ({}, {"failOnDataLoss": "false"}):
        with pytest.raises(BarbicelError, match=path.name):
            read(store / "object-store", **options)


def test_transactions_in_objects(tmp_path: Path) -> None:
    with partition(tmp_path) as orders:
        for producer, first in ((1, 0), (2, 2)):
            append(
                orders.log,
                batch(
                    records(2, first),
                    producer_id=producer,
                    producer_epoch=0,
                    base_sequence=0,
                    is_transactional=True,
                ),
            )
        fill(orders.log, 200, 4)
        for kind, producer in ((ControlType.ABORT, 1), (ControlType.COMMIT, 2)):
            append(
                orders.log,
                build_control_batch(
                    kind, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp_ms=T
                ),
            )
        orders.log.roll()
        orders.work(COPY_AND_EVICT)
    for path in (tmp_path, tmp_path / "object-store"):
        assert offsets_of(read(path, topic="orders")) == list(range(2, 204))


def test_objects_and_tiered_partitions_in_s3(tmp_path: Path, s3_server: ObjectStoreServer) -> None:
    given = {f"store.{name}": value for name, value in s3_server.options.items()}
    with partition(tmp_path, store="s3://bucket/source", options=s3_server.options) as orders:
        fill(orders.log, 300, codec=Codec.ZSTD)
        orders.work(COPY_AND_EVICT)
    everything = list(range(300))
    assert offsets_of(read(tmp_path, topic="orders", store="s3://bucket/source", **given)) == everything
    tiered = offsets_of(read("s3://bucket/source", splitBytes="300", **given))
    assert tiered == everything[: len(tiered)]
    assert len(tiered) > 200
    with pytest.raises(StoreError):
        read("s3://no-such-bucket/source", **given)


def test_a_store_that_is_not_where_it_was_said(tmp_path: Path) -> None:
    with partition(tmp_path) as orders:
        fill(orders.log, 300)
        orders.work(COPY_AND_EVICT)
    (tmp_path / "object-store").rename(tmp_path / "elsewhere")
    with pytest.raises(BarbicelError, match="object-store.*no such directory"):
        read(tmp_path, topic="orders")
    rows = read(tmp_path, topic="orders", store=str(tmp_path / "elsewhere"))
    assert offsets_of(rows) == list(range(300))


def test_splits_and_readers_travel_to_executors(store: Path) -> None:
    for path in (store, store / "object-store"):
        source = reader(path, topic="orders", splitBytes="500")
        there = pickle.loads(pickle.dumps(source))
        splits = pickle.loads(pickle.dumps(source.partitions()))
        assert rows_of(there, splits) == read(path, topic="orders")
        # However many segments there are, a split knows its own.
        assert max(len(pickle.dumps(split)) for split in splits) < 2000


def test_no_objects(tmp_path: Path) -> None:
    with pytest.raises(NotALog, match="neither a log nor a .kfs object"):
        read(tmp_path)
    with pytest.raises(BarbicelError, match="absent.kfs"):
        read(tmp_path / "absent.kfs", topic="t")
