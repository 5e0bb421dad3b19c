"""Sealed segments on their way into a store, beside bare puts of the same objects."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path

from bench.report import Measurement, Target, compare
from bench.rounds import interleave
from bench.tier.filling import LARGE, PARTITIONS, PLAIN, SMALL, Topic
from bench.tier.gateways import TieringGateway, copied_gateway
from bench.tier.stores import Bare, Place, bare_of, open_place

__all__ = ["EXTRA", "measure_extra", "measure_offload", "upload"]

MEGABYTE = 1e6
TARGET = Target(">=", 0.7)
READING = (
    "a gateway is told to flush a topic of two partitions, whose segments are sealed: until the store has"
    " verified objects of all of them and the manifest says so; in bytes of objects, indexes not counted. The"
    " peer puts the same objects out of its memory, as many at a time as the gateway has copiers."
)
EXTRA: Mapping[Topic, str] = {
    PLAIN: "plain batches of 16 KB: each is compressed with zstd, into a file beside the log, from which the"
    " object is uploaded.",
    SMALL: "batches of 200 bytes, one message each: what is done for every batch is all there is.",
}


def upload(gateway: TieringGateway, topic: Topic) -> float:
    """MB/s of what a flush uploads."""
    gateway.switch_on(topic)
    seconds = gateway.flush()
    return gateway.tiered_bytes(topic) / MEGABYTE / seconds


def measure_offload(filled: Path, directory: Path, place: Place, kept: Place, rounds: int) -> Measurement:
    numbers = count()

    def offload() -> float:
        round_place = place.below(f"round-{next(numbers)}")
        with copied_gateway(filled, directory / "offload", round_place) as gateway:
            return upload(gateway, LARGE)

    rates = interleave({"ours": offload, "bare": _bare_contender(place, kept, LARGE)}, rounds)
    return compare(
        "offload",
        "MB/s",
        rates["ours"],
        rates["bare"],
        against="bare put of the same objects",
        reading=f"compressed batches of 16 KB in segments of 64 MiB. So: {READING}",
        target=TARGET,
    )


def measure_extra(gateway: TieringGateway, place: Place, kept: Place, topic: Topic) -> Measurement:
    """Once: without a target, and slow."""
    ours = upload(gateway, topic)
    bare = _bare_contender(place, kept, topic)()
    return compare(
        f"offload, {topic.name} batches",
        "MB/s",
        [ours],
        [bare],
        against="bare put of the same objects",
        reading=f"the same with {EXTRA[topic]}",
    )


def _bare_contender(place: Place, kept: Place, topic: Topic) -> partial[float]:
    bare = bare_of(place.below("bare"))
    return partial(_bare_rate, bare, _objects(kept, topic), count())


def _objects(kept: Place, topic: Topic) -> list[bytes]:
    """What the gateway has made of a topic, in memory."""
    store = open_place(kept)
    try:
        keys = [info.key for info in store.list("") if info.key.endswith(".kfs")]
        return [store.get(key) for key in keys if f"/{topic.name}-" in key]
    finally:
        store.close()


def _bare_rate(bare: Bare, objects: Sequence[bytes], numbers: count[int]) -> float:
    prefix = f"{id(objects)}-{next(numbers)}"
    names = [f"{prefix}-{number}" for number in range(len(objects))]
    started = time.perf_counter()
    with ThreadPoolExecutor(PARTITIONS) as threads:
        list(threads.map(bare.put, names, objects))
    return sum(map(len, objects)) / MEGABYTE / (time.perf_counter() - started)
