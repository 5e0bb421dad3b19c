"""How a member gets in, and what makes a group rebalance."""

from __future__ import annotations

import pytest

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.gateway.broker.membership import (
    GroupSettings,
    GroupState,
    JoinAnswer,
    JoinedMember,
    MemberIdentity,
)
from tests.gateway.broker.membership.builders import (
    DELAY_MS,
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    Scene,
    protocols,
    subscription,
)


class TestTheFirstQuestion:
    def test_a_new_member_is_given_an_id_and_has_to_come_back(self) -> None:
        scene = Scene()
        assert scene.join().answer == JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, member_id="client-u1")
        assert scene.state() is GroupState.EMPTY
        second = scene.join("client-u1")
        assert second.waits
        assert scene.state() is GroupState.PREPARING_REBALANCE

    def test_before_version_4_it_is_in_at_once(self) -> None:
        scene = Scene()
        assert scene.join(version=3).waits
        assert scene.state() is GroupState.PREPARING_REBALANCE

    def test_an_id_that_is_not_used_is_void_after_the_session_timeout(self) -> None:
        scene = Scene()
        member_id = scene.obtain_id()
        scene.advance(SESSION_MS - 1)
        assert scene.state() is GroupState.EMPTY
        scene.advance(1)
        assert scene.state() is None
        assert scene.join(member_id).answer == JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID, member_id=member_id)

    def test_an_id_that_was_given_out_is_no_member_yet(self) -> None:
        scene = Scene()
        member_id = scene.obtain_id()
        assert scene.heartbeat(member_id, 0) is ErrorCode.UNKNOWN_MEMBER_ID
        assert scene.sync(member_id, generation=0).answer.error is ErrorCode.UNKNOWN_MEMBER_ID

    def test_an_id_that_was_given_out_is_of_no_use_to_a_static_member(self) -> None:
        scene = Scene()
        member_id = scene.obtain_id()
        assert scene.join(member_id, instance="i").answer.error is ErrorCode.UNKNOWN_MEMBER_ID

    @pytest.mark.parametrize(
        ("session_ms", "error"),
        [
            (5_999, ErrorCode.INVALID_SESSION_TIMEOUT),
            (6_000, ErrorCode.MEMBER_ID_REQUIRED),
            (1_800_000, ErrorCode.MEMBER_ID_REQUIRED),
            (1_800_001, ErrorCode.INVALID_SESSION_TIMEOUT),
        ],
    )
    def test_session_timeouts_have_bounds(self, session_ms: int, error: ErrorCode) -> None:
        assert Scene().join(session_ms=session_ms).answer.error is error

    def test_a_group_needs_a_name(self) -> None:
        answer = Scene().join("me", group_id="").answer
        assert answer == JoinAnswer(ErrorCode.INVALID_GROUP_ID, member_id="me")

    def test_an_id_that_nobody_gave_is_unknown(self) -> None:
        scene = Scene()
        assert scene.join("me").answer == JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID, member_id="me")
        scene.stable_group(None)
        assert scene.join("me").answer == JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID, member_id="me")


class TestTheInitialDelay:
    def test_one_member_waits_for_it_alone(self) -> None:
        scene = Scene()
        inbox = scene.join(scene.obtain_id())
        scene.advance(DELAY_MS - 1)
        assert inbox.waits
        scene.advance(1)
        assert inbox.answer == JoinAnswer(
            ErrorCode.NONE,
            member_id="client-u1",
            generation_id=1,
            protocol_type="consumer",
            protocol_name="range",
            leader="client-u1",
            members=(JoinedMember("client-u1", None, subscription(["topic"])),),
        )

    def test_each_new_member_prolongs_it(self) -> None:
        scene = Scene()
        first = scene.join(version=3)
        scene.advance(DELAY_MS - 1)
        second = scene.join(version=3)
        scene.advance(DELAY_MS)
        assert first.waits
        scene.advance(1)
        assert first.answer.generation_id == second.answer.generation_id == 1

    def test_never_beyond_the_rebalance_timeout(self) -> None:
        scene = Scene()
        first = scene.join(version=3, rebalance_ms=7_000)
        for _ in range(6):
            scene.advance(1_000)
            scene.join(version=3, rebalance_ms=7_000)
        scene.advance(999)
        assert first.waits
        scene.advance(1)
        assert len(first.answer.members) == 7

    def test_it_can_be_nothing(self) -> None:
        scene = Scene(GroupSettings(initial_rebalance_delay_ms=0))
        inbox = scene.join(version=3)
        assert scene.coordinator.next_deadline_ms() == scene.now_ms
        scene.advance(0)
        assert inbox.answer.generation_id == 1

    def test_members_that_give_up_meanwhile_leave_an_empty_group(self) -> None:
        scene = Scene()
        scene.join(scene.obtain_id())
        assert scene.coordinator.describe(GROUP) is not None
        scene.leave(*_everybody(scene))
        scene.advance(DELAY_MS)
        assert scene.state() is None
        assert scene.coordinator.next_deadline_ms() is None


def _everybody(scene: Scene) -> list[MemberIdentity]:
    described = scene.coordinator.describe(GROUP)
    assert described is not None
    return [MemberIdentity(member.member_id) for member in described.members]


class TestAGeneration:
    def test_only_the_leader_is_told_the_members(self) -> None:
        scene = Scene()
        first, second = (
            scene.join(version=3, offers=protocols("range", metadata=data)) for data in (b"1", b"2")
        )
        scene.advance(2 * DELAY_MS)
        assert first.answer.leader == second.answer.leader == "client-u1"
        assert [member.metadata for member in first.answer.members] == [b"1", b"2"]
        assert second.answer.members == ()

    def test_a_newcomer_makes_all_others_join_again(self) -> None:
        scene = Scene()
        old = scene.stable_group(None)[0]
        new = scene.join(version=3)
        assert new.waits
        assert scene.heartbeat(old) is ErrorCode.REBALANCE_IN_PROGRESS
        again = scene.join(old)
        assert again.answer.generation_id == new.answer.generation_id == 2
        assert again.answer.leader == old

    def test_those_who_do_not_come_back_in_time_are_dropped(self) -> None:
        scene = Scene()
        old = scene.stable_group(None)[0]
        new = scene.join(version=3)
        for _ in range(REBALANCE_MS // 5_000 - 1):
            scene.advance(5_000)
            assert scene.heartbeat(old) is ErrorCode.REBALANCE_IN_PROGRESS
        scene.advance(5_000)
        assert new.answer.generation_id == 2
        assert new.answer.leader == new.answer.member_id
        assert scene.heartbeat(old, 2) is ErrorCode.UNKNOWN_MEMBER_ID

    def test_the_slowest_member_says_how_long_a_rebalance_may_take(self) -> None:
        scene = Scene()
        slow = scene.join(version=3, rebalance_ms=90_000, session_ms=200_000)
        scene.join(version=3, rebalance_ms=10_000, session_ms=200_000)
        scene.advance(2 * DELAY_MS)
        scene.sync(slow.answer.member_id)
        new = scene.join(version=3, rebalance_ms=1_000)
        scene.advance(89_999)
        assert new.waits
        scene.advance(1)
        assert new.answer.generation_id == 2

    def test_version_0_has_the_session_timeout_as_its_rebalance_timeout(self) -> None:
        scene = Scene()
        old = scene.join(version=0, rebalance_ms=-1, session_ms=20_000)
        scene.advance(DELAY_MS)
        scene.sync(old.answer.member_id)
        new = scene.join(version=0, rebalance_ms=-1)
        scene.advance(10_000)
        scene.heartbeat(old.answer.member_id)
        scene.advance(9_999)
        assert new.waits
        scene.advance(1)
        assert new.answer.generation_id == 2

    def test_it_waits_for_those_who_only_have_an_id(self) -> None:
        scene = Scene()
        old = scene.stable_group(None)[0]
        promised = scene.obtain_id(session_ms=6_000)
        again = scene.join(old)
        assert again.waits
        scene.join(promised)
        assert again.answer.generation_id == 2

    def test_but_no_longer_than_their_id_is_good_for(self) -> None:
        scene = Scene()
        old = scene.stable_group(None)[0]
        scene.obtain_id(session_ms=6_000)
        again = scene.join(old)
        scene.advance(6_000)
        assert again.answer.generation_id == 2

    def test_a_new_member_that_waits_has_five_minutes(self) -> None:
        scene = Scene()
        old = scene.stable_group(None)[0]
        new = scene.join(version=3, rebalance_ms=1_000_000)
        scene.join(old, rebalance_ms=1_000_000)
        assert not new.waits
        # The rebalance that follows takes longer than that.
        late = scene.join(version=3, rebalance_ms=1_000_000)
        for _ in range(60):
            scene.advance(5_000)
            scene.heartbeat(old, 2)
            scene.heartbeat(new.answer.member_id, 2)
        assert late.answer == JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID)


class TestAMemberThatJoinsAgain:
    def test_a_follower_with_nothing_new_gets_the_generation_that_there_is(self) -> None:
        scene = Scene()
        leader, follower = scene.stable_group(None, None)
        answer = scene.join(follower).answer
        assert (answer.error, answer.generation_id, answer.leader, answer.members) == (
            ErrorCode.NONE,
            1,
            leader,
            (),
        )
        assert scene.state() is GroupState.STABLE

    def test_a_leader_always_gets_a_rebalance(self) -> None:
        scene = Scene()
        leader, _ = scene.stable_group(None, None)
        assert scene.join(leader).waits
        assert scene.state() is GroupState.PREPARING_REBALANCE

    def test_new_metadata_needs_a_rebalance(self) -> None:
        scene = Scene()
        leader, follower = scene.stable_group(None, None)
        changed = scene.join(follower, offers=protocols("range", metadata=b"new"))
        assert changed.waits
        answer = scene.join(leader).answer
        assert [member.metadata for member in answer.members] == [subscription(["topic"]), b"new"]

    def test_a_lost_answer_is_given_again_while_the_leader_assigns(self) -> None:
        scene = Scene()
        leader, follower = scene.generation_of(None, None)
        again = scene.join(leader).answer
        assert again.generation_id == 1
        assert [member.member_id for member in again.members] == [leader, follower]
        assert scene.join(follower).answer.members == ()
        assert scene.state() is GroupState.COMPLETING_REBALANCE

    def test_new_metadata_while_the_leader_assigns_needs_a_rebalance(self) -> None:
        scene = Scene()
        leader, follower = scene.generation_of(None, None)
        waiting = scene.sync(follower)
        assert scene.join(follower, offers=protocols("range", metadata=b"new")).waits
        assert waiting.answer.error is ErrorCode.REBALANCE_IN_PROGRESS
        assert scene.join(leader).answer.generation_id == 2

    def test_the_earlier_of_two_questions_is_sent_away(self) -> None:
        scene = Scene()
        leader, follower = scene.stable_group(None, None)
        first = scene.join(leader)
        second = scene.join(leader)
        assert first.answer == JoinAnswer(ErrorCode.REBALANCE_IN_PROGRESS, member_id=leader)
        assert second.waits
        scene.join(follower)
        assert second.answer.generation_id == 2


class TestProtocols:
    def test_the_one_with_most_votes_of_those_that_all_support_is_selected(self) -> None:
        scene = Scene()
        inboxes = [
            scene.join(version=3, offers=protocols(*names))
            for names in (["a", "b", "c"], ["b", "c", "a"], ["c", "b"], ["d", "c", "b"])
        ]
        scene.advance(2 * DELAY_MS)
        # b and c are common. Votes: b, b, c, c. Whom the first members prefer wins.
        assert {inbox.answer.protocol_name for inbox in inboxes} == {"b"}

    def test_most_votes_win(self) -> None:
        scene = Scene()
        inboxes = [
            scene.join(version=3, offers=protocols(*names)) for names in (["a", "b"], ["b", "a"], ["b", "a"])
        ]
        scene.advance(2 * DELAY_MS)
        assert {inbox.answer.protocol_name for inbox in inboxes} == {"b"}

    @pytest.mark.parametrize("version", [3, 9])
    def test_nothing_in_common_is_refused(self, version: int) -> None:
        scene = Scene()
        scene.stable_group(None)
        refused = JoinAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        assert scene.join(version=version, offers=protocols("roundrobin")).answer == refused
        assert scene.join(version=version, protocol_type="connect").answer == refused
        assert scene.state() is GroupState.STABLE

    def test_a_member_cannot_go_back_on_what_is_common(self) -> None:
        scene = Scene()
        leader, _ = scene.stable_group(None, None)
        answer = scene.join(leader, offers=protocols("roundrobin")).answer
        assert answer == JoinAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id=leader)

    def test_a_lonely_member_can_change_its_protocols_one_by_one(self) -> None:
        scene = Scene()
        (member_id,) = scene.stable_group(None, offers=protocols("a", "b"))
        assert scene.join(member_id, offers=protocols("b", "c")).answer.protocol_name == "b"
        assert scene.join(member_id, offers=protocols("c"), version=9).answer.protocol_name == "c"

    @pytest.mark.parametrize(("protocol_type", "names"), [("", ["range"]), ("consumer", [])])
    def test_a_group_cannot_begin_without_any(self, protocol_type: str, names: list[str]) -> None:
        scene = Scene()
        answer = scene.join(protocol_type=protocol_type, offers=protocols(*names)).answer
        assert answer == JoinAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        assert scene.state() is None

    def test_an_empty_group_takes_any_type(self) -> None:
        scene = Scene()
        (member_id,) = scene.stable_group(None)
        promised = scene.obtain_id()
        scene.leave(MemberIdentity(member_id))
        scene.advance(1)
        assert scene.state() is GroupState.EMPTY
        inbox = scene.join(promised, protocol_type="connect")
        scene.advance(DELAY_MS)
        assert (inbox.answer.generation_id, inbox.answer.protocol_type) == (3, "connect")

    def test_a_name_that_is_said_twice_counts_once(self) -> None:
        scene = Scene()
        (member_id,) = scene.stable_group(None, offers=protocols("range", "range"))
        scene.join(version=3)
        assert scene.join(member_id).answer.protocol_name == "range"


class TestTheSizeOfAGroup:
    def test_a_full_group_takes_nobody(self) -> None:
        scene = Scene(GroupSettings(max_size=2))
        members = scene.stable_group(None, None)
        assert scene.join().answer == JoinAnswer(ErrorCode.GROUP_MAX_SIZE_REACHED)
        assert scene.join(members[1]).answer.error is ErrorCode.NONE

    def test_a_static_member_that_restarts_takes_its_own_place(self) -> None:
        scene = Scene(GroupSettings(max_size=2))
        scene.stable_group("a", "b")
        assert scene.join(instance="c").answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED
        assert scene.join(instance="b").answer.error is ErrorCode.NONE

    def test_an_id_that_comes_too_late_is_void(self) -> None:
        scene = Scene(GroupSettings(max_size=1))
        late = scene.obtain_id()
        scene.join(version=3)
        assert scene.join(late).answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED
        scene.advance(DELAY_MS)
        assert scene.join(late).answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED

    def test_in_a_rebalance_the_first_to_come_are_in(self) -> None:
        scene = Scene(GroupSettings(max_size=2))
        leader, follower = scene.stable_group(None, None)
        again = scene.join(leader)
        new = scene.join(version=3)
        assert scene.join(follower).answer == JoinAnswer(ErrorCode.GROUP_MAX_SIZE_REACHED)
        assert again.answer.generation_id == new.answer.generation_id == 2
        assert scene.heartbeat(follower, 2) is ErrorCode.UNKNOWN_MEMBER_ID


class TestHowMuchIsHeld:
    LARGE = protocols("range", metadata=bytes(400_000))

    def scene(self) -> Scene:
        return Scene(GroupSettings(max_held_bytes=1_000_000))

    def test_who_finds_no_room_is_to_try_again(self, caplog: pytest.LogCaptureFixture) -> None:
        scene = self.scene()
        for group_id in ("a", "b"):
            assert scene.join(group_id=group_id, version=3, offers=self.LARGE).waits
        for group_id in ("a", "c"):
            refused = scene.join(group_id=group_id, version=3, offers=self.LARGE)
            assert refused.answer.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert scene.join(group_id="c", version=3).waits
        assert scene.state("c") is GroupState.PREPARING_REBALANCE
        (record,) = caplog.records
        assert "group 'a' cannot have 400205 bytes for a member: all members hold 80" in record.getMessage()

    def test_there_is_room_again_when_members_are_gone(self) -> None:
        scene = self.scene()
        for group_id in ("a", "b"):
            scene.join(group_id=group_id, version=3, offers=self.LARGE)
        scene.advance(GroupSettings().new_member_join_timeout_ms + REBALANCE_MS + SESSION_MS)
        assert scene.state("a") is None
        assert scene.join(group_id="c", version=3, offers=self.LARGE).waits

    def test_a_member_that_joins_again_is_not_counted_twice(self) -> None:
        scene = self.scene()
        first = scene.join(version=3, offers=self.LARGE)
        scene.join(group_id="b", version=3, offers=self.LARGE)
        scene.advance(DELAY_MS)
        member_id = first.answer.member_id
        for _ in range(3):
            assert scene.join(member_id, offers=self.LARGE).answer.error is ErrorCode.NONE

    def test_ids_that_were_given_out_count(self) -> None:
        scene = self.scene()
        codes = [scene.join(group_id=f"g{n}", client_id="x" * 30_000).answer.error for n in range(50)]
        assert codes[0] is ErrorCode.MEMBER_ID_REQUIRED
        assert codes[-1] is ErrorCode.COORDINATOR_NOT_AVAILABLE

    def test_so_do_assignments(self) -> None:
        scene = self.scene()
        first = scene.join(version=3)
        scene.advance(DELAY_MS)
        leader = first.answer.member_id
        refused = scene.sync(leader, [(leader, bytes(1_000_000))])
        assert refused.answer.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert scene.sync(leader, [(leader, bytes(900_000))]).answer.error is ErrorCode.NONE
        other = scene.join(group_id="b", version=3, offers=self.LARGE)
        assert other.answer.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
