"""Fetch: every version, offsets everywhere in and around the log, limits, sessions, epochs."""

from __future__ import annotations

from uuid import UUID

from barbicel.codecs.kafka.messages import FetchRequest
from tests.differential.asking import batch, fetch, new_topic, produced, versions
from tests.differential.script import Ask, Steps, conversations_of

__all__ = ["CONVERSATIONS"]

BY_ID_SINCE = 13
LOG = [batch(3), batch(2, start=3), batch(4, start=5, size=300)]
END = 9


def fetch_in_every_version() -> Steps:
    identity = yield from new_topic("fetch", 2)
    yield from produced("fetch", *LOG)
    for version in versions(FetchRequest):
        by = identity if version >= BY_ID_SINCE else "fetch"
        for offset in (0, 1, 3, 4, 8, END, END + 1, -1, -2):
            yield Ask(f"offset {offset}, version {version}", fetch(by, {0: offset}), version)
        yield Ask(f"two partitions, version {version}", fetch(by, {0: 0, 1: 0}), version)
        yield Ask(f"unknown partition, version {version}", fetch(by, {2: 0}), version)
        unknown = UUID(int=77) if version >= BY_ID_SINCE else "fetch-none"
        yield Ask(f"unknown topic, version {version}", fetch(unknown, {0: 0}), version)
        yield Ask(f"read committed, version {version}", fetch(by, {0: 0}, isolation_level=1), version)
    yield Ask("isolation level 9", fetch("fetch", {0: 0}, isolation_level=9), 12)


def fetch_within_limits() -> Steps:
    yield from new_topic("fetch-limits", 2)
    yield from produced("fetch-limits", *LOG)
    yield from produced("fetch-limits", *LOG, partition=1)
    both = {0: 0, 1: 0}
    for limit in (0, 1, len(LOG[0]) - 1, len(LOG[0]), len(LOG[0]) + 1, len(LOG[0]) + len(LOG[1]), 100_000):
        yield Ask(f"{limit} bytes in all", fetch("fetch-limits", both, max_bytes=limit), 12)
        yield Ask(f"{limit} bytes of each", fetch("fetch-limits", both, partition_max_bytes=limit), 12)
        yield Ask(f"{limit} bytes of one", fetch("fetch-limits", {0: 0}, partition_max_bytes=limit), 12)
        yield Ask(f"{limit} bytes from the end", fetch("fetch-limits", {0: END, 1: 0}, max_bytes=limit), 12)
    yield Ask("negative limits", fetch("fetch-limits", both, max_bytes=-1, partition_max_bytes=-1), 12)


def fetch_that_waits() -> Steps:
    yield from new_topic("fetch-waits")
    yield from produced("fetch-waits", *LOG)
    yield Ask("nothing comes", fetch("fetch-waits", {0: END}, max_wait_ms=50), 12)
    yield Ask("too little", fetch("fetch-waits", {0: 0}, max_wait_ms=50, min_bytes=1 << 20), 12)
    yield Ask("no minimum", fetch("fetch-waits", {0: END}, max_wait_ms=5_000, min_bytes=0), 12)
    yield Ask("an error does not wait", fetch("fetch-waits", {0: 100}, max_wait_ms=5_000), 12)
    yield Ask("unknown does not wait", fetch("fetch-waits", {9: 0}, max_wait_ms=5_000), 12)


def fetch_with_sessions() -> Steps:
    identity = yield from new_topic("fetch-sessions")
    yield from produced("fetch-sessions", LOG[0])
    for version in (7, 12):
        yield Ask(f"unknown, version {version}", fetch("fetch-sessions", {0: 0}, session=(99, 1)), version)
        yield Ask(f"closed, version {version}", fetch("fetch-sessions", {0: 0}, session=(99, -1)), version)
        yield Ask(
            f"id without epoch, version {version}", fetch("fetch-sessions", {0: 0}, session=(0, 1)), version
        )
        yield Ask(f"a new one, version {version}", fetch("fetch-sessions", {0: 0}, session=(0, 0)), version)
        yield Ask(
            f"another new one, version {version}", fetch("fetch-sessions", {0: 0}, session=(99, 0)), version
        )
    yield Ask("unknown, by id", fetch(identity, {0: 0}, session=(99, 1)), 18)


def fetch_with_epochs() -> Steps:
    yield from new_topic("fetch-epochs")
    yield from produced("fetch-epochs", LOG[0])
    for version in (9, 12):
        for epoch in (-1, 0, 1, 7):
            label = f"epoch {epoch}, version {version}"
            yield Ask(label, fetch("fetch-epochs", {0: 0}, leader_epoch=epoch), version)
    request = fetch("fetch-epochs", {0: 3})
    request.topics[0].partitions[0].last_fetched_epoch = 0
    yield Ask("last fetched epoch 0", request, 12)


def fetch_as_a_replica() -> Steps:
    yield from new_topic("fetch-replica")
    for version in (4, 12):
        yield Ask(f"replica 2, version {version}", fetch("fetch-replica", {0: 0}, replica_id=2), version)


def fetch_what_is_named_twice() -> Steps:
    yield from new_topic("fetch-twice")
    yield from produced("fetch-twice", LOG[0])
    request = fetch("fetch-twice", {0: 0})
    request.topics[0].partitions.append(fetch("fetch-twice", {0: 3}).topics[0].partitions[0])
    yield Ask("a partition", request, 12)
    nothing = fetch("fetch-twice", {})
    yield Ask("no partition", nothing, 12)
    nothing.topics.clear()
    yield Ask("no topic", nothing, 12)


CONVERSATIONS = conversations_of(
    fetch_in_every_version,
    fetch_within_limits,
    fetch_that_waits,
    fetch_with_sessions,
    fetch_with_epochs,
    fetch_as_a_replica,
    fetch_what_is_named_twice,
)
