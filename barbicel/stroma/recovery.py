"""What the files of a group hold, and what has to be done before it can be used: a plan, nothing is changed.

A torn delta loses acks that were never known to be synced: they are delivered again. A snapshot that is
damaged, or gone while its delta says that there was one, is an error and never an empty group.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from barbicel.codecs.stroma_events import (
    DELTA_HEADER_BYTES,
    BumpAckedUntil,
    Commit,
    Event,
    Reset,
    decode_delta_header,
    decode_events,
    find_event,
)
from barbicel.codecs.stroma_snapshot import Snapshot, decode_snapshot
from barbicel.disk import Disk, read_file
from barbicel.errors import CorruptFile, UnknownVersion
from barbicel.stroma.layout import GroupFiles
from barbicel.stroma.names import GroupKey
from barbicel.stroma.state import GroupState

__all__ = ["GroupPlan", "TornDelta", "plan_group"]

# Far beyond what compaction lets a file grow to; a larger one is not read into memory.
MAX_FILE_BYTES = 1 << 30


class TornDelta(NamedTuple):
    """What a crash left behind the last whole event, to be cut off and kept aside."""

    position: int
    end_position: int
    reason: str
    whole_events: int


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """One group: its state, and what has to be done with its files."""

    key: GroupKey
    files: GroupFiles
    snapshot: Snapshot | None
    snapshot_bytes: int
    # What the delta adds to the snapshot, in order; empty if it is void or absent.
    events: tuple[Event, ...]
    # The delta's size up to its last whole event; 0 if a new one has to be made.
    delta_bytes: int
    # Of the delta that events are appended to from now on.
    generation: int
    # To do, each only if set:
    torn: TornDelta | None = None
    # Why the group cannot be used before a repair.
    damage: str | None = None
    exists: bool = True

    def state(self) -> GroupState:
        """The state as of the last event."""
        state = GroupState() if self.snapshot is None else GroupState.of(self.snapshot)
        for event in self.events:
            state.apply(event)
        return state

    def reaches(self, end_offset: int) -> bool:
        """Whether the files say anything about offsets from there on.

        Also if a later event takes it back: that one may not be durable, and then the earlier one counts.
        """
        if self.snapshot is not None and GroupState.of(self.snapshot).reaches(end_offset):
            return True
        return any(_end_of(event) > end_offset for event in self.events)

    @property
    def actions(self) -> tuple[str, ...]:
        """What opening or repairing the group would do, a line each, for people."""
        lines = []
        if self.damage is not None:
            lines.append(f"rebuild the group: {self.damage}")
        if self.torn is not None:
            lines.append(
                f"cut {self.files.delta} at byte {self.torn.position}, "
                f"{self.torn.end_position - self.torn.position} bytes kept aside: {self.torn.reason}"
            )
            if self.torn.whole_events:
                lines.append(f"  with {self.torn.whole_events} whole events behind the torn place")
        if self.exists and not self.delta_bytes and self.damage is None:
            lines.append(f"begin a new {self.files.delta}")
        return tuple(lines)


def _end_of(event: Event) -> int:
    """The first offset behind those that the event says something about."""
    match event:
        case Reset():
            return 0
        case Commit() | BumpAckedUntil():
            return event.acked_until
        case _:
            return event.offset + 1


def plan_group(disk: Disk, files: GroupFiles, key: GroupKey) -> GroupPlan:
    """Raises DiskError if something cannot be read, UnknownVersion if a newer program wrote it."""
    snapshot, snapshot_bytes, damage = _read_snapshot(disk, files, key)
    # Of the delta that belongs behind the snapshot.
    following = 1 if snapshot is None else snapshot.generation + 1
    plan = GroupPlan(key, files, snapshot, snapshot_bytes, (), 0, following, damage=damage)
    if not disk.exists(files.delta):
        return replace(plan, exists=damage is not None or snapshot is not None)
    data = read_file(disk, files.delta, MAX_FILE_BYTES)
    try:
        generation, damage = _read_generation(files, data, following, damage)
        if snapshot is not None and 1 <= generation < following:
            return plan  # a crash between the snapshot and the new delta: the snapshot has it all
        events, torn = _read_events(data)
    except CorruptFile as error:
        error.path = files.delta
        if isinstance(error, UnknownVersion):
            raise
        # What the delta said is not known, so neither is what the snapshot is still worth.
        return replace(plan, snapshot=None, damage=damage or str(error))
    if damage is None and generation > following:
        damage = f"{files.delta} continues a snapshot of generation {generation - 1}, which is missing"
    return replace(
        plan,
        events=tuple(events),
        delta_bytes=len(data) if torn is None else torn.position,
        generation=generation,
        torn=torn,
        damage=damage,
    )


def _read_generation(
    files: GroupFiles, data: bytes, following: int, damage: str | None
) -> tuple[int, str | None]:
    """The delta's generation. Behind a damaged header the events still count: a repair will want them."""
    try:
        return decode_delta_header(data).generation, damage
    except CorruptFile as error:
        error.path = files.delta
        if isinstance(error, UnknownVersion) or len(data) < DELTA_HEADER_BYTES:
            raise
        return following, damage or str(error)


def _read_snapshot(disk: Disk, files: GroupFiles, key: GroupKey) -> tuple[Snapshot | None, int, str | None]:
    """The snapshot, its size, and what is wrong with it."""
    if not disk.exists(files.snapshot):
        return None, 0, None
    data = read_file(disk, files.snapshot, MAX_FILE_BYTES)
    try:
        snapshot = decode_snapshot(data)
        if (snapshot.tp_hash, snapshot.group_hash) != (key.tp_hash, key.group_hash):
            raise CorruptFile("the snapshot is that of another group", position=24)
    except CorruptFile as error:
        error.path = files.snapshot
        if isinstance(error, UnknownVersion):
            raise
        return None, len(data), str(error)
    return snapshot, len(data), None


def _read_events(data: bytes) -> tuple[list[Event], TornDelta | None]:
    if len(data) >= MAX_FILE_BYTES:
        raise CorruptFile(f"a delta of {MAX_FILE_BYTES} bytes or more", position=MAX_FILE_BYTES)
    decoded = decode_events(data, DELTA_HEADER_BYTES)
    if decoded.problem is None:
        return decoded.events, None
    behind = _whole_events_behind(data, decoded.position)
    return decoded.events, TornDelta(decoded.position, len(data), decoded.problem, behind)


def _whole_events_behind(data: bytes, position: int) -> int:
    count = 0
    at = find_event(data, position + 1)
    while at >= 0:
        try:
            found = decode_events(data, at)
        except CorruptFile:
            found = None
        if found is not None and found.events:
            count += len(found.events)
            at = find_event(data, found.position)
        else:
            at = find_event(data, at + 1)
    return count
