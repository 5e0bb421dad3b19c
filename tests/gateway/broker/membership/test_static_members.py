"""Members with a name of their own (KIP-345): they restart and nobody else notices."""

from __future__ import annotations

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.gateway.broker.membership import GroupState, JoinAnswer, MemberIdentity, SyncAnswer
from tests.gateway.broker.membership.builders import (
    DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    Scene,
    protocols,
    subscription,
)


def test_a_static_member_is_in_at_once_under_an_id_with_its_name() -> None:
    scene = Scene()
    inbox = scene.join(instance="worker-1")
    scene.advance(DELAY_MS)
    assert inbox.answer.member_id == "worker-1-u1"
    assert inbox.answer.members[0].group_instance_id == "worker-1"


class TestARestart:
    def test_a_follower_gets_a_new_id_and_its_old_assignment(self) -> None:
        scene = Scene()
        leader, follower = scene.stable_group("a", "b")
        answer = scene.join(instance="b").answer
        assert answer == JoinAnswer(
            ErrorCode.NONE,
            member_id="b-u3",
            generation_id=1,
            protocol_type="consumer",
            protocol_name="range",
            leader=leader,
        )
        assert scene.state() is GroupState.STABLE
        assert scene.sync("b-u3", instance="b").answer.assignment == follower.upper().encode()
        assert scene.heartbeat(leader, instance="a") is ErrorCode.NONE

    def test_a_leader_is_told_to_skip_the_assignment(self) -> None:
        scene = Scene()
        _, follower = scene.stable_group("a", "b")
        answer = scene.join(instance="a", version=9).answer
        assert (answer.member_id, answer.leader, answer.skip_assignment) == ("a-u3", "a-u3", True)
        assert {member.member_id for member in answer.members} == {"a-u3", follower}

    def test_an_older_leader_does_not_learn_that_it_leads(self) -> None:
        scene = Scene()
        leader, _ = scene.stable_group("a", "b")
        answer = scene.join(instance="a", version=8).answer
        assert (answer.member_id, answer.leader, answer.members) == ("a-u3", leader, ())
        assert not answer.skip_assignment

    def test_other_bytes_for_the_same_topics_disturb_nobody(self) -> None:
        scene = Scene()
        before = subscription(["s", "t"], rest=b"\0\0\0\0 and what it owned")
        scene.stable_group("a", "b", offers=protocols("range", metadata=before))
        after = protocols("range", metadata=subscription(["t", "s"]))
        assert scene.join(instance="b", offers=after).answer.generation_id == 1

    def test_other_topics_need_a_rebalance(self) -> None:
        scene = Scene()
        leader, _ = scene.stable_group("a", "b")
        inbox = scene.join(instance="b", offers=protocols("range", metadata=subscription(["other"])))
        assert inbox.waits
        assert scene.join(leader, instance="a").answer.generation_id == 2

    def test_another_protocol_needs_a_rebalance(self) -> None:
        scene = Scene()
        leader, _ = scene.stable_group("a", "b", offers=protocols("x", "y"))
        inbox = scene.join(instance="b", offers=protocols("y"))
        assert inbox.waits
        assert scene.join(leader, instance="a", offers=protocols("x", "y")).answer.protocol_name == "y"
        assert inbox.answer.generation_id == 2

    def test_what_groups_of_other_types_say_is_not_looked_into(self) -> None:
        scene = Scene()
        first = scene.join(instance="a", protocol_type="connect")
        scene.advance(DELAY_MS)
        scene.sync(first.answer.member_id, protocol_type="connect")
        again = scene.join(instance="a", protocol_type="connect", offers=protocols("range", metadata=b"x"))
        assert again.answer.generation_id == 1

    def test_while_the_leader_assigns_everything_begins_anew(self) -> None:
        scene = Scene()
        leader, follower = scene.generation_of("a", "b")
        waiting = scene.sync(follower, instance="b")
        inbox = scene.join(instance="b")
        assert waiting.answer == SyncAnswer(ErrorCode.FENCED_INSTANCE_ID)
        assert inbox.waits
        assert scene.join(leader, instance="a").answer.generation_id == 2

    def test_in_a_rebalance_it_joins_in_its_old_place(self) -> None:
        scene = Scene()
        leader, follower = scene.stable_group("a", "b")
        before = scene.join(leader, instance="a")
        after = scene.join(instance="a")
        assert before.answer == JoinAnswer(ErrorCode.FENCED_INSTANCE_ID, member_id=leader)
        assert after.waits
        scene.join(follower, instance="b")
        assert after.answer.generation_id == 2
        assert after.answer.leader == after.answer.member_id

    def test_a_restarted_member_has_to_sync_like_the_old_one(self) -> None:
        scene = Scene()
        leader, follower = scene.generation_of("a", "b")
        scene.sync(leader, [(follower, b"mine")], instance="a")
        answer = scene.join(instance="b").answer
        assert scene.sync(answer.member_id, instance="b").answer.assignment == b"mine"
        for _ in range(2 * REBALANCE_MS // 5_000):
            scene.advance(5_000)
            assert scene.heartbeat(leader, instance="a") is ErrorCode.NONE
            assert scene.heartbeat(answer.member_id, instance="b") is ErrorCode.NONE

    def test_one_that_never_does_is_dropped_like_anybody(self) -> None:
        scene = Scene()
        leader, _ = scene.generation_of("a", "b")
        scene.sync(leader, instance="a")
        new = scene.join(instance="b").answer.member_id
        for _ in range(REBALANCE_MS // 5_000):
            scene.advance(5_000)
            scene.heartbeat(leader, instance="a")
            last = scene.heartbeat(new, instance="b")
        assert last is ErrorCode.UNKNOWN_MEMBER_ID
        assert scene.heartbeat(leader, instance="a") is ErrorCode.REBALANCE_IN_PROGRESS

    def test_a_session_runs_under_the_new_id(self) -> None:
        scene = Scene()
        (old,) = scene.stable_group("a")
        scene.advance(SESSION_MS - 1)
        scene.join(instance="a")
        scene.advance(SESSION_MS - 1)
        assert scene.state() is GroupState.STABLE
        scene.advance(1)
        assert scene.state() is None
        assert scene.heartbeat(old, instance="a") is ErrorCode.UNKNOWN_MEMBER_ID


class TestFencing:
    def test_whoever_uses_the_old_id_is_fenced(self) -> None:
        scene = Scene()
        (old,) = scene.stable_group("a")
        scene.join(instance="a")
        fenced = ErrorCode.FENCED_INSTANCE_ID
        assert scene.heartbeat(old, instance="a") is fenced
        assert scene.sync(old, instance="a").answer.error is fenced
        assert scene.join(old, instance="a").answer == JoinAnswer(fenced, member_id=old)
        assert scene.commit_error(old, 1, "a") is fenced
        assert scene.leave(MemberIdentity(old, "a")).leavers[0].error is fenced

    def test_without_its_name_the_old_id_is_only_unknown(self) -> None:
        scene = Scene()
        (old,) = scene.stable_group("a")
        scene.join(instance="a")
        assert scene.heartbeat(old) is ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_name_that_is_not_in_the_group_is_unknown(self) -> None:
        scene = Scene()
        (member_id,) = scene.stable_group("a")
        assert scene.heartbeat(member_id, instance="b") is ErrorCode.UNKNOWN_MEMBER_ID


class TestAbsence:
    def test_a_rebalance_goes_on_with_a_static_member_that_is_away(self) -> None:
        scene = Scene()
        leader, follower = (
            scene.join(instance="a", session_ms=200_000),
            scene.join(instance="b", session_ms=200_000),
        )
        scene.advance(2 * DELAY_MS)
        scene.sync(leader.answer.member_id, instance="a")
        scene.sync(follower.answer.member_id, instance="b")
        new = scene.join(version=3)
        scene.advance(REBALANCE_MS)
        # Nobody but the newcomer is there: it leads, and assigns to those who are away too.
        assert new.answer.leader == new.answer.member_id
        assert {member.group_instance_id for member in new.answer.members} == {"a", "b", None}

    def test_a_rebalance_that_nobody_comes_to_is_tried_again(self) -> None:
        scene = Scene()
        first = scene.join(instance="a", session_ms=200_000, rebalance_ms=10_000)
        scene.join(instance="b", session_ms=200_000, rebalance_ms=10_000)
        scene.advance(2 * DELAY_MS)
        scene.sync(first.answer.member_id, instance="a")
        scene.advance(10_000)
        # b never asked for its assignment, and a does not come back.
        assert scene.state() is GroupState.PREPARING_REBALANCE
        scene.advance(25_000)
        assert scene.state() is GroupState.PREPARING_REBALANCE
        assert scene.join(instance="a").answer.generation_id == 2

    def test_a_static_member_is_gone_after_its_session_timeout(self) -> None:
        scene = Scene()
        leader, follower = scene.stable_group("a", "b")
        scene.advance(SESSION_MS - 1)
        scene.heartbeat(leader, instance="a")
        assert scene.heartbeat(leader, instance="a") is ErrorCode.NONE
        scene.advance(1)
        assert scene.heartbeat(leader, instance="a") is ErrorCode.REBALANCE_IN_PROGRESS
        assert scene.heartbeat(follower, instance="b") is ErrorCode.UNKNOWN_MEMBER_ID
