"""The members of one group: who they are, who leads them, who waits, which protocols they share.

No time and no states in here. Invariant: while there are members, one of them leads, and at least one
protocol is supported by all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.gateway.broker.membership.member import OBJECT_BYTES, Member, bytes_of
from barbicel.gateway.broker.membership.messages import JoinAnswer, JoinRequest, SyncAnswer
from barbicel.gateway.broker.membership.replies import PendingReply

__all__ = ["Roster"]


class Roster:
    def __init__(self) -> None:
        # In the order in which they came.
        self.members: dict[str, Member] = {}
        self.leader_id: str | None = None
        self.protocol_type: str | None = None
        # Ids that were given out and not used yet.
        self.pending: set[str] = set()
        # Members that wait for the next generation, and those that wait for their assignment.
        self.joining: dict[str, PendingReply[JoinAnswer]] = {}
        self.syncing: dict[str, PendingReply[SyncAnswer]] = {}
        # Members of this generation that have not asked for their assignment yet.
        self.unsynced: set[str] = set()
        # What all of this makes the server hold, about.
        self.held_bytes = 0
        self._member_ids_by_instance: dict[str, str] = {}
        self._supporters: Counter[str] = Counter()

    # --- who ----------------------------------------------------------------------------------------

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        self._forget_promise(member.member_id)
        self._enter(member)
        if self.leader_id is None:
            self.leader_id = member.member_id

    def promise(self, member_id: str) -> None:
        """The id is given out."""
        self.pending.add(member_id)
        self.held_bytes += OBJECT_BYTES + len(member_id)

    def _forget_promise(self, member_id: str) -> None:
        if member_id in self.pending:
            self.pending.remove(member_id)
            self.held_bytes -= OBJECT_BYTES + len(member_id)

    def remove(self, member_id: str) -> None:
        """Forget a member or an id that was given out. Its replies must have been answered."""
        self._forget_promise(member_id)
        self.unsynced.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self.held_bytes -= member.held_bytes
        self._supporters.subtract(member.protocol_names)
        self._supporters = +self._supporters
        if member.group_instance_id is not None:
            del self._member_ids_by_instance[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)

    def update(self, member: Member, request: JoinRequest) -> None:
        self._supporters.subtract(member.protocol_names)
        self.held_bytes += bytes_of(request.protocols) - bytes_of(member.protocols)
        member.protocols = request.protocols
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.effective_rebalance_timeout_ms
        self._supporters.update(member.protocol_names)
        self._supporters = +self._supporters

    def rename(self, old_id: str, new_id: str) -> Member:
        """A static member came back without its id: it keeps its place, its role and its assignment."""
        led = self.leader_id == old_id
        # Kafka leaves the old id among those that have to sync, and later rebalances because it never does.
        was_unsynced = old_id in self.unsynced
        member = replace(self.members[old_id], member_id=new_id, is_new=False)
        self.remove(old_id)
        self._enter(member)
        if led:
            self.leader_id = new_id
        if was_unsynced:
            self.unsynced.add(new_id)
        return member

    def _enter(self, member: Member) -> None:
        self.members[member.member_id] = member
        self.held_bytes += member.held_bytes
        self._supporters.update(member.protocol_names)
        if member.group_instance_id is not None:
            self._member_ids_by_instance[member.group_instance_id] = member.member_id

    def static_member_id(self, group_instance_id: str) -> str | None:
        return self._member_ids_by_instance.get(group_instance_id)

    def check(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Whether somebody is the member that it says it is."""
        if group_instance_id is not None:
            current_id = self.static_member_id(group_instance_id)
            if current_id is not None and current_id != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
            if current_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    # --- waiting ------------------------------------------------------------------------------------

    @property
    def all_joined(self) -> bool:
        return len(self.joining) == len(self.members) and not self.pending

    def not_joining(self) -> list[Member]:
        return [member for member in self.members.values() if member.member_id not in self.joining]

    def is_waiting(self, member_id: str) -> bool:
        return member_id in self.joining or member_id in self.syncing

    def elect_joining_leader(self) -> bool:
        """A leader that did not come back leads no more. False if nobody came."""
        if self.leader_id not in self.joining:
            self.leader_id = next((name for name in self.members if name in self.joining), self.leader_id)
        return self.leader_id in self.joining

    @property
    def rebalance_timeout_ms(self) -> int:
        """As long as the slowest member needs. At least 1, so that a timer never runs down when it starts."""
        return max([1, *(member.rebalance_timeout_ms for member in self.members.values())])

    # --- protocols ----------------------------------------------------------------------------------

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member with these protocols leaves everybody with one in common."""
        return protocol_type == self.protocol_type and any(
            self._supporters[name] == len(self.members) for name in names
        )

    def select_protocol(self) -> str:
        """Each member votes for its favourite of those that all support."""
        candidates = {name for name, count in self._supporters.items() if count == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]
