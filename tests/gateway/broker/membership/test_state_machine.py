"""Clients that join, sync, die, come back and lose connections in any order, and what always holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.gateway.broker.membership import (
    GroupSettings,
    GroupState,
    JoinAnswer,
    MemberIdentity,
    Protocol,
    SyncAnswer,
)
from barbicel.gateway.broker.membership.group import Group
from barbicel.gateway.broker.membership.member import OBJECT_BYTES
from barbicel.gateway.broker.membership.timers import TimerKey, TimerKind
from tests.gateway.broker.membership.builders import Inbox, Scene, protocols, subscription

GROUPS = ("g", "h")
OFFERS = (
    protocols("x", "y"),
    protocols("y", "x"),
    protocols("x"),
    protocols("y", "x", metadata=subscription(["other"])),
    protocols("z", "x"),
    protocols("z"),
)


@dataclass
class Client:
    group_id: str
    instance: str | None
    member_id: str = ""
    generation_id: int = -1
    protocol_name: str = "x"
    # What it has to assign, if it leads.
    followers: tuple[str, ...] = ()
    waiting: list[Inbox[Any]] = field(default_factory=list)

    def restart(self) -> None:
        for inbox in self.waiting:
            assert inbox.pending is not None
            inbox.pending.forget()
        self.waiting.clear()

    def forget_itself(self) -> None:
        self.restart()
        self.member_id, self.generation_id, self.followers = "", -1, ()


@dataclass
class Life:
    """What a group promised from its first member to its last."""

    generation_id: int = 0
    leaders: dict[int, str] = field(default_factory=dict)
    protocols: dict[int, str | None] = field(default_factory=dict)
    assignments: dict[int, dict[str, bytes]] = field(default_factory=dict)


def name_of(member_id: str) -> str:
    """A static member is the same one under every id: its name without the number at the end."""
    return member_id if member_id.startswith("client-") else member_id.rsplit("-", 1)[0]


class MembershipMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.scene = Scene(GroupSettings(max_size=4))
        self.clients = [
            *(Client("g", instance) for instance in (None, None, None, "s1", "s2")),
            *(Client("h", instance) for instance in (None, "s1")),
        ]
        self.lives = {group_id: Life() for group_id in GROUPS}
        self.questions: list[tuple[Inbox[Any], Client]] = []
        self.nonce = 0

    clients_at = st.integers(0, 6)

    # --- what clients do ----------------------------------------------------------------------------

    @rule(
        at=clients_at,
        offers=st.sampled_from((*OFFERS, *OFFERS[:1] * 8)),
        version=st.sampled_from((3, 5, 8, 9)),
        rebalance_ms=st.sampled_from((0, 8_000, 60_000)),
        comes_back=st.booleans(),
    )
    def join(
        self, at: int, offers: tuple[Protocol, ...], version: int, rebalance_ms: int, comes_back: bool
    ) -> None:
        client = self.clients[at]
        inbox = self.scene.join(
            client.member_id,
            group_id=client.group_id,
            version=version,
            rebalance_ms=rebalance_ms,
            instance=client.instance,
            offers=offers,
        )
        self.ask(client, inbox)
        if not inbox.waits and inbox.answer.error is ErrorCode.MEMBER_ID_REQUIRED:
            assert client.instance is None
            assert version >= 4
            self.check()
            if comes_back:
                self.join(at, offers, version, rebalance_ms, False)

    @rule(at=clients_at)
    def sync(self, at: int) -> None:
        client = self.clients[at]
        self.nonce += 1
        assignments = [(name, f"{name_of(name)} {self.nonce}".encode()) for name in client.followers]
        inbox = self.scene.sync(
            client.member_id,
            assignments,
            group_id=client.group_id,
            generation=client.generation_id,
            instance=client.instance,
            protocol_name=client.protocol_name,
        )
        if not inbox.waits and inbox.answer.error is ErrorCode.NONE and client.followers:
            known = self.lives[client.group_id].assignments
            known.setdefault(client.generation_id, {name_of(name): data for name, data in assignments})
        self.ask(client, inbox)

    @rule(group_id=st.sampled_from(GROUPS), version=st.sampled_from((3, 8, 9)), and_sync=st.booleans())
    def come_together(self, group_id: str, version: int, and_sync: bool) -> None:
        """Chance alone hardly ever brings a group to its assignment."""
        for at in self.at_rest(group_id):
            self.join(at, OFFERS[0], version, 60_000, True)
        self.scene.advance(6_000)
        self.check()
        if and_sync:
            self.get_assignments(group_id, None)

    @rule(group_id=st.sampled_from(GROUPS), leaving_out=st.none() | clients_at)
    def get_assignments(self, group_id: str, leaving_out: int | None) -> None:
        for at in self.at_rest(group_id):
            if at != leaving_out:
                self.sync(at)

    @rule(elapsed_ms=st.sampled_from((3_000, 9_000)))
    def live_on(self, elapsed_ms: int) -> None:
        self.scene.advance(elapsed_ms)
        self.check()
        for at in range(len(self.clients)):
            self.heartbeat(at)

    def at_rest(self, group_id: str) -> list[int]:
        """Who could ask something now."""
        return [
            at for at, client in enumerate(self.clients) if client.group_id == group_id and not client.waiting
        ]

    @rule(at=clients_at)
    def heartbeat(self, at: int) -> None:
        client = self.clients[at]
        error = self.scene.heartbeat(client.member_id, client.generation_id, client.instance, client.group_id)
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.forget_itself()

    @rule(at=clients_at)
    def commit(self, at: int) -> None:
        client = self.clients[at]
        args = client.member_id, client.generation_id, client.instance
        error = self.scene.commit_error(*args, group_id=client.group_id)
        described = self.scene.coordinator.describe(client.group_id)
        is_member = described is not None and client.member_id in [m.member_id for m in described.members]
        if error is ErrorCode.NONE and client.generation_id >= 0:
            assert is_member
            assert client.generation_id == self.lives[client.group_id].generation_id

    @rule(at=clients_at, by_name=st.booleans())
    def leave(self, at: int, by_name: bool) -> None:
        client = self.clients[at]
        identity = MemberIdentity("" if by_name else client.member_id, client.instance)
        (leaver,) = self.scene.leave(identity, group_id=client.group_id).leavers
        if leaver.error is ErrorCode.NONE and not by_name:
            self.check()
            client.forget_itself()

    @rule(at=clients_at, back=st.none() | st.sampled_from(OFFERS), version=st.sampled_from((3, 8, 9)))
    def crash(self, at: int, back: tuple[Protocol, ...] | None, version: int) -> None:
        self.clients[at].forget_itself()
        if back is not None:
            self.join(at, back, version, 60_000, True)

    @rule(at=clients_at)
    def lose_connection(self, at: int) -> None:
        self.clients[at].restart()

    @rule(elapsed_ms=st.sampled_from((1, 100, 3_000, 3_000, 6_000, 9_999, 60_000)))
    def let_time_pass(self, elapsed_ms: int) -> None:
        self.scene.advance(elapsed_ms)

    @rule(group_id=st.sampled_from(GROUPS))
    def remove(self, group_id: str) -> None:
        state = self.scene.state(group_id)
        expected = {None: ErrorCode.GROUP_ID_NOT_FOUND, GroupState.EMPTY: ErrorCode.NONE}
        assert self.scene.coordinator.remove(group_id) is expected.get(state, ErrorCode.NON_EMPTY_GROUP)

    # --- what they are answered ---------------------------------------------------------------------

    def ask(self, client: Client, inbox: Inbox[Any]) -> None:
        client.waiting.append(inbox)
        self.questions.append((inbox, client))

    @invariant()
    def check(self) -> None:
        """Take in the answers of the last step, in the order of the questions, and see to ended groups."""
        for inbox, client in self.questions:
            assert len(inbox.answers) <= 1
            if inbox in client.waiting and not inbox.waits:
                client.waiting.remove(inbox)
                self.take_in(client, inbox.answer)
        self.questions = [question for question in self.questions if question[0] in question[1].waiting]
        for group_id in GROUPS:
            if self.scene.state(group_id) is None:
                self.lives[group_id] = Life()

    def take_in(self, client: Client, answer: JoinAnswer | SyncAnswer) -> None:
        if answer.error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.member_id, client.generation_id, client.followers = "", -1, ()
        elif isinstance(answer, SyncAnswer):
            self.take_in_assignment(client, answer)
        elif answer.error is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
        elif answer.error is ErrorCode.NONE:
            self.take_in_generation(client, answer)

    def take_in_generation(self, client: Client, answer: JoinAnswer) -> None:
        life = self.lives[client.group_id]
        assert answer.generation_id >= max(life.generation_id, 1)
        life.generation_id = answer.generation_id
        assert life.leaders.setdefault(answer.generation_id, name_of(answer.leader)) == name_of(answer.leader)
        name = life.protocols.setdefault(answer.generation_id, answer.protocol_name)
        assert answer.protocol_name is not None
        assert answer.protocol_name == name
        leads = answer.leader == answer.member_id
        assert bool(answer.members) is leads
        client.member_id, client.generation_id = answer.member_id, answer.generation_id
        client.protocol_name = answer.protocol_name
        client.followers = tuple(member.member_id for member in answer.members)

    def take_in_assignment(self, client: Client, answer: SyncAnswer) -> None:
        if answer.error is ErrorCode.NONE:
            life = self.lives[client.group_id]
            assert answer.protocol_name == life.protocols[client.generation_id]
            assigned = life.assignments[client.generation_id]
            assert answer.assignment == assigned[name_of(client.member_id)]

    # --- what holds inside --------------------------------------------------------------------------

    @property
    def groups(self) -> dict[str, Group]:
        return self.scene.coordinator._groups

    @invariant()
    def the_clock_is_served(self) -> None:
        due_ms = self.scene.coordinator.next_deadline_ms()
        assert due_ms is None or due_ms >= self.scene.now_ms

    @invariant()
    def no_group_is_kept_for_nothing(self) -> None:
        assert not any(group.is_vacant or group.state is GroupState.DEAD for group in self.groups.values())

    @invariant()
    def it_is_known_how_much_is_held(self) -> None:
        rosters = [group.roster for group in self.groups.values()]
        members = [member for roster in rosters for member in roster.members.values()]
        pending = [member_id for roster in rosters for member_id in roster.pending]
        metadata_bytes = sum(member.held_bytes for member in members)
        assert sum(roster.held_bytes for roster in rosters) == metadata_bytes + sum(
            OBJECT_BYTES + len(member_id) for member_id in pending
        )
        held_bytes = self.scene.coordinator._held_bytes
        assert held_bytes == sum(group.held_bytes for group in self.groups.values())
        assert held_bytes >= metadata_bytes + sum(len(member.assignment) for member in members)

    @invariant()
    def every_timer_has_a_reason_and_nobody_waits_for_ever(self) -> None:
        expected = {key for group in self.groups.values() for key in timers_of(group)}
        assert set(self.scene.coordinator._timers._running) == expected

    @invariant()
    def members_are_led_and_agree(self) -> None:
        for group in self.groups.values():
            roster = group.roster
            assert (roster.leader_id in roster.members) is bool(roster.members)
            assert (group.state is GroupState.EMPTY) <= (not roster.members)
            if roster.members:
                assert roster.select_protocol()
            assert roster.joining.keys() | roster.syncing.keys() | roster.unsynced <= roster.members.keys()
            assert not roster.joining or group.state is GroupState.PREPARING_REBALANCE
            assert not roster.syncing or group.state is GroupState.COMPLETING_REBALANCE
            assert len(roster.joining) <= 4

    def teardown(self) -> None:
        """Left alone, everybody is answered and nothing remains."""
        questions = [inbox for inbox, client in self.questions if inbox in client.waiting]
        self.scene.advance(1_000_000)
        assert [len(inbox.answers) for inbox in questions] == [1] * len(questions)
        assert self.groups == {}
        assert self.scene.coordinator.next_deadline_ms() is None
        assert len(self.scene.coordinator._timers) == 0
        super().teardown()


def timers_of(group: Group) -> set[TimerKey]:
    """Which timers have to run, as the rules say and not as the code does it."""
    roster = group.roster
    silent = [
        member_id
        for member_id, member in roster.members.items()
        if member.is_new or (member_id not in roster.joining and member_id not in roster.syncing)
    ]
    sessions = {TimerKey(TimerKind.SESSION, group.group_id, name) for name in (*silent, *roster.pending)}
    if group.state is GroupState.PREPARING_REBALANCE:
        return sessions | {TimerKey(TimerKind.JOIN, group.group_id)}
    return sessions | ({TimerKey(TimerKind.SYNC, group.group_id)} if roster.unsynced else set())


TestMembership = MembershipMachine.TestCase
TestMembership.settings = settings(
    max_examples=200,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
