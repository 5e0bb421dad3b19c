"""Where consumer groups are, as a running server tells it: positions, lags, members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from barbicel.cli.partitions import end_offsets
from barbicel.cli.server import ServerRefused

__all__ = ["GroupRow", "Member", "Position", "read_group_names", "read_groups"]


class Position(NamedTuple):
    """The end is None if the partition is gone or offline. `member` is who has the partition now."""

    topic: str
    partition: int
    committed_offset: int | None
    end_offset: int | None
    member: str | None

    @property
    def lag(self) -> int | None:
        if self.end_offset is None or self.committed_offset is None:
            return None
        return max(0, self.end_offset - self.committed_offset)


class Member(NamedTuple):
    member_id: str
    client_id: str
    host: str
    partitions: list[tuple[str, int]]


class GroupRow(NamedTuple):
    name: str
    state: str
    members: list[Member]
    positions: list[Position]

    @property
    def lag(self) -> int:
        return sum(position.lag or 0 for position in self.positions)


def read_group_names(admin: Any) -> list[str]:
    return sorted(group["group_id"] for group in admin.list_groups())


def read_groups(admin: Any, names: Sequence[str]) -> list[GroupRow]:
    """Raises ServerRefused if there is no such group."""
    if not names:
        return []
    described = admin.describe_groups(list(names))
    for name, group in described.items():
        if group["error"]:
            raise ServerRefused(f"group {name}: {group['error'].partition('Error: ')[2] or group['error']}")
    committed = admin.list_group_offsets(list(names))
    members = {name: [_member(row) for row in described[name]["members"]] for name in names}
    places = {place for offsets in committed.values() for place in offsets}
    ends = end_offsets(admin, _existing(admin, places))
    return [
        GroupRow(
            name,
            described[name]["group_state"],
            members[name],
            _positions(committed[name], ends, members[name]),
        )
        for name in names
    ]


def _member(row: dict[str, Any]) -> Member:
    """A member that has not joined to the end has no assignment yet."""
    assignment = row["member_assignment"]
    given = assignment["assigned_partitions"] if isinstance(assignment, dict) else []
    partitions = [(one["topic"], number) for one in given for number in one["partitions"]]
    return Member(row["member_id"], row["client_id"], row["client_host"].lstrip("/"), sorted(partitions))


def _existing(admin: Any, places: set[Any]) -> set[Any]:
    """A group may remember topics that are gone, and asking for one of them fails all."""
    topics = sorted({place.topic for place in places})
    described = admin.describe_topics(topics) if topics else []
    known = {
        (topic["name"], partition["partition_index"])
        for topic in described
        if not topic["error_code"]
        for partition in topic["partitions"]
    }
    return {place for place in places if tuple(place) in known}


def _positions(committed: dict[Any, Any], ends: dict[Any, int], members: Sequence[Member]) -> list[Position]:
    """What was committed, and what a member has that never committed in it."""
    owners = {place: member.member_id for member in members for place in member.partitions}
    offsets = {tuple(place): told.offset for place, told in committed.items() if told.offset >= 0}
    known_ends = {tuple(place): end for place, end in ends.items()}
    return [
        Position(
            topic,
            partition,
            offsets.get((topic, partition)),
            known_ends.get((topic, partition)),
            owners.get((topic, partition)),
        )
        for topic, partition in sorted({*offsets, *owners})
    ]
