"""Loading one group: what its next user waits for after a restart or an eviction."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from barbicel.codecs.stroma_events import (
    DELTA_HEADER_BYTES,
    Ack,
    DeltaHeader,
    Event,
    MarkInflight,
    encode_delta_header,
    encode_event,
)
from barbicel.codecs.stroma_snapshot import Inflight, Snapshot, encode_snapshot
from barbicel.stroma.layout import GroupFiles, StoreLayout
from barbicel.stroma.names import GroupKey
from barbicel.stroma.settings import StoreSettings
from barbicel.stroma.store import GroupStore
from bench.report import Measurement, compare
from bench.rounds import interleave
from bench.stroma.bare import read_delta_bare, read_snapshot_bare

__all__ = ["measure_replay"]

KEY = GroupKey("topic", 0, "group")
# Handed out at the same time, acked in random order.
WINDOW = 100
RANGES = 100_000
INFLIGHT = 10_000
DEADLINE_MS = 1 << 41
ROUNDS = 3


def measure_replay(directory: str) -> list[Measurement]:
    delta, snapshot = (_make_store(f"{directory}/{name}") for name in ("delta", "snapshot"))
    events = _write_delta(delta.delta)
    _write_snapshot(snapshot.snapshot)
    compactions: list[float] = []
    took = interleave(
        {
            "delta": partial(_load, delta.store.root),
            "bare delta": partial(read_delta_bare, delta.delta),
            "snapshot": partial(_load, snapshot.store.root, compactions),
            "bare snapshot": partial(read_snapshot_bare, snapshot.snapshot, RANGES, INFLIGHT),
        },
        ROUNDS,
    )
    took["compact"] = compactions
    return _rows({name: [seconds * 1000 for seconds in taken] for name, taken in took.items()}, events)


def _make_store(path: str) -> GroupFiles:
    GroupStore.open(path).close()
    return StoreLayout(path).files(KEY)


def _write_delta(path: str) -> int:
    """As long as a delta gets before it is compacted; returns how many events that takes."""
    pieces = [encode_delta_header(DeltaHeader(0, 1))]
    left = StoreSettings().compact_bytes - DELTA_HEADER_BYTES
    for event in _events():
        pieces.append(encode_event(event))
        left -= len(pieces[-1])
        if left <= 0:
            break
    Path(path).write_bytes(b"".join(pieces))
    return len(pieces) - 1


def _events() -> Iterator[Event]:
    chance = random.Random(1)
    first = 0
    while True:
        window = list(range(first, first + WINDOW))
        yield from (MarkInflight(offset, DEADLINE_MS + offset, 1) for offset in window)
        chance.shuffle(window)
        yield from map(Ack, window)
        first += WINDOW


def _write_snapshot(path: str) -> None:
    """Every third offset acked, and one of its neighbours inflight now and then."""
    apart = RANGES // INFLIGHT
    snapshot = Snapshot(
        0,
        KEY.tp_hash,
        KEY.group_hash,
        1,
        acked_until=0,
        inflight=tuple(
            (3 * number * apart + 1, Inflight(DEADLINE_MS + number, 1)) for number in range(INFLIGHT)
        ),
        ranges=tuple((3 * number + 2, 3 * number + 3) for number in range(RANGES)),
    )
    Path(path).write_bytes(encode_snapshot(snapshot))


def _load(path: str, compactions: list[float] | None = None) -> float:
    """Seconds until the state is there; those that a compaction takes then go to `compactions`."""
    with GroupStore.open(path) as store:
        start = time.perf_counter()
        store.state(KEY)
        loaded = time.perf_counter()
        if compactions is not None:
            store.compact(KEY)
            compactions.append(time.perf_counter() - loaded)
        return loaded - start


def _rows(took_ms: dict[str, list[float]], events: int) -> list[Measurement]:
    full = f"a delta of {StoreSettings().compact_bytes >> 20} MiB, as long as one gets before it is compacted"
    return [
        compare(
            "replay a full delta",
            "ms",
            took_ms["delta"],
            took_ms["bare delta"],
            against="read + crc32c of each event",
            reading=f"{full}: {events:,} events, {WINDOW} offsets handed out and acked in random order, again"
            " and again. From the page cache. The peer checks the same CRCs and makes nothing of the events.",
        ),
        compare(
            "replay a full delta, rate",
            "events/s",
            [events / taken * 1000 for taken in took_ms["delta"]],
            [events / taken * 1000 for taken in took_ms["bare delta"]],
            against="read + crc32c of each event",
            reading="the same as a rate.",
        ),
        compare(
            f"load a snapshot, {RANGES:,} ranges",
            "ms",
            took_ms["snapshot"],
            took_ms["bare snapshot"],
            against="read + crc32c + unpack",
            reading=f"with {INFLIGHT:,} inflight, from the page cache. The peer takes one CRC and unpacks as"
            " many entries.",
        ),
        compare(
            f"compact, {RANGES:,} ranges",
            "ms",
            took_ms["compact"],
            took_ms["snapshot"],
            against="loading it",
            reading="the same group put into a new snapshot, with its fsyncs; the store's other users wait.",
        ),
    ]
