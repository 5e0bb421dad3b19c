"""One group and its rebalances.

A generation begins when all members have joined, or when their time is up. The leader's assignment makes it
stable. Whatever changes the members, or what they want, begins the next one:

    Empty → PreparingRebalance → CompletingRebalance → Stable → PreparingRebalance → ...

Invariant: a member either waits for an answer or has a session that runs; a new one has both.
"""

from __future__ import annotations

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.gateway.broker.membership.member import Member
from barbicel.gateway.broker.membership.messages import (
    JoinAnswer,
    JoinedMember,
    JoinRequest,
    SyncAnswer,
)
from barbicel.gateway.broker.membership.replies import Outbox, PendingReply
from barbicel.gateway.broker.membership.roster import Roster
from barbicel.gateway.broker.membership.settings import GroupSettings
from barbicel.gateway.broker.membership.states import NEXT_STATES, GroupState
from barbicel.gateway.broker.membership.subscription import CONSUMER_PROTOCOL_TYPE, Subscriptions
from barbicel.gateway.broker.membership.timers import TimerKey, TimerKind, Timers

__all__ = ["Group"]


class Group:
    def __init__(self, group_id: str, settings: GroupSettings, timers: Timers, outbox: Outbox) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.generation_id = 0
        self.protocol_name: str | None = None
        self.roster = Roster()
        # Of the newest generation; None before the first one.
        self.subscriptions: Subscriptions | None = None
        self.settings = settings
        self._timers = timers
        self._outbox = outbox
        self._join_timer = TimerKey(TimerKind.JOIN, group_id)
        self._sync_timer = TimerKey(TimerKind.SYNC, group_id)
        # The first rebalance of an empty group waits for a while, also if everybody that it knows is there.
        self._is_initial = False
        self._has_grown = False
        self._delay_left_ms = 0
        self._assigned_bytes = 0

    @property
    def held_bytes(self) -> int:
        """What it makes the server hold, about."""
        return self.roster.held_bytes + self._assigned_bytes

    @property
    def is_vacant(self) -> bool:
        """Nothing in it is worth keeping."""
        return self.state is GroupState.EMPTY and not self.roster.pending

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.roster.protocol_type == CONSUMER_PROTOCOL_TYPE

    def die(self) -> None:
        """Leave nothing behind. Only for an empty group."""
        for member_id in list(self.roster.pending):
            self.drop(member_id)
        self._move_to(GroupState.DEAD)

    def _move_to(self, state: GroupState) -> None:
        assert state in NEXT_STATES[self.state], f"{self.state.value} to {state.value} in {self.group_id}"
        self.state = state

    # --- members ------------------------------------------------------------------------------------

    def promise_id(self, member_id: str, session_timeout_ms: int, now_ms: int) -> None:
        """The id is good for as long as a session. KIP-394."""
        self.roster.promise(member_id)
        self._timers.start(self._session(member_id), now_ms + session_timeout_ms)

    def add(self, member_id: str, request: JoinRequest, reply: PendingReply[JoinAnswer], now_ms: int) -> None:
        self._has_grown = self._is_initial
        self.roster.add(Member.from_request(member_id, request), request.protocol_type)
        self.roster.joining[member_id] = reply
        self._timers.start(self._session(member_id), now_ms + self.settings.new_member_join_timeout_ms)
        self.rebalance(now_ms)

    def update(self, member: Member, request: JoinRequest, reply: PendingReply[JoinAnswer]) -> None:
        """The member joins again. What it asked before, if that still waits, is history."""
        self.roster.update(member, request)
        earlier = self.roster.joining.pop(member.member_id, None)
        if earlier is not None:
            self.answer(earlier, JoinAnswer(ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id))
        self.roster.joining[member.member_id] = reply
        if not member.is_new:
            self._timers.stop(self._session(member.member_id))

    def rename(self, old_id: str, new_id: str) -> Member:
        """KIP-345: whoever still uses the old id is fenced, at once if it waits."""
        self._end_waits(old_id, ErrorCode.FENCED_INSTANCE_ID, told_id=old_id)
        self._timers.stop(self._session(old_id))
        return self.roster.rename(old_id, new_id)

    def drop(self, member_id: str) -> None:
        """Forget a member or an id that was given out. The caller sees to the rebalance."""
        self._end_waits(member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        self._timers.stop(self._session(member_id))
        self.roster.remove(member_id)

    def keep_alive(self, member_id: str, now_ms: int) -> None:
        """The member gave a sign of life. One that waits needs none."""
        if not self.roster.is_waiting(member_id):
            timeout_ms = self.roster.members[member_id].session_timeout_ms
            self._timers.start(self._session(member_id), now_ms + timeout_ms)

    def expire_session(self, member_id: str, now_ms: int) -> None:
        was_pending = member_id in self.roster.pending
        self.drop(member_id)
        if was_pending:
            self.try_complete_join(now_ms)
        else:
            self.rebalance(now_ms)

    def _session(self, member_id: str) -> TimerKey:
        return TimerKey(TimerKind.SESSION, self.group_id, member_id)

    def _end_waits(self, member_id: str, error: ErrorCode, told_id: str = "") -> None:
        join = self.roster.joining.pop(member_id, None)
        if join is not None:
            self.answer(join, JoinAnswer(error, member_id=told_id))
        sync = self.roster.syncing.pop(member_id, None)
        if sync is not None:
            self.answer_sync(sync, SyncAnswer(error))

    # --- answers ------------------------------------------------------------------------------------

    def answer(self, reply: PendingReply[JoinAnswer], answer: JoinAnswer) -> None:
        self._outbox.put(reply, answer)

    def answer_sync(self, reply: PendingReply[SyncAnswer], answer: SyncAnswer) -> None:
        self._outbox.put(reply, answer)

    def generation_for(self, member_id: str) -> JoinAnswer:
        """The current generation as this member sees it."""
        leads = member_id == self.roster.leader_id
        return JoinAnswer(
            ErrorCode.NONE,
            member_id=member_id,
            generation_id=self.generation_id,
            protocol_type=self.roster.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.roster.leader_id or "",
            members=self._joined_members() if leads else (),
        )

    def assignment_for(self, member: Member) -> SyncAnswer:
        return SyncAnswer(
            ErrorCode.NONE,
            protocol_type=self.roster.protocol_type,
            protocol_name=self.protocol_name,
            assignment=member.assignment,
        )

    def _joined_members(self) -> tuple[JoinedMember, ...]:
        assert self.protocol_name is not None
        return tuple(
            JoinedMember(member.member_id, member.group_instance_id, member.metadata(self.protocol_name))
            for member in self.roster.members.values()
        )

    # --- PreparingRebalance -------------------------------------------------------------------------

    def rebalance(self, now_ms: int) -> None:
        """The members changed: prepare the next generation, or complete it if this was what it waited for."""
        if GroupState.PREPARING_REBALANCE not in NEXT_STATES[self.state]:
            self.try_complete_join(now_ms)
            return
        self._void_syncs(now_ms)
        self._is_initial = self.state is GroupState.EMPTY
        self._move_to(GroupState.PREPARING_REBALANCE)
        if self._is_initial:
            self._begin_initial_delay(now_ms)
        elif self.roster.all_joined:
            self.complete_join(now_ms)
        else:
            self._restart_join_timer(self.roster.rebalance_timeout_ms, now_ms)

    def try_complete_join(self, now_ms: int) -> None:
        if self.state is GroupState.PREPARING_REBALANCE and not self._is_initial and self.roster.all_joined:
            self.complete_join(now_ms)

    def expire_join(self, now_ms: int) -> None:
        """The time to join is up; an empty group that is still growing gets some more."""
        if self._has_grown and self._delay_left_ms:
            self._has_grown = False
            delay_ms = min(self.settings.initial_rebalance_delay_ms, self._delay_left_ms)
            self._delay_left_ms -= delay_ms
            self._restart_join_timer(delay_ms, now_ms)
        else:
            self.complete_join(now_ms)

    def _begin_initial_delay(self, now_ms: int) -> None:
        self._has_grown = False
        delay_ms = self.settings.initial_rebalance_delay_ms
        self._delay_left_ms = max(0, self.roster.rebalance_timeout_ms - delay_ms)
        self._restart_join_timer(delay_ms, now_ms)

    def _restart_join_timer(self, delay_ms: int, now_ms: int) -> None:
        self._timers.start(self._join_timer, now_ms + delay_ms)

    def _void_syncs(self, now_ms: int) -> None:
        """Nobody gets an assignment in this generation any more."""
        self._timers.stop(self._sync_timer)
        self.roster.unsynced.clear()
        if self.state is GroupState.COMPLETING_REBALANCE:
            for member in self.roster.members.values():
                member.assignment = b""
        waiting, self.roster.syncing = self.roster.syncing, {}
        for member_id, reply in waiting.items():
            self.answer_sync(reply, SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS))
            self.keep_alive(member_id, now_ms)

    # --- CompletingRebalance ------------------------------------------------------------------------

    def complete_join(self, now_ms: int) -> None:
        """Go on without the members that did not join. A static one may come back within its session."""
        self._timers.stop(self._join_timer)
        for member in self.roster.not_joining():
            if not member.is_static:
                self.drop(member.member_id)
        if self.roster.members and not self.roster.elect_joining_leader():
            self._restart_join_timer(self.roster.rebalance_timeout_ms, now_ms)
        else:
            self._begin_generation(now_ms)

    def _begin_generation(self, now_ms: int) -> None:
        self._is_initial = self._has_grown = False
        self.generation_id += 1
        if not self.roster.members:
            self._assigned_bytes = 0
            self.protocol_name = None
            self.subscriptions = Subscriptions(())
            self._move_to(GroupState.EMPTY)
            return
        self.protocol_name = self.roster.select_protocol()
        self.subscriptions = Subscriptions(member.metadata for member in self._joined_members())
        self._move_to(GroupState.COMPLETING_REBALANCE)
        self.roster.unsynced = set(self.roster.members)
        waiting, self.roster.joining = self.roster.joining, {}
        for member_id, reply in waiting.items():
            self.answer(reply, self.generation_for(member_id))
        for member in self.roster.members.values():
            member.is_new = False
            self.keep_alive(member.member_id, now_ms)
        self._timers.start(self._sync_timer, now_ms + self.roster.rebalance_timeout_ms)

    def expire_syncs(self, now_ms: int) -> None:
        """Members that joined and never asked for their assignment keep the others waiting for nothing."""
        for member_id in list(self.roster.unsynced):
            self.drop(member_id)
        self.rebalance(now_ms)

    # --- Stable -------------------------------------------------------------------------------------

    def note_synced(self, member_id: str) -> None:
        self.roster.unsynced.discard(member_id)
        if not self.roster.unsynced:
            self._timers.stop(self._sync_timer)

    def await_assignment(self, member: Member, reply: PendingReply[SyncAnswer]) -> None:
        earlier = self.roster.syncing.pop(member.member_id, None)
        if earlier is not None:
            self.answer_sync(earlier, SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS))
        self.roster.syncing[member.member_id] = reply
        self._timers.stop(self._session(member.member_id))

    def stabilise(self, assignments: dict[str, bytes], now_ms: int) -> None:
        """Take the leader's word as it is. A member that it left out gets nothing."""
        self._move_to(GroupState.STABLE)
        for member in self.roster.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        self._assigned_bytes = sum(len(member.assignment) for member in self.roster.members.values())
        waiting, self.roster.syncing = self.roster.syncing, {}
        for member_id, reply in waiting.items():
            self.answer_sync(reply, self.assignment_for(self.roster.members[member_id]))
            self.keep_alive(member_id, now_ms)
