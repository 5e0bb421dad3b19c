"""What is missing is told exactly, and what is replayed is what was stored."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barbicel.disk import RealDisk
from barbicel.keratin import Log, LogSettings
from barbicel.keratin.layout import Layout
from barbicel.keratin.recovery import plan_recovery
from barbicel.keratin.repair import apply_plan
from barbicel.pipeline.jobs import surveys
from barbicel.pipeline.jobs.stores import parse_store
from barbicel.pipeline.jobs.surveys import spans_of
from barbicel.pipeline.jobs.verify import survey_store
from tests.cli.support import document, run, words
from tests.pipeline.source.stored import append, batch, make_topic, records
from tests.pipeline.source.test_tiered import COPY_AND_EVICT, fill, objects, partition
from tests.pipeline.topics import (
    FIRST_MS,
    Sent,
    create_topic,
    every_codec,
    kafka,
    put_items,
    rows,
    send,
    trim,
)
from tests.support.gateway import Gateway, running_gateway

TOPIC = "kept.all"


def numbered(count: int, partitions: int = 1) -> list[Sent]:
    values = [b"%d " % number * 1000 for number in range(count)]
    return [Sent(number % partitions, b"k", value, FIRST_MS + number) for number, value in enumerate(values)]


@pytest.fixture(scope="module")
def stored(gateway: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a gateway has written: every codec, a queue, and a topic of many segments."""
    every_codec(gateway, TOPIC, each=10)
    put_items(gateway, "keptqueue", [b"item %d" % number for number in range(30)])
    create_topic(gateway, "kept.long", 1, segment_bytes=str(1 << 20))
    for first in range(0, 1000, 50):
        send(gateway, "kept.long", numbered(1000)[first : first + 50])
    # A gateway that has stopped: nothing of it is only in memory.
    gateway.stop()
    gateway.start()
    return gateway.data


@pytest.fixture
def copy(stored: Path, tmp_path: Path) -> Path:
    shutil.copytree(stored, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Gateway]:
    (tmp_path / "other").mkdir()
    with running_gateway(tmp_path / "other") as gateway:
        yield gateway


def segments(data: Path, topic: str) -> list[Path]:
    return sorted(data.glob(f"topics/{topic}-*/0/segments/*.log"))


def test_a_gateway_and_its_files_have_the_same(spark: SparkSession, gateway: Gateway, stored: Path) -> None:
    result = run(
        "pipeline", "verify", gateway.bootstrap, "--pattern", "kept.*", "--against", stored, "--json"
    )
    assert result.exit_code == 0, result.output + result.stderr
    found = document(result)
    assert found["differences"] == []
    by_gateway, by_files = (one["partitions"] for one in found["stores"])
    assert by_gateway == by_files
    counts = {(one["topic"], one["partition"]): one["records"] for one in by_files}
    assert counts == {
        (TOPIC, 0): 50,
        (TOPIC, 1): 50,
        (TOPIC, 2): 50,
        ("keptqueue", 0): 30,
        ("kept.long", 0): 1000,
    }


def test_what_is_gone_and_what_is_damaged_is_told_exactly(spark: SparkSession, copy: Path) -> None:
    """A segment is missing, another has a bit that is wrong; all else is looked at."""
    _, gone, following, damaged, *_ = files = segments(copy, "kept.long")
    for path in gone.parent.glob(f"{gone.stem}.*"):
        path.unlink()
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    result = run("pipeline", "verify", copy, "--pattern", "kept.*", "--json")
    assert result.exit_code == 3
    (store,) = document(result)["stores"]
    missing, corrupt = store["problems"]
    first, end = int(gone.stem), int(following.stem)
    assert missing.startswith(f"kept.long-0: in offsets {first} to {end - 1}: {gone}: open failed")
    (survey,) = (one for one in store["partitions"] if one["topic"] == "kept.long")
    _, hidden = survey["missing"]
    assert survey["missing"][0] == [first, end]
    # The batch that has it, and no other.
    assert hidden[0] >= int(damaged.stem)
    assert hidden[1] == hidden[0] + 50
    told = f"offsets {hidden[0]} to {hidden[1] - 1}"
    assert corrupt.startswith(f"kept.long-0: in {told}: {damaged}: at byte ")
    assert f"{told} cannot be read" in corrupt
    lost = sum(span[1] - span[0] for span in survey["missing"])
    assert survey["records"] + lost == (1000 if damaged != files[-1] else survey["end_offset"])
    assert {one["topic"] for one in store["partitions"]} == {TOPIC, "keptqueue", "kept.long"}


def test_a_batch_that_is_missing_in_the_middle_of_a_gateways_log_is_told(
    spark: SparkSession, stored: Path, tmp_path: Path
) -> None:
    """The connector passes over it without a word, whatever failOnDataLoss says."""
    shutil.copytree(stored, tmp_path / "data")
    damaged = segments(tmp_path / "data", "kept.long")[1]
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    disk, root = RealDisk(), str(damaged.parent.parent)
    apply_plan(disk, plan_recovery(disk, Layout(root), None, deep=True), FIRST_MS, accept_loss=True)
    with running_gateway(tmp_path, log_retention_ms="-1") as gateway:
        assert kafka(spark, gateway, subscribe="kept.long", failOnDataLoss="true").count() == 950
        result = run("pipeline", "verify", gateway.bootstrap, "--topic", "kept.long", "--json")
    assert result.exit_code == 3
    (survey,) = document(result)["stores"][0]["partitions"]
    ((first, end),) = survey["missing"]
    assert (survey["records"], end - first, first % 50) == (950, 50, 0)
    assert int(damaged.stem) <= first


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """Three segments, each with an index of some forty entries."""
    (directory,) = make_topic(tmp_path, "long")
    settings = LogSettings(segment_max_bytes=150_000, index_stride_bytes=4096, preallocate_max_bytes=0)
    with Log.open(str(directory), settings=settings) as log:
        for first in range(0, 3000, 10):
            append(log, batch(records(10, first, 100)))
    return tmp_path


@pytest.mark.parametrize(
    ("number", "part"), [(1, 0.5), (-1, 0.5), (-1, 1)], ids=["sealed", "active", "behind its index"]
)
def test_damage_hides_no_more_than_it_must(spark: SparkSession, long: Path, number: int, part: float) -> None:
    files = segments(long, "long")
    assert len(files) == 3
    damaged, base = files[number], int(files[number].stem)
    data = bytearray(damaged.read_bytes())
    data[int(part * (len(data) - 1))] ^= 1
    damaged.write_bytes(data)
    found = survey_store(spark, parse_store(str(long)), {"subscribe": "long"})
    (problem,), (survey,) = found.problems, found.partitions
    assert f"{damaged}: at byte " in problem
    ((first, end),) = survey.missing
    assert (survey.first_offset, survey.end_offset, survey.records) == (0, 3000, 3000 - (end - first))
    if part < 1:
        assert base < first < end
        assert end - first <= 40  # what lies between two entries of the index
    else:
        assert (first, end) == (base, 3000)
    assert not found.is_whole


def test_a_segment_that_is_damaged_all_over(
    spark: SparkSession, long: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not read piece by piece for ever, and each of its offsets is told."""
    monkeypatch.setattr("barbicel.pipeline.jobs.verify.READS_INSIDE", 6)
    _, damaged, last = segments(long, "long")
    damaged.write_bytes(damaged.read_bytes()[:68] + bytes(damaged.stat().st_size - 68))
    found = survey_store(spark, parse_store(str(long)), {"subscribe": "long"})
    (survey,) = found.partitions
    assert survey.missing == [(int(damaged.stem), int(last.stem))]
    assert 1 <= len(found.problems) <= 6


def test_differences_are_told_record_by_record(
    spark: SparkSession, gateway: Gateway, other: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surveys, "BLOCK_OFFSETS", 16)
    records = numbered(100)
    changed = [
        record._replace(value=b"another") if 40 <= number < 43 else record
        for number, record in enumerate(records)
    ]
    for server, sent in ((gateway, records), (other, changed[:90])):
        create_topic(server, "kept.twins", 1)
        send(server, "kept.twins", sent)
    trim(other, "kept.twins", 0, 5)
    result = run(
        "pipeline",
        "verify",
        gateway.bootstrap,
        "--topic",
        "kept.twins",
        "--against",
        other.bootstrap,
        "--json",
    )
    assert result.exit_code == 3
    (difference,) = document(result)["differences"]
    assert difference == {
        "topic": "kept.twins",
        "partition": 0,
        "only_left": [[0, 5], [90, 100]],
        "only_right": [],
        "differing": [[40, 43]],
        "is_cut": False,
    }


def test_differences_are_told_however_many_they_are(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As spans, however long. Of too many spans it is said that there are more."""
    sides = [tmp_path / "left", tmp_path / "right"]
    for number, side in enumerate(sides):
        (directory,) = make_topic(side, "twins")
        with Log.open(str(directory)) as log:
            for first in range(0, 100, 10):
                append(log, batch(records(10, first + number * (first // 10 % 2))))
            append(log, batch(records(500 * (1 - number) or 1, 100)))
    monkeypatch.setattr("barbicel.pipeline.jobs.verify.MAX_NAMED", 6)
    arguments = ("pipeline", "verify", sides[0], "--against", sides[1], "--topic", "twins")
    (difference,) = document(run(*arguments, "--json"))["differences"]
    assert difference["differing"] == [[first, first + 10] for first in range(10, 100, 20)]
    assert (difference["only_left"], difference["only_right"]) == ([[101, 600]], [])
    assert not difference["is_cut"]
    monkeypatch.setattr("barbicel.pipeline.jobs.verify.MAX_NAMED", 3)
    result = run(*arguments)
    assert result.exit_code == 3
    assert "There are more differences than these." in words(result)


def test_spans() -> None:
    assert spans_of([]) == []
    assert spans_of([1, 2, 3, 7, 9, 10]) == [(1, 4), (7, 8), (9, 11)]


def test_stretches_that_overlap_and_leave_gaps() -> None:
    zero = (0,) * 8
    found = surveys.put_together(
        "t", 0, [surveys.OffsetStretch(*span, zero) for span in ((2, 5), (4, 6), (8, 9))]
    )
    assert (found.first_offset, found.end_offset, found.records) == (2, 9, 6)
    assert (found.missing, found.repeated) == ([(6, 8)], [(4, 5)])


def test_stretches_that_begin_late_or_end_early() -> None:
    zero = (0,) * 8
    found = surveys.put_together("t", 0, [surveys.OffsetStretch(4, 6, zero)], (1, 9))
    assert (found.first_offset, found.end_offset, found.records) == (1, 9, 2)
    assert found.missing == [(1, 4), (6, 9)]
    nothing = surveys.put_together("t", 0, [], (1, 9))
    assert (nothing.records, nothing.missing, nothing.is_whole) == (0, [(1, 9)], False)


def test_what_is_missing_at_the_ends_of_a_partition_is_told(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing that can be read lies before or behind it: only the store's own word tells of it."""
    with partition(tmp_path) as orders:
        fill(orders.log, 300)
        orders.work(COPY_AND_EVICT)
    first, second, *_ = objects(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "object-store").rename(elsewhere)
    arguments = ("pipeline", "verify", tmp_path, "--topic", "orders", "--option", f"store={elsewhere}")
    assert run(*arguments).exit_code == 0
    (elsewhere / first.relative_to(tmp_path / "object-store")).unlink()
    result = run(*arguments, "--json")
    assert result.exit_code == 3
    (survey,) = document(result)["stores"][0]["partitions"]
    assert survey["missing"] == [[0, int(second.stem[8:])]]
    # And what lies behind damage is looked at with the same options.
    (damaged,) = elsewhere.glob(f"*/*/*/{second.name}")
    damaged.write_bytes(damaged.read_bytes()[:-1])
    (store,) = document(run(*arguments, "--json"))["stores"]
    (problem,) = store["problems"]
    assert second.name in problem
    assert store["partitions"][0]["end_offset"] == 300
    assert len(store["partitions"][0]["missing"]) == 1


# --- replay ---------------------------------------------------------------------------------------------


def test_replay_of_files_by_offsets(spark: SparkSession, stored: Path, other: Gateway) -> None:
    create_topic(other, "again", 1)
    arguments = (
        "--bootstrap",
        other.bootstrap,
        "--into",
        "again",
        "--from-offset",
        "100",
        "--to-offset",
        "900",
    )
    result = run("pipeline", "replay", stored, "kept.long", *arguments, "--json")
    assert document(result) == {"records": 800, "topic": "again", "dry_run": False}
    found = rows(kafka(spark, other, subscribe="again", includeHeaders="true"))
    assert [one.value for one in found] == [one.value for one in numbered(900)[100:]]
    assert [dict(one.headers)["replayed-from"] for one in found] == [
        b"kept.long/0/%d" % n for n in range(100, 900)
    ]


def test_what_cannot_be_read_is_told_in_a_line_with_what_to_do(
    spark: SparkSession, gateway: Gateway, copy: Path, tmp_path: Path
) -> None:
    """A wrong path and a damaged segment, by a batch query and by a stream: no stack of Java's."""
    target = ("--bootstrap", gateway.bootstrap, "--into", "again")
    lake = ("--topic", "kept.long", "--parquet", tmp_path / "lake")
    for verb in (
        ("replay", tmp_path / "absent", "kept.long", *target),
        ("to-lake", tmp_path / "absent", *lake),
    ):
        result = run("pipeline", *verb)
        assert result.exit_code == 2
        said = f"failed: {tmp_path}/absent: there is no such path (give the data directory of a server)"
        assert result.stderr.splitlines()[-1].endswith(said), result.stderr
    damaged = segments(copy, "kept.long")[1]
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    for verb in (("replay", copy, "kept.long", *target), ("to-lake", copy, *lake)):
        result = run("pipeline", *verb)
        assert result.exit_code == 2
        assert f"failed: {damaged}: at byte " in result.stderr.splitlines()[-1], result.stderr
        assert "cannot be read" in result.stderr.splitlines()[-1]


def test_replay_of_a_gateway_by_time_into_the_same_partitions(
    spark: SparkSession, gateway: Gateway, stored: Path
) -> None:
    create_topic(gateway, "replayed", 3)
    times = ("--from-time", str(FIRST_MS + 1000), "--to-time", "2023-11-14T22:13:23Z")
    arguments = ("--bootstrap", gateway.bootstrap, "--into", "replayed", "--keep-partitions", *times)
    assert run("pipeline", "replay", gateway.bootstrap, TOPIC, *arguments).exit_code == 0
    found = rows(kafka(spark, gateway, subscribe="replayed", includeHeaders="true"))
    expected = [
        one
        for one in rows(kafka(spark, gateway, subscribe=TOPIC, includeHeaders="true"))
        if FIRST_MS + 1000 <= one.timestamp_ms < FIRST_MS + 3000
    ]
    assert len(expected) == 60
    assert [one[:3] for one in found] == [one[:3] for one in expected]
    assert [one.headers[:-1] for one in found] == [one.headers for one in expected]


def test_replay_counts_without_writing_and_refuses_a_circle(
    spark: SparkSession, gateway: Gateway, stored: Path
) -> None:
    arguments = ("pipeline", "replay", gateway.bootstrap, TOPIC, "--bootstrap", gateway.bootstrap)
    counted = run(*arguments, "--into", "replayed.dry", "--partition", "1", "--dry-run")
    assert "50 records would be appended to replayed.dry." in words(counted)
    refused = run(*arguments)
    assert (refused.exit_code, "a topic into itself" in refused.stderr) == (2, True)
    bad = run(*arguments, "--into", "a", "--from-time", "yesterday")
    assert (bad.exit_code, "neither milliseconds nor a time" in bad.stderr) == (2, True)
