"""What the files of a group hold, and what has to be done before it can be used: a plan, nothing is changed.

A torn delta loses acks that were never known to be synced: they are delivered again. A snapshot that is
damaged, or gone while its delta says that there was one, is an error and never an empty group. Only the
first delta of a group, under the name that says that it was never synced as a whole, may be torn to nothing.
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
    count_events,
    decode_delta_header,
    decode_events,
)
from barbicel.codecs.stroma_snapshot import Snapshot, decode_snapshot
from barbicel.disk import Disk, read_file
from barbicel.errors import CorruptFile, CorruptGroup, UnknownVersion
from barbicel.stroma.layout import GroupFiles
from barbicel.stroma.names import GroupKey
from barbicel.stroma.state import GroupState

__all__ = ["GroupPlan", "TornDelta", "plan_group"]

# Beyond what a store lets a file grow to; a larger one is not read into memory.
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
    # The delta's size up to its last whole event; 0 if a new one has to be made...
    delta_bytes: int
    # Of the delta that events are appended to from now on.
    generation: int
    # ...with these events at its front: the old one is void up to them.
    tail: bytes = b""
    # The delta is that of a new group, and not known to be durable.
    is_begun: bool = False
    # To do, each only if set:
    torn: TornDelta | None = None
    # Why the group cannot be used before a repair.
    damage: str | None = None
    exists: bool = True

    @property
    def delta_path(self) -> str:
        return self.files.begun if self.is_begun else self.files.delta

    def state(self) -> GroupState:
        """The state as of the last event."""
        state = GroupState() if self.snapshot is None else GroupState.of(self.snapshot)
        for event in self.events:
            state.apply(event)
        return state

    def usable_state(self) -> GroupState:
        """The same. Raises CorruptGroup if the files are damaged: that takes a repair."""
        if self.damage is not None:
            raise CorruptGroup(self.key, self.damage, path=self.files.store.root)
        return self.state()

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
                f"cut {self.delta_path} at byte {self.torn.position}, "
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
        plan = replace(plan, is_begun=disk.exists(files.begun))
        if not plan.is_begun:
            return replace(plan, exists=damage is not None or snapshot is not None)
    try:
        return _with_delta(plan, _read_bounded(disk, plan.delta_path))
    except CorruptFile as error:
        error.path = plan.delta_path
        if isinstance(error, UnknownVersion):
            raise
        # What the delta said is not known, so neither is what the snapshot is still worth.
        return replace(plan, snapshot=None, damage=damage or str(error))


def _with_delta(plan: GroupPlan, data: bytes) -> GroupPlan:
    """Raises CorruptFile if it is not known what the delta says."""
    if plan.is_begun and not _has_header(data):
        # It was never synced, so a power cut explains it; nothing of it was promised to survive one.
        torn = TornDelta(0, len(data), "no header", count_events(data, 0)) if data else None
        return replace(plan, torn=torn, exists=plan.snapshot is not None or plan.damage is not None)
    generation, damage = _read_generation(plan, data)
    snapshot = plan.snapshot
    if snapshot is not None and 1 <= generation < plan.generation:
        return _with_tail(plan, data, snapshot.delta_position if generation == snapshot.generation else 0)
    events, torn = _read_events(data, DELTA_HEADER_BYTES)
    if generation > plan.generation:
        # An older snapshot may say too much: a commit backwards may have followed it.
        snapshot = None
        damage = damage or (
            f"{plan.delta_path} continues a snapshot of generation {generation - 1}, which is missing"
        )
    return replace(
        plan,
        snapshot=snapshot,
        events=tuple(events),
        delta_bytes=len(data) if torn is None else torn.position,
        generation=generation,
        torn=torn,
        damage=damage,
    )


def _with_tail(plan: GroupPlan, data: bytes, position: int) -> GroupPlan:
    """A crash between the snapshot and the new delta: the snapshot has all but what was written meanwhile."""
    if not DELTA_HEADER_BYTES <= position < len(data):
        return plan
    events, torn = _read_events(data, position)
    end = len(data) if torn is None else torn.position
    return replace(plan, events=tuple(events), tail=data[position:end], torn=torn)


def _has_header(data: bytes) -> bool:
    try:
        decode_delta_header(data)
    except UnknownVersion:
        raise
    except CorruptFile:
        return False
    return True


def _read_generation(plan: GroupPlan, data: bytes) -> tuple[int, str | None]:
    """The delta's generation. Behind a damaged header the events still count: a repair will want them."""
    try:
        return decode_delta_header(data).generation, plan.damage
    except CorruptFile as error:
        error.path = plan.delta_path
        if isinstance(error, UnknownVersion) or len(data) < DELTA_HEADER_BYTES:
            raise
        return plan.generation, plan.damage or str(error)


def _read_bounded(disk: Disk, path: str) -> bytes:
    """Raises CorruptFile for a file that is too large, before it is read."""
    size = disk.size(path) or 0
    if size >= MAX_FILE_BYTES:
        raise CorruptFile(f"{size} bytes, less than {MAX_FILE_BYTES} are possible", path=path)
    return read_file(disk, path, MAX_FILE_BYTES)


def _read_snapshot(disk: Disk, files: GroupFiles, key: GroupKey) -> tuple[Snapshot | None, int, str | None]:
    """The snapshot, its size, and what is wrong with it."""
    if not disk.exists(files.snapshot):
        return None, 0, None
    size = 0
    try:
        data = _read_bounded(disk, files.snapshot)
        size = len(data)
        snapshot = decode_snapshot(data)
        if (snapshot.tp_hash, snapshot.group_hash) != (key.tp_hash, key.group_hash):
            raise CorruptFile("the snapshot is that of another group", position=24)
    except CorruptFile as error:
        error.path = files.snapshot
        if isinstance(error, UnknownVersion):
            raise
        return None, size, str(error)
    return snapshot, size, None


def _read_events(data: bytes, position: int) -> tuple[list[Event], TornDelta | None]:
    decoded = decode_events(data, position)
    if decoded.problem is None:
        return decoded.events, None
    behind = count_events(data, decoded.position + 1)
    return decoded.events, TornDelta(decoded.position, len(data), decoded.problem, behind)
