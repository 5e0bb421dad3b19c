"""Topics into Parquet and Iceberg: every record once, whatever stops the stream."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from barbicel.pipeline.jobs import checkpoints
from barbicel.pipeline.jobs.stores import Store, parse_store
from barbicel.pipeline.jobs.watching import await_end
from tests.cli.support import document, run
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
from tests.support.gateway import Gateway

ROOT = Path(__file__).parent.parent.parent
DEADLINE_S = 120
POLL_S = 0.05


def numbered(first: int, end: int, partitions: int = 2) -> list[Sent]:
    return [
        Sent(number % partitions, None, b"%d" % number, FIRST_MS + number) for number in range(first, end)
    ]


def values(spark: SparkSession, path: Path) -> list[int]:
    return sorted(int(row.value) for row in spark.read.parquet(str(path)).collect())


def test_parquet_has_what_the_topic_has(spark: SparkSession, gateway: Gateway, tmp_path: Path) -> None:
    sent = every_codec(gateway, "lake.all", each=10)
    result = run("pipeline", "to-lake", gateway.bootstrap, "--topic", "lake.all", "--parquet", tmp_path)
    assert result.exit_code == 0, result.stderr
    assert rows(spark.read.parquet(str(tmp_path / "rows"))) == sorted(sent, key=lambda one: one.partition)
    # One file for what fits into one.
    assert len(list((tmp_path / "rows").glob("batch=*/*.parquet"))) == 1


def test_each_run_adds_what_has_come(spark: SparkSession, gateway: Gateway, tmp_path: Path) -> None:
    create_topic(gateway, "lake.runs", 2)
    read = []
    for first in (0, 30, 60):
        send(gateway, "lake.runs", numbered(first, first + 30), "zstd")
        arguments = (
            "--topic",
            "lake.runs",
            "--parquet",
            tmp_path,
            "--max-rows",
            "20",
            "--rows-per-file",
            "8",
        )
        read.append(document(run("pipeline", "to-lake", gateway.bootstrap, *arguments, "--json")))
    assert [(one["rows"], one["batches"]) for one in read] == [(30, 2)] * 3
    assert values(spark, tmp_path / "rows") == list(range(90))
    sizes = [spark.read.parquet(str(file)).count() for file in (tmp_path / "rows").glob("*/*.parquet")]
    assert max(sizes) <= 8


class _ManyBatches:
    """A query that has read ten records in each of many batches, of which Spark remembers a hundred."""

    class Progress:
        def __init__(self, batch: int) -> None:
            self.batchId, self.numInputRows = batch, 10

    def __init__(self) -> None:
        self._turns = iter((False, False, False, True))
        self._done = 0

    def awaitTermination(self, timeout: int | None = None) -> bool:  # noqa: N802 - Spark's name
        self._done += 90
        return next(self._turns)

    @property
    def recentProgress(self) -> list[Progress]:  # noqa: N802
        return [self.Progress(batch) for batch in range(max(0, self._done - 100), self._done)]


def test_all_batches_are_counted_however_many() -> None:
    query: Any = _ManyBatches()
    assert await_end(query) == (3600, 360)


def test_queues_of_kestrel(spark: SparkSession, gateway: Gateway, tmp_path: Path) -> None:
    put_items(gateway, "lakeside", [b"%d" % number for number in range(20)])
    assert not run(
        "pipeline", "to-lake", gateway.bootstrap, "--pattern", "lakes.*", "--parquet", tmp_path
    ).exit_code
    assert values(spark, tmp_path / "rows") == list(range(20))


def test_a_killed_stream_loses_nothing_and_repeats_nothing(
    spark: SparkSession, gateway: Gateway, tmp_path: Path
) -> None:
    create_topic(gateway, "lake.killed", 2)
    send(gateway, "lake.killed", numbered(0, 1000), "lz4")
    lake = tmp_path / "lake"
    arguments = ["--topic", "lake.killed", "--parquet", str(lake), "--max-rows", "40"]
    process = subprocess.Popen(
        [
            *(
                sys.executable,
                "-m",
                "barbicel.cli.main",
                "pipeline",
                "to-lake",
                gateway.bootstrap,
                *arguments,
            ),
            *("--follow", "--every", "0 seconds", "--master", "local[2]", "--conf", "spark.ui.enabled=false"),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + DEADLINE_S
        while not (lake / "rows" / "batch=3").exists():
            assert process.poll() is None, process.stderr and process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(POLL_S)
    finally:
        # The JVM too: a machine that loses its power leaves nobody.
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    send(gateway, "lake.killed", numbered(1000, 1100))
    result = run("pipeline", "to-lake", gateway.bootstrap, *arguments, "--max-rows", "400")
    assert result.exit_code == 0, result.stderr
    assert values(spark, lake / "rows") == list(range(1100))


# --- Iceberg --------------------------------------------------------------------------------------------


class Table:
    """An Iceberg table in a catalogue of its own."""

    def __init__(self, directory: Path) -> None:
        self.checkpoint = directory / "checkpoint"
        (directory / "warehouse").mkdir()
        self._properties = {
            "type": "sql",
            "uri": f"sqlite:///{directory}/catalogue.db",
            "warehouse": f"file://{directory}/warehouse",
        }

    def fill(self, gateway: Gateway, topic: str, *arguments: str) -> None:
        properties = [f"--catalog-property={key}={value}" for key, value in self._properties.items()]
        result = run(
            *("pipeline", "to-lake", gateway.bootstrap, "--topic", topic, "--iceberg", "lake.events"),
            *("--checkpoint", str(self.checkpoint), *properties, *arguments),
        )
        assert result.exit_code == 0, result.stderr

    def rows(self) -> list[dict[str, Any]]:
        table = load_catalog("default", **self._properties).load_table("lake.events")
        found: list[dict[str, Any]] = table.scan().to_arrow().to_pylist()
        return found

    def values(self) -> list[int]:
        return sorted(int(row["value"]) for row in self.rows())


def test_iceberg(spark: SparkSession, gateway: Gateway, tmp_path: Path) -> None:
    sent = every_codec(gateway, "iceberg.all", each=4)
    table = Table(tmp_path)
    table.fill(gateway, "iceberg.all", "--max-rows", "25")
    found = sorted(table.rows(), key=lambda row: (row["partition"], row["offset"]))
    expected = sorted(sent, key=lambda one: one.partition)
    assert [(row["partition"], row["key"], row["value"]) for row in found] == [one[:3] for one in expected]
    assert [round(row["timestamp"].timestamp() * 1000) for row in found] == [one[3] for one in expected]


def test_iceberg_says_itself_what_it_has(spark: SparkSession, gateway: Gateway, tmp_path: Path) -> None:
    """A driver dies between the table's commit and the stream's; then the whole checkpoint is lost."""
    create_topic(gateway, "iceberg.lost", 2)
    table = Table(tmp_path)
    send(gateway, "iceberg.lost", numbered(0, 60))
    table.fill(gateway, "iceberg.lost", "--max-rows", "40")
    forget_newest_commit(table.checkpoint)
    send(gateway, "iceberg.lost", numbered(60, 80))
    table.fill(gateway, "iceberg.lost")
    assert table.values() == list(range(80))
    shutil.rmtree(table.checkpoint)
    send(gateway, "iceberg.lost", numbered(80, 100))
    table.fill(gateway, "iceberg.lost", "--max-rows", "30")
    assert table.values() == list(range(100))


def forget_newest_commit(checkpoint: Path) -> None:
    """As if the driver had died between the lake's commit and the stream's."""
    newest = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    newest.unlink()
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)


def test_iceberg_keeps_a_batch_that_is_done_again_when_a_partition_had_nothing_new(
    spark: SparkSession, gateway: Gateway, tmp_path: Path
) -> None:
    """All of the batch is in the table: it must not be written again, over the files of the table."""
    create_topic(gateway, "iceberg.idle", 2)
    table = Table(tmp_path)
    send(gateway, "iceberg.idle", numbered(0, 10))
    table.fill(gateway, "iceberg.idle")
    send(gateway, "iceberg.idle", [one._replace(partition=0) for one in numbered(10, 20)])
    table.fill(gateway, "iceberg.idle")
    forget_newest_commit(table.checkpoint)
    table.fill(gateway, "iceberg.idle")
    assert table.values() == list(range(20))


# --- dead letters ---------------------------------------------------------------------------------------

SCHEMA = "id BIGINT, name STRING"
VALUES: list[tuple[bytes | None, bool]] = [
    (b'{"id": 1, "name": "one"}', True),
    (b"not JSON", False),
    (b'{"id": "a word", "name": "two"}', False),
    (None, True),
    (b'{"id": 3}', True),
    (b"\xff\xfe", False),
    (b'{"id": 4, "name": "four", "more": []}', True),
    (b"", False),
]


def test_what_does_not_fit_goes_to_the_dead_letters(
    spark: SparkSession, gateway: Gateway, tmp_path: Path
) -> None:
    create_topic(gateway, "lake.json", 1)
    send(gateway, "lake.json", [Sent(0, b"k", value, FIRST_MS, (("h", b"1"),)) for value, _ in VALUES])
    arguments = ("--topic", "lake.json", "--value-schema", SCHEMA)
    result = run("pipeline", "to-lake", gateway.bootstrap, *arguments, "--parquet", tmp_path)
    assert result.exit_code == 0, result.stderr
    good = spark.read.parquet(str(tmp_path / "rows")).orderBy("offset").collect()
    assert [(row.offset, row.id, row.name) for row in good] == [
        (0, 1, "one"),
        (3, None, None),
        (4, 3, None),
        (6, 4, "four"),
    ]
    dead = spark.read.parquet(str(tmp_path / "dead_letters")).orderBy("offset").collect()
    assert [bytes(row.value) for row in dead] == [value for value, is_good in VALUES if not is_good]
    assert all(row.reason for row in dead)


def test_dead_letters_may_have_a_topic(spark: SparkSession, gateway: Gateway, tmp_path: Path) -> None:
    create_topic(gateway, "lake.poison", 1)
    create_topic(gateway, "lake.letters", 1)
    send(gateway, "lake.poison", [Sent(0, b"k", b"poison", FIRST_MS, (("h", b"1"),))])
    arguments = ("--topic", "lake.poison", "--value-schema", SCHEMA, "--dead-letter-topic", "lake.letters")
    assert not run("pipeline", "to-lake", gateway.bootstrap, *arguments, "--parquet", tmp_path).exit_code
    (letter,) = rows(kafka(spark, gateway, subscribe="lake.letters", includeHeaders="true"))
    assert (letter.key, letter.value) == (b"k", b"poison")
    assert dict(letter.headers) == {
        "h": b"1",
        "dead-letter-reason": b"the value is not JSON of the form id BIGINT, name STRING",
        "dead-letter-topic": b"lake.poison",
        "dead-letter-partition": b"0",
        "dead-letter-offset": b"0",
    }


# --- what is wrong --------------------------------------------------------------------------------------


def test_loss_is_told_and_may_be_accepted(spark: SparkSession, gateway: Gateway, tmp_path: Path) -> None:
    create_topic(gateway, "lake.loss", 1)
    send(gateway, "lake.loss", numbered(0, 10, 1))
    arguments = ("pipeline", "to-lake", gateway.bootstrap, "--topic", "lake.loss", "--parquet", tmp_path)
    assert run(*arguments).exit_code == 0
    send(gateway, "lake.loss", numbered(10, 40, 1))
    trim(gateway, "lake.loss", 0, 30)
    failed = run(*arguments)
    assert failed.exit_code == 2
    assert "the stream has failed" in failed.stderr
    assert run(*arguments, "--accept-loss").exit_code == 0
    assert values(spark, tmp_path / "rows") == [*range(10), *range(30, 40)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--topic", "a"), "the lake is --parquet or --iceberg"),
        (("--topic", "a", "--iceberg", "t"), "--iceberg needs --checkpoint"),
        (("--topic", "a", "--parquet", "p", "--dead-letter-topic", "t"), "STORE is a directory"),
        (("--parquet", "p"), "the topics are named by their names or by a pattern"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], message: str) -> None:
    result = run("pipeline", "to-lake", "/data", *arguments)
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr


@pytest.mark.parametrize(
    ("text", "store"),
    [
        ("127.0.0.1:9092", Store("127.0.0.1:9092", None)),
        ("a.example:1,b.example:2", Store("a.example:1,b.example:2", None)),
        ("kafka://broker:9092", Store("broker:9092", None)),
        ("/var/lib/barbicel", Store(None, "/var/lib/barbicel")),
        ("data", Store(None, "data")),
        ("./data:1", Store(None, "./data:1")),
        ("s3://bucket/prefix", Store(None, "s3://bucket/prefix")),
    ],
)
def test_what_a_store_is(text: str, store: Store) -> None:
    assert parse_store(text) == store


def test_offsets_are_merged_and_rendered() -> None:
    left, right = (
        checkpoints.parse_offsets('{"a": {"0": 5, "1": 7}, "@ids": {"a": "x"}}'),
        {("a", 1): 3, ("b", 0): 1},
    )
    assert (
        checkpoints.render_offsets(checkpoints.merge_offsets(left, right))
        == '{"a": {"0": 5, "1": 7}, "b": {"0": 1}}'
    )
