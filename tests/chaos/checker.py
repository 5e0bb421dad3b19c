"""Finds in a history what must not happen. Pure: a history in, anomalies out, a function for each kind.

The names are those that are usual for logs of this kind. An acknowledged value must be in the log once, at
the offset that was named, behind what its producer had sent before; every consumer must be given the same
values at the same offsets, one offset after the other; a commit that was answered stays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import chain, pairwise
from typing import NamedTuple

from tests.chaos.history import History, Polls, Seen, Stream, Value

__all__ = ["CHECKS", "Anomaly", "Facts", "check"]


class Anomaly(NamedTuple):
    kind: str
    partition: int | None
    evidence: str

    def __str__(self) -> str:
        place = "" if self.partition is None else f" in partition {self.partition}"
        return f"{self.kind}{place}: {self.evidence}"


class Facts:
    """A history with what several checks look up."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.value_at = {
            (partition, seen.offset): seen.value
            for partition, polled in history.log.items()
            for seen in polled
        }
        self.offsets_of: dict[Value, list[int]] = defaultdict(list)
        for partition, polled in history.log.items():
            for seen in polled:
                if seen.value is not None and seen.value.stream.partition == partition:
                    self.offsets_of[seen.value].append(seen.offset)

    def polls(self) -> Iterator[tuple[str, int, list[Seen]]]:
        """Everything that anybody was given: (who, partition, records)."""
        everyone: dict[str, Polls] = {**self.history.readers, **self.history.members, "log": self.history.log}
        for name, polls in everyone.items():
            for partition, polled in polls.items():
                yield name, partition, polled


def check(history: History) -> list[Anomaly]:
    facts = Facts(history)
    return list(chain.from_iterable(find(facts) for find in CHECKS))


# --- what was written -----------------------------------------------------------------------------------


def lost_writes(facts: Facts) -> Iterator[Anomaly]:
    for stream, acked in facts.history.acked.items():
        for sequence, offset in acked.items():
            value = Value(stream, sequence)
            if value not in facts.offsets_of:
                found = facts.value_at.get((stream.partition, -1 if offset is None else offset))
                evidence = f"{value} was acknowledged at {offset}, where {found} is now"
                yield Anomaly("lost-write", stream.partition, evidence)


def misplaced_writes(facts: Facts) -> Iterator[Anomaly]:
    for stream, acked in facts.history.acked.items():
        for sequence, offset in acked.items():
            found = facts.offsets_of.get(Value(stream, sequence))
            if found and offset is not None and offset not in found:
                evidence = f"{Value(stream, sequence)} was acknowledged at {offset} and is at {found}"
                yield Anomaly("misplaced-write", stream.partition, evidence)


def duplicates(facts: Facts) -> Iterator[Anomaly]:
    for value, offsets in facts.offsets_of.items():
        if len(offsets) > 1 and value.stream.producer not in facts.history.may_repeat:
            yield Anomaly("duplicate", value.stream.partition, f"{value} is at {offsets}")


def reorderings(facts: Facts) -> Iterator[Anomaly]:
    """Of a value that was repeated the first copy counts."""
    by_stream: dict[Stream, list[tuple[int, int]]] = defaultdict(list)
    for value, offsets in facts.offsets_of.items():
        by_stream[value.stream].append((offsets[0], value.sequence))
    for stream, places in by_stream.items():
        for (before, first), (offset, second) in pairwise(sorted(places)):
            if second < first:
                evidence = f"{stream.producer}/{first} is at {before}, {stream.producer}/{second} at {offset}"
                yield Anomaly("reordering", stream.partition, evidence)


def refused_writes(facts: Facts) -> Iterator[Anomaly]:
    """Clients retry without end, so a send may fail only where the gateway was meant to refuse it."""
    for stream, failed in facts.history.failed.items():
        for sequence, failure in failed.items():
            if not failure.is_certain:
                yield Anomaly(
                    "refused-write", stream.partition, f"{Value(stream, sequence)}: {failure.reason}"
                )


def unanswered_writes(facts: Facts) -> Iterator[Anomaly]:
    for stream, count in facts.history.sent.items():
        answered = facts.history.acked.get(stream, {}).keys() | facts.history.failed.get(stream, {}).keys()
        missing = sorted(set(range(count)) - answered)
        if missing:
            evidence = f"{stream.producer}: {len(missing)} values from {missing[0]} on were never answered"
            yield Anomaly("unanswered-write", stream.partition, evidence)


# --- what was read --------------------------------------------------------------------------------------


def aborted_reads(facts: Facts) -> Iterator[Anomaly]:
    """Somebody was given what the gateway had refused."""
    for name, partition, polled in facts.polls():
        for offset, value in polled:
            failure = (
                None if value is None else facts.history.failed.get(value.stream, {}).get(value.sequence)
            )
            if failure is not None and failure.is_certain:
                evidence = f"{name} was given {value} at {offset}, refused: {failure.reason}"
                yield Anomaly("aborted-read", partition, evidence)


def foreign_reads(facts: Facts) -> Iterator[Anomaly]:
    """Somebody was given what nobody had sent there."""
    for name, partition, polled in facts.polls():
        for offset, value in polled:
            if (
                value is None
                or value.stream.partition != partition
                or value.sequence >= facts.history.sent.get(value.stream, 0)
            ):
                yield Anomaly("foreign-read", partition, f"{name} was given {value} at {offset}")


def inconsistent_offsets(facts: Facts) -> Iterator[Anomaly]:
    """Two consumers, or one and the log at the end, do not agree on what is at an offset."""
    first_given: dict[tuple[int, int], tuple[str, Value | None]] = {}
    for name, partition, polled in facts.polls():
        for offset, value in polled:
            other, known = first_given.setdefault((partition, offset), (name, value))
            if known != value:
                evidence = f"at {offset} {other} was given {known}, {name} {value}"
                yield Anomaly("inconsistent-offset", partition, evidence)


def vanished_reads(facts: Facts) -> Iterator[Anomaly]:
    """Somebody was given what the log does not have at the end."""
    for name, partition, polled in facts.polls():
        for offset, value in polled:
            if (partition, offset) not in facts.value_at:
                yield Anomaly("vanished-read", partition, f"{name} was given {value} at {offset}")


def nonmonotonic_polls(facts: Facts) -> Iterator[Anomaly]:
    for name, partition, polled in facts.polls():
        for before, after in pairwise(polled):
            if after.offset <= before.offset:
                evidence = (
                    f"{name} was given {before.offset} ({before.value}), then {after.offset} ({after.value})"
                )
                yield Anomaly("nonmonotonic-poll", partition, evidence)


def poll_skips(facts: Facts) -> Iterator[Anomaly]:
    """Every offset has a record, so the next one given is the next one there is."""
    for name, partition, polled in facts.polls():
        for before, after in pairwise(polled):
            if after.offset > before.offset + 1:
                evidence = (
                    f"{name} was given {before.offset} ({before.value}), then {after.offset} ({after.value})"
                )
                yield Anomaly("poll-skip", partition, evidence)
    for name, polls in {**facts.history.readers, "log": facts.history.log}.items():
        for partition, polled in polls.items():
            if polled and polled[0].offset != 0:
                yield Anomaly("poll-skip", partition, f"{name} began at {polled[0].offset}, not at 0")


def unseen_values(facts: Facts) -> Iterator[Anomaly]:
    """At the end everybody has had the time to be given everything."""
    history = facts.history
    for name, polls in {**history.readers, "log": history.log}.items():
        for partition, end in history.ends.items():
            reached = max((seen.offset + 1 for seen in polls.get(partition, ())), default=0)
            if reached != end:
                yield Anomaly(
                    "unseen", partition, f"{name} was given all up to {reached}, the log ends at {end}"
                )


# --- groups ---------------------------------------------------------------------------------------------


def unseen_by_the_group(facts: Facts) -> Iterator[Anomaly]:
    """The members together must have been given, and have committed, everything."""
    members = facts.history.members.values()
    for partition, end in facts.history.ends.items() if members else ():
        given = {seen.offset for polls in members for seen in polls.get(partition, ())}
        missing = sorted(set(range(end)) - given)
        if missing:
            evidence = f"{len(missing)} offsets from {missing[0]} on, the log ends at {end}"
            yield Anomaly("unseen-by-group", partition, evidence)
        commits = facts.history.commits.get(partition, ())
        last = max((commit.offset for commit in commits if commit.answered is not None), default=0)
        if last != end:
            yield Anomaly("unseen-by-group", partition, f"committed up to {last}, the log ends at {end}")


def lost_commits(facts: Facts) -> Iterator[Anomaly]:
    """A position below a commit that had been answered.

    It is called stale if it is one that a member had asked for and was given no answer to: then nothing was
    lost from the disk, but a commit was taken from a member that had lost its partitions.
    """
    for partition, positions in facts.history.positions.items():
        commits = facts.history.commits.get(partition, [])
        for asked, answered, offset in positions:
            stored = max(
                (commit.offset for commit in commits if (commit.answered or asked) < asked), default=0
            )
            if offset < stored:
                same = [commit for commit in commits if commit.offset == offset]
                is_stale = bool(same) and all(commit.answered is None for commit in same)
                whose = f", which {same[0].who} had asked for at {same[0].asked}" if same else ""
                evidence = f"{stored} was committed, between {asked} and {answered} it was {offset}{whose}"
                yield Anomaly("stale-commit" if is_stale else "lost-commit", partition, evidence)


def invented_commits(facts: Facts) -> Iterator[Anomaly]:
    """A position beyond every commit that had been asked for."""
    for partition, positions in facts.history.positions.items():
        commits = facts.history.commits.get(partition, [])
        for _, answered, offset in positions:
            tried = max((commit.offset for commit in commits if commit.asked < answered), default=0)
            if offset > tried:
                evidence = f"the group was told {offset}, nobody committed more than {tried}"
                yield Anomaly("invented-commit", partition, evidence)


def backward_commits(facts: Facts) -> Iterator[Anomaly]:
    """A commit that was stored although a later position had been stored before it was asked for."""
    for partition, commits in facts.history.commits.items():
        stored = [commit for commit in commits if commit.answered is not None]
        for commit in stored:
            earlier = [other.offset for other in stored if (other.answered or 0) < commit.asked]
            if commit.offset < max(earlier, default=0):
                evidence = f"{commit.offset} was committed after {max(earlier)}"
                yield Anomaly("backward-commit", partition, evidence)


def troubles(facts: Facts) -> Iterator[Anomaly]:
    for trouble in facts.history.troubles:
        yield Anomaly("trouble", None, trouble)


CHECKS: tuple[Callable[[Facts], Iterator[Anomaly]], ...] = (
    lost_writes,
    misplaced_writes,
    duplicates,
    reorderings,
    refused_writes,
    unanswered_writes,
    aborted_reads,
    foreign_reads,
    inconsistent_offsets,
    vanished_reads,
    nonmonotonic_polls,
    poll_skips,
    unseen_values,
    unseen_by_the_group,
    lost_commits,
    invented_commits,
    backward_commits,
    troubles,
)
