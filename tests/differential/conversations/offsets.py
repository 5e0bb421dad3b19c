"""ListOffsets and OffsetForLeaderEpoch: every special timestamp in every version, times, epochs."""

from __future__ import annotations

from collections.abc import Sequence

from barbicel.codecs.kafka.messages import ListOffsetsRequest, Message, OffsetForLeaderEpochRequest
from tests.differential.asking import TIME_MS, batch, list_offsets, new_topic, produced, versions
from tests.differential.script import Ask, Steps, conversations_of

__all__ = ["CONVERSATIONS"]


def offsets_at_special_times() -> Steps:
    yield from new_topic("offsets-special")
    yield from new_topic("offsets-empty")
    yield from produced("offsets-special", batch(3), batch(2, start=3), batch(2))
    for version in versions(ListOffsetsRequest):
        for timestamp in (-1, -2, -3, -4, -5, -6, -7, -100):
            for name in ("offsets-special", "offsets-empty"):
                label = f"{name} {timestamp}, version {version}"
                yield Ask(label, list_offsets(name, timestamp), version)


def offsets_by_time() -> Steps:
    yield from new_topic("offsets-times")
    yield from produced("offsets-times", batch(3), batch(3, start=3), batch(2))
    for version in versions(ListOffsetsRequest):
        for delta in (-1000, 0, 1, 10, 25, 30, 45, 50, 51, 1000):
            label = f"{delta} ms, version {version}"
            yield Ask(label, list_offsets("offsets-times", TIME_MS + delta), version)
    yield Ask("time 0", list_offsets("offsets-times", 0), 7)
    yield Ask("the end of time", list_offsets("offsets-times", (1 << 63) - 1), 7)


def offsets_of_what_is_not_there() -> Steps:
    yield from new_topic("offsets-wrong")
    for version in versions(ListOffsetsRequest):
        yield Ask(f"unknown partition, version {version}", list_offsets("offsets-wrong", -1, -1), version)
        yield Ask(f"unknown topic, version {version}", list_offsets("offsets-none", -1), version)
    for epoch in (0, 1):
        yield Ask(f"epoch {epoch}", list_offsets("offsets-wrong", -1, epoch=epoch), 7)
    yield Ask("isolation level 1", list_offsets("offsets-wrong", -1, isolation_level=1), 7)
    yield Ask("isolation level 9", list_offsets("offsets-wrong", -1, isolation_level=9), 7)
    yield Ask("a replica", list_offsets("offsets-wrong", -1, replica_id=1), 7)
    twice = list_offsets("offsets-wrong", -1)
    twice.topics[0].partitions *= 2
    yield Ask("named twice", twice, 7)


def leader_epochs() -> Steps:
    yield from new_topic("epochs")
    yield from produced("epochs", batch(3))
    for version in versions(OffsetForLeaderEpochRequest):
        for current, wanted in ((-1, 0), (0, 0), (-1, -1), (-1, 5), (5, 0), (-1, -5)):
            label = f"epoch {wanted} with {current}, version {version}"
            yield Ask(label, _epochs("epochs", [0], current, wanted), version)
        yield Ask(f"unknown, version {version}", _epochs("epochs", [0, 1], -1, 0), version)
        yield Ask(f"unknown topic, version {version}", _epochs("epochs-none", [0], -1, 0), version)


def _epochs(name: str, partitions: Sequence[int], current: int, wanted: int) -> Message:
    row = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    return OffsetForLeaderEpochRequest(
        replica_id=-1,
        topics=[
            row(
                topic=name,
                partitions=[
                    row.OffsetForLeaderPartition(
                        partition=number, current_leader_epoch=current, leader_epoch=wanted
                    )
                    for number in partitions
                ],
            )
        ],
    )


CONVERSATIONS = conversations_of(
    offsets_at_special_times, offsets_by_time, offsets_of_what_is_not_there, leader_epochs
)
