"""Members that go on purpose, alone or together."""

from __future__ import annotations

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.gateway.broker.membership import (
    GroupState,
    JoinAnswer,
    LeaveAnswer,
    LeaverAnswer,
    MemberIdentity,
    SyncAnswer,
)
from tests.gateway.broker.membership.builders import SESSION_MS, Scene


def test_the_last_one_leaves_nothing_behind() -> None:
    scene = Scene()
    (member_id,) = scene.stable_group(None)
    identity = MemberIdentity(member_id)
    assert scene.leave(identity) == LeaveAnswer(ErrorCode.NONE, (LeaverAnswer(identity, ErrorCode.NONE),))
    assert scene.state() is None
    assert scene.coordinator.next_deadline_ms() is None


def test_the_others_rebalance() -> None:
    scene = Scene()
    leader, follower = scene.stable_group(None, None)
    scene.leave(MemberIdentity(leader))
    assert scene.heartbeat(follower) is ErrorCode.REBALANCE_IN_PROGRESS
    assert scene.join(follower).answer.leader == follower


def test_many_leave_at_once_each_with_its_own_error() -> None:
    scene = Scene()
    first, second, third = scene.stable_group(None, "b", "c")
    answer = scene.leave(
        MemberIdentity(first),
        MemberIdentity("", "b"),
        MemberIdentity("stranger"),
        MemberIdentity(third, "b"),
        MemberIdentity("stranger", "c"),
        MemberIdentity("", "nobody"),
        MemberIdentity("", None),
        MemberIdentity(first),
    )
    assert answer.error is ErrorCode.NONE
    assert [leaver.error.name for leaver in answer.leavers] == [
        "NONE",
        "NONE",
        "UNKNOWN_MEMBER_ID",
        "UNKNOWN_MEMBER_ID",
        "FENCED_INSTANCE_ID",
        "UNKNOWN_MEMBER_ID",
        "UNKNOWN_MEMBER_ID",
        "UNKNOWN_MEMBER_ID",
    ]
    assert answer.leavers[1].identity == MemberIdentity("", "b")
    assert scene.heartbeat(third, instance="c") is ErrorCode.REBALANCE_IN_PROGRESS
    assert scene.heartbeat(second, instance="b") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_name_that_is_taken_by_another_member_is_fenced() -> None:
    scene = Scene()
    first, _ = scene.stable_group("a", "b")
    assert scene.leave(MemberIdentity(first, "b")).leavers[0].error is ErrorCode.FENCED_INSTANCE_ID


def test_who_left_in_error_disturbs_nobody() -> None:
    scene = Scene()
    scene.stable_group(None)
    scene.leave(MemberIdentity("stranger"))
    scene.leave()
    assert scene.state() is GroupState.STABLE


def test_an_id_that_never_became_a_member_disturbs_nobody() -> None:
    scene = Scene()
    scene.stable_group(None)
    promised = scene.obtain_id()
    assert scene.leave(MemberIdentity(promised)).leavers[0].error is ErrorCode.NONE
    assert scene.state() is GroupState.STABLE
    assert scene.join(promised).answer.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_stops_waiting_for_those_who_left() -> None:
    scene = Scene()
    leader, follower = scene.stable_group(None, None)
    promised = scene.obtain_id()
    waiting = scene.join(leader)
    scene.leave(MemberIdentity(follower))
    assert waiting.waits
    scene.leave(MemberIdentity(promised))
    assert waiting.answer.generation_id == 2


def test_who_waits_for_a_generation_and_is_made_to_leave_is_told() -> None:
    scene = Scene()
    leader, _ = scene.stable_group("a", "b")
    waiting = scene.join(leader, instance="a")
    scene.leave(MemberIdentity("", "a"))
    assert waiting.answer == JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID)


def test_who_waits_for_its_assignment_and_is_made_to_leave_is_told() -> None:
    scene = Scene()
    _, follower = scene.generation_of("a", "b")
    waiting = scene.sync(follower, instance="b")
    scene.leave(MemberIdentity("", "b"))
    assert waiting.answer == SyncAnswer(ErrorCode.UNKNOWN_MEMBER_ID)


def test_unknown_groups() -> None:
    scene = Scene()
    identity = MemberIdentity("me")
    unknown = LeaverAnswer(identity, ErrorCode.UNKNOWN_MEMBER_ID)
    assert scene.leave(identity) == LeaveAnswer(ErrorCode.NONE, (unknown,))
    assert scene.leave(identity, group_id="") == LeaveAnswer(ErrorCode.INVALID_GROUP_ID)


def test_the_session_of_one_that_left_ends_nothing_later() -> None:
    scene = Scene()
    first, second = scene.stable_group(None, None)
    scene.leave(MemberIdentity(first))
    scene.join(second)
    scene.sync(second, generation=2)
    scene.advance(SESSION_MS - 1)
    assert scene.state() is GroupState.STABLE
