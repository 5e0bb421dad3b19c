"""What can be found in a directory of groups: each group, what is wrong with it, and what else lies there."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from barbicel.codecs.stroma_snapshot import Inflight
from barbicel.stroma.layout import GroupFiles
from barbicel.stroma.names import GroupKey
from barbicel.stroma.ranges import Range
from barbicel.stroma.recovery import TornDelta

__all__ = ["Finding", "Findings", "Sample", "Selection", "Summary", "Verdict"]


class Verdict(IntEnum):
    """What is to be said of a group, or of the worst one of many; the number is the exit code of `verify`."""

    SOUND = 0
    # Opening the group does what is to be done.
    RECOVERABLE = 1
    # A file cannot be read, or a newer program wrote it: not even a repair may touch it.
    UNREADABLE = 2
    # The group cannot be used, or not be found: only a repair changes that.
    DAMAGED = 3


class Selection(NamedTuple):
    """The groups that are asked for; None is any."""

    topic: str | None = None
    partition: int | None = None
    group: str | None = None

    @property
    def is_everything(self) -> bool:
        return all(wanted is None for wanted in self)

    @property
    def key(self) -> GroupKey | None:
        """The one group that is asked for, if it is one."""
        if not self.topic or self.partition is None or self.group is None:
            return None
        return GroupKey(self.topic, self.partition, self.group)

    def matches(self, key: GroupKey) -> bool:
        return all(wanted is None or wanted == field for wanted, field in zip(self, key, strict=True))


class Sample(NamedTuple):
    """The first entries of a group's tables."""

    ranges: tuple[Range, ...]
    inflight: tuple[tuple[int, Inflight], ...]
    releases: tuple[tuple[int, int], ...]


class Summary(NamedTuple):
    """A group's state in numbers."""

    acked_until: int
    # Acked beyond the frontier.
    acked_ranges: int
    acked_offsets: int
    inflight: int
    releases: int
    is_committed: bool
    leader_epoch: int | None
    metadata: bytes | None
    next_deadline_ms: int | None
    sample: Sample | None


@dataclass(frozen=True, slots=True)
class Finding:
    """One group as it was found."""

    key: GroupKey
    files: GroupFiles
    # None if it is not known, because of `damage` or `unreadable`.
    state: Summary | None = None
    # What a repair makes of a damaged group.
    rebuilt: Summary | None = None
    # The frontier as far as the files tell; None if they do not.
    known_until: int | None = None
    generation: int | None = None
    snapshot_bytes: int = 0
    delta_bytes: int = 0
    events: int = 0
    torn: TornDelta | None = None
    # Where the delta is, or is to be.
    delta_path: str = ""
    # A new delta has to be begun, in the place of a void one or where none is.
    is_delta_void: bool = False
    is_delta_missing: bool = False
    # The file of a hashed name that holds the full one is there and right; True if there is no need of it.
    has_name: bool = True
    damage: str | None = None
    unreadable: str | None = None

    @property
    def needs_recovery(self) -> bool:
        return self.torn is not None or self.is_delta_void or self.is_delta_missing

    @property
    def verdict(self) -> Verdict:
        if self.unreadable is not None:
            return Verdict.UNREADABLE
        if self.damage is not None or not self.has_name:
            return Verdict.DAMAGED
        return Verdict.RECOVERABLE if self.needs_recovery else Verdict.SOUND


@dataclass(frozen=True, slots=True)
class Findings:
    """A directory of groups as it was found, or the selected part of it."""

    root: str
    # The process that has the groups open, as Disk.lock_holder tells it.
    holder: str | None
    groups: tuple[Finding, ...]
    # Files of groups with a hashed name whose full name is missing or wrong: nobody knows whose they are.
    unnamed: tuple[str, ...]
    # Names that are no group's. Neither these nor the unnamed are told if only some groups are asked for.
    foreign: tuple[str, ...]
    # The evidence that recovery and earlier repairs kept.
    asides: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        worst = max((finding.verdict for finding in self.groups), default=Verdict.SOUND)
        return Verdict.DAMAGED if self.unnamed else worst
