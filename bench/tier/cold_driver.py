"""Reads all objects of a topic in a process of its own: a job as JSON in, MB/s as JSON out.

Not in the process that measures, so that no round finds anything in the caches of the one before, and so
that both sides begin alike.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby
from typing import Any

from barbicel.codecs.kafka.record_batch import decode_header
from barbicel.config.settings import Config
from barbicel.tier.cold_reader import ColdReader, TieredSegment
from barbicel.tier.keys import parse_segment_key
from barbicel.tier.object_store import ObjectInfo, ObjectStore
from barbicel.tier.whole_segment import read_ends
from bench.tier.stores import Place, bare_of, open_place

__all__ = ["READ_BYTES"]

# What a consumer asks for of a partition, unless it is told otherwise.
READ_BYTES = 1 << 20
MEGABYTE = 1e6
MAX_OFFSET = 2**62


def read_cold(place: Place, topic: str) -> float:
    """As fetches do: of each partition from its first batch to its last, so much at a time."""
    store, config = open_place(place), Config()
    partitions = [list(found) for _, found in groupby(_segments(store, topic), _partition_of)]
    with ColdReader(
        store,
        segment_cache_bytes=config.tier_cache_bytes,
        index_cache_bytes=config.remote_log_index_file_cache_total_size_bytes,
        readahead_segments=config.tier_readahead_segments,
    ) as reader:
        started = time.perf_counter()
        total = sum(sum(_read_on(reader, segments)) for segments in partitions)
        took = time.perf_counter() - started
    store.close()
    return total / MEGABYTE / took


def _read_on(reader: ColdReader, segments: list[TieredSegment]) -> Iterator[int]:
    """The bytes of each answer."""
    offset = 0
    while segments:
        views = reader.read(segments, offset, MAX_OFFSET, READ_BYTES, at_least_one=True)
        yield sum(map(len, views))
        offset = decode_header(views[-1]).end_offset
        segments = [segment for segment in segments if segment.end_offset > offset]


def _partition_of(segment: TieredSegment) -> str:
    return segment.key.rpartition("/")[0]


def _segments(store: ObjectStore, topic: str) -> list[TieredSegment]:
    return [_segment(store, info) for info in _objects(store, topic)]


def _segment(store: ObjectStore, info: ObjectInfo) -> TieredSegment:
    header, footer = read_ends(partial(store.get, info.key), info.size)
    index_key = f"{info.key.removesuffix('.kfs')}.index"
    end_offset = footer.last_offset + 1
    return TieredSegment(info.key, index_key, header.base_offset, end_offset, info.size, info.etag)


def _objects(store: ObjectStore, topic: str) -> list[ObjectInfo]:
    return [info for info in store.list("") if parse_segment_key(info.key) and f"/{topic}-" in info.key]


def get_bare(place: Place, topic: str) -> float:
    """Whole objects, one after the other."""
    store = open_place(place)
    keys = [info.key for info in _objects(store, topic)]
    store.close()
    bare = bare_of(place)
    started = time.perf_counter()
    total = sum(map(bare.get, keys))
    return total / MEGABYTE / (time.perf_counter() - started)


JOBS: Mapping[str, Callable[[Place, str], float]] = {"read": read_cold, "get": get_bare}

if __name__ == "__main__":
    given: dict[str, Any] = json.loads(sys.argv[1])
    # As a gateway does, whose main thread is the reactor's: readers make room for that one.
    with ThreadPoolExecutor(1) as threads:
        job = threads.submit(JOBS[given["do"]], Place(given["url"], given["options"]), given["topic"])
    print(json.dumps(job.result()))
