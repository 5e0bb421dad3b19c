"""Kestrel's journals by many machines at once: a task for each queue, or Parquet with a task for each piece.

Queues are independent, and a journal is one sequence of operations: which items are left of a queue is found
out by one task, by the same replay that the importer on one machine uses. That is fast. Reading these items
and doing something with them is not, and every piece of them is a task of its own.

What a task does to import a queue is given by the caller: this part does not know the gateway.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from barbicel.disk import Disk, File, RealDisk
from barbicel.errors import BarbicelError
from barbicel.kestrel_compat.journals.files import FoundFile, select_files
from barbicel.kestrel_compat.journals.live_items import JournalItems
from barbicel.kestrel_compat.journals.queue import Doubt, JournalFile, JournalItem
from barbicel.kestrel_compat.journals.replay import replay
from barbicel.kestrel_compat.names import parse_queue_name
from barbicel.pipeline.digest import add_digests, digest_words, render_digest, row_digest

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.core.rdd import RDD
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = [
    "JournalLine",
    "Journals",
    "LineReport",
    "digest_items",
    "list_journals",
    "read_items",
    "spread",
    "write_parquet",
]

Outcome = TypeVar("Outcome")

# What one task reads of a queue, and what it hands to Spark at once.
PART_ITEMS = 1 << 16
BATCH_ITEMS = 4096
BATCH_BYTES = 8 << 20
TEMPORARY = "_temporary"

ITEM_SCHEMA = (
    "queue string, number long, data binary, added_ms long, expiry_ms long, is_open boolean, file string,"
    " position long"
)
PART_SCHEMA = "queue string, files string, first long, open_items long, places binary"


class JournalLine(NamedTuple):
    """A queue, or a fanout child, and its files in the order of replay."""

    queue: str
    files: tuple[JournalFile, ...]

    @property
    def size_bytes(self) -> int:
        return sum(file.size for file in self.files)


class Journals(NamedTuple):
    directory: str
    lines: tuple[JournalLine, ...]
    # About files that belong to no queue.
    doubts: tuple[Doubt, ...]


class LineReport(NamedTuple):
    """What a replay has found."""

    queue: str
    items: int
    open_reads: int
    operations: int
    doubts: tuple[Doubt, ...]


class _Part(NamedTuple):
    """A piece of what is left of a queue: all that a task needs to read it."""

    queue: str
    files: str
    first: int
    open_items: int
    places: bytes


class _Replayed(NamedTuple):
    report: LineReport
    parts: list[_Part]


def list_journals(disk: Disk, directory: str, queues: Collection[str] = ()) -> Journals:
    """These queues with their children, or all. Raises DiskError, and BarbicelError if one is not there."""
    wanted = {parse_queue_name(name).master for name in queues}
    found = [
        FoundFile(entry.name, entry.size, disk.modified_ms(f"{directory}/{entry.name}"), entry.is_directory)
        for entry in disk.list(directory)
    ]
    selection = select_files(found)
    masters = {parse_queue_name(name).master for name in selection.queues}
    if missing := sorted(wanted - masters):
        raise BarbicelError(f"there is no journal of the queue {missing[0]!r}", path=directory)
    lines = [
        JournalLine(queue.queue, queue.files)
        for queue in selection.queues.values()
        if not wanted or parse_queue_name(queue.queue).master in wanted
    ]
    return Journals(disk.resolve(directory), tuple(lines), tuple(selection.doubts))


# --- a task for each queue ------------------------------------------------------------------------------


def spread(
    spark: SparkSession, size_by_queue: dict[str, int], carry_out: Callable[[str], Outcome]
) -> list[Outcome]:
    """Have each queue carried out by a task of its own; what they return, by the queues' names.

    The largest begin first, so that none of them is alone at the end. A task that is lost is tried again:
    what it does must be something that can be done twice.
    """
    queues = sorted(size_by_queue, key=lambda queue: -size_by_queue[queue])
    if not queues:
        return []
    found = spark.sparkContext.parallelize(queues, len(queues)).map(lambda queue: (queue, carry_out(queue)))
    outcomes = dict(found.collect())
    return [outcomes[queue] for queue in sorted(outcomes)]


# --- a task for each piece ------------------------------------------------------------------------------


def read_items(spark: SparkSession, journals: Journals) -> tuple[DataFrame, list[LineReport]]:
    """Every item that is left, in columns, and what was found about each line."""
    if not journals.lines:
        return spark.createDataFrame([], ITEM_SCHEMA), []
    lines = sorted(journals.lines, key=lambda line: -line.size_bytes)
    spread_lines = spark.sparkContext.parallelize(lines, len(lines))
    replayed: RDD[_Replayed] = spread_lines.map(partial(_replay_line, journals.directory)).persist()
    reports = sorted(replayed.map(lambda one: one.report).collect())
    parts = replayed.flatMap(lambda one: one.parts)
    pieces = max(1, sum(-(-report.items // PART_ITEMS) for report in reports))
    frame = spark.createDataFrame(parts, PART_SCHEMA).repartition(pieces)
    return frame.mapInArrow(partial(_read_parts, journals.directory), ITEM_SCHEMA), reports


def write_parquet(disk: Disk, frame: DataFrame, path: str) -> None:
    """All rows as a new directory of Parquet files. Raises BarbicelError if there is something else.

    What a run that was killed has left is not in the way: it has no file that counts.
    """
    left = set(disk.names(path)) if disk.exists(path) else set()
    if left - {TEMPORARY}:
        raise BarbicelError("there is something already", path=path, hint="name a new directory")
    frame.write.mode("overwrite").parquet(path)


def digest_items(frame: DataFrame) -> dict[str, tuple[int, str]]:
    """Queue → how many items it has, and their digest. An item's number is in it, and so the order is."""
    from pyspark.sql import functions as f

    def field(name: str) -> Column:
        return f.col(name).cast("string").cast("binary")

    rows = frame.select(
        "queue",
        row_digest([field("number"), f.col("data"), field("added_ms"), field("expiry_ms")]).alias("digest"),
    )
    words = ", ".join(f"word{number} decimal(20)" for number in range(8))
    summed = rows.mapInArrow(_sum_by_queue, f"queue string, items long, {words}").collect()
    by_queue: dict[str, list[tuple[int, tuple[int, ...]]]] = {}
    for row in summed:
        by_queue.setdefault(row[0], []).append((row[1], tuple(int(word) for word in row[2:])))
    return {
        queue: (sum(items for items, _ in sums), render_digest(add_digests(words for _, words in sums)))
        for queue, sums in sorted(by_queue.items())
    }


# --- in the workers -------------------------------------------------------------------------------------


def _open_in(directory: str, name: str) -> File:
    return RealDisk().open(f"{directory}/{name}", "read")


def _replay_line(directory: str, line: JournalLine) -> _Replayed:
    replayed = replay(line.files, partial(_open_in, directory))
    places = cast(JournalItems, replayed.items).places
    report = LineReport(line.queue, len(places), len(replayed.open), replayed.operations, replayed.doubts)
    files = json.dumps(line.files)
    parts = [
        _Part(line.queue, files, first, len(replayed.open), places[first : first + PART_ITEMS].tobytes())
        for first in range(0, len(places), PART_ITEMS)
    ]
    return _Replayed(report, parts)


def _parse_files(text: str) -> list[JournalFile]:
    return [JournalFile(*fields) for fields in json.loads(text)]


def _read_parts(directory: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            yield from _read_part(directory, _Part(**row))


def _read_part(directory: str, part: _Part) -> Iterator[pa.RecordBatch]:
    items = JournalItems(_parse_files(part.files), partial(_open_in, directory), array("q", part.places))
    waiting: list[JournalItem] = []
    size, number = 0, part.first
    for item in items:
        waiting.append(item)
        size += len(item.data)
        if len(waiting) == BATCH_ITEMS or size >= BATCH_BYTES:
            yield _item_batch(part, number, waiting)
            number += len(waiting)
            waiting, size = [], 0
    if waiting:
        yield _item_batch(part, number, waiting)


def _item_batch(part: _Part, first: int, items: Sequence[JournalItem]) -> pa.RecordBatch:
    import pyarrow as pa

    numbers = range(first, first + len(items))
    data, added, expiries, files, positions = zip(*items, strict=True)
    columns = {
        "queue": pa.array([part.queue] * len(items), pa.string()),
        "number": pa.array(numbers, pa.int64()),
        "data": pa.array(data, pa.binary()),
        "added_ms": pa.array(added, pa.int64()),
        "expiry_ms": pa.array(expiries, pa.int64()),
        "is_open": pa.array([number < part.open_items for number in numbers], pa.bool_()),
        "file": pa.array(files, pa.string()),
        "position": pa.array(positions, pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns)


def _sum_by_queue(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in batches:
        for queue in pc.unique(batch.column("queue")).to_pylist():
            chosen = batch.filter(pc.equal(batch.column("queue"), queue))
            words = digest_words(chosen.column("digest")).sum(axis=0).tolist()
            columns = {"queue": pa.array([queue]), "items": pa.array([chosen.num_rows], pa.int64())}
            columns |= {f"word{i}": pa.array([word], pa.decimal128(20)) for i, word in enumerate(words)}
            yield pa.RecordBatch.from_pydict(columns)
