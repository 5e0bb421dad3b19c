"""Handing out and acking: pairs of mark_inflight and ack, answered after write(2)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

from barbicel.clock import wall_clock_ms
from barbicel.codecs.stroma_events import Ack, DeltaHeader, MarkInflight, encode_delta_header, encode_event
from barbicel.stroma.flusher import Flusher
from barbicel.stroma.layout import StoreLayout
from barbicel.stroma.names import GroupKey
from barbicel.stroma.settings import StoreSettings, SyncPolicy
from barbicel.stroma.store import GroupStore
from bench.report import Measurement, compare
from bench.rounds import interleave
from bench.stroma.bare import BareFiles

__all__ = ["measure_pairs"]

# Long enough for several syncs in each.
ROUND_SECONDS = 0.4
INTERVAL_MS = 100
VISIBLE_MS = 30_000
PAIR = encode_event(MarkInflight(1, 1, 1)) + encode_event(Ack(1))


@dataclass(frozen=True, slots=True)
class Load:
    name: str
    groups: int
    # In one turn, that is for one commit: this many groups with this many pairs each.
    groups_a_turn: int
    pairs_a_group: int
    policy: SyncPolicy
    reading: str

    @property
    def pairs_a_turn(self) -> int:
        return self.groups_a_turn * self.pairs_a_group

    @property
    def turns(self) -> list[range]:
        """The groups of each turn, until all have had theirs."""
        return [
            range(first, first + self.groups_a_turn) for first in range(0, self.groups, self.groups_a_turn)
        ]


LOADS = (
    Load("mark + ack, 1 group", 1, 1, 1, SyncPolicy.INTERVAL, "a commit for each pair."),
    Load("mark + ack, 1 group, 100 a turn", 1, 1, 100, SyncPolicy.INTERVAL, "a commit for 100 pairs."),
    Load(
        "mark + ack, 1,000 groups",
        1000,
        100,
        1,
        SyncPolicy.INTERVAL,
        "a commit for 100 pairs of 100 groups, all groups in turn.",
    ),
    Load(
        "mark + ack, 1 group, always synced",
        1,
        1,
        1,
        SyncPolicy.ALWAYS,
        "a commit, and so an fdatasync, for each pair.",
    ),
)


def measure_pairs(directory: str) -> list[Measurement]:
    return [row for load in LOADS for row in _measure(load, f"{directory}/{load.name}")]


def _measure(load: Load, path: str) -> list[Measurement]:
    lags_ms: list[int] = []
    with ExitStack() as stack:
        store = stack.enter_context(GroupStore.open(path, settings=StoreSettings(sync_policy=load.policy)))
        bare = BareFiles(f"{path}.bare", load.groups)
        stack.callback(bare.close)
        offsets = count()
        keys = [GroupKey("topic", number, "group") for number in range(load.groups)]
        for key in keys:
            # A plain write: the store would sync the file and its directory, which takes seconds for many.
            Path(StoreLayout(path).files(key).delta).write_bytes(encode_delta_header(DeltaHeader(0, 1)))
            store.state(key)
        rates = interleave(
            {
                "ours": partial(_mark_and_ack, load, store, keys, offsets, lags_ms),
                "bare": partial(_append_bare, load, bare),
            }
        )
    return _rows(load, rates, lags_ms)


def _mark_and_ack(
    load: Load, store: GroupStore, keys: list[GroupKey], offsets: count[int], lags_ms: list[int]
) -> float:
    """Pairs in a second. Whatever is left to sync is synced after the clock was stopped."""
    turns = [[keys[number] for number in turn] for turn in load.turns]

    def take_turn(number: int) -> None:
        for key in turns[number % len(turns)]:
            for _ in range(load.pairs_a_group):
                _record_pair(store, key, next(offsets))
        _commit(store)

    with Flusher(store, INTERVAL_MS):
        rate = _repeat(take_turn) * load.pairs_a_turn
        lags_ms.append(store.sync_lag_ms)
        os.sync()  # or the flusher would be at its last round for seconds
    store.sync(keys)
    return rate


def _record_pair(store: GroupStore, key: GroupKey, offset: int) -> None:
    store.record(key, [MarkInflight(offset, wall_clock_ms() + VISIBLE_MS, 1)])
    store.record(key, [Ack(offset)])


def _commit(store: GroupStore) -> None:
    for error in store.commit().values():
        raise error


def _append_bare(load: Load, files: BareFiles) -> float:
    turns = load.turns
    data = PAIR * load.pairs_a_group

    def take_turn(number: int) -> None:
        for file in turns[number % len(turns)]:
            files.append(file, data)
            if load.policy is SyncPolicy.ALWAYS:
                files.sync([file])

    with files.synced_every(INTERVAL_MS / 1000):
        return _repeat(take_turn) * load.pairs_a_turn


def _repeat(take_turn: Callable[[int], None]) -> float:
    """Turns in a second, over a time in which syncs fall due."""
    start = now = time.perf_counter()
    turns = 0
    while now < start + ROUND_SECONDS:
        take_turn(turns)
        turns += 1
        now = time.perf_counter()
    return turns / (now - start)


def _rows(load: Load, rates: dict[str, list[float]], lags_ms: list[int]) -> list[Measurement]:
    is_always = load.policy is SyncPolicy.ALWAYS
    pace = "pwrite + fdatasync" if is_always else f"pwrite, fdatasync every {INTERVAL_MS} ms"
    row = compare(
        load.name,
        "pairs/s",
        rates["ours"],
        rates["bare"],
        against=pace,
        reading=f"{load.reading} Each mark and each ack is a call of its own. The peer appends the same"
        f" {len(PAIR)} bytes a pair with as many writes to as many open files, and syncs them as often."
        " Ours includes the compactions that fall due.",
    )
    if load.groups == 1:
        return [row]
    reading = (
        "how long the oldest written event has waited for its sync when a round ends, the worst round. A"
        f" round lasts {ROUND_SECONDS * 1000:.0f} ms: that much means that the syncs did not keep up at all."
    )
    return [row, Measurement(f"sync lag, {load.groups:,} groups", max(lags_ms), "ms", reading)]
