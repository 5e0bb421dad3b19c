"""How the leader's assignment gets to the members."""

from __future__ import annotations

import pytest

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.gateway.broker.membership import GroupState, SyncAnswer
from tests.gateway.broker.membership.builders import REBALANCE_MS, SESSION_MS, Scene


def test_followers_wait_for_the_leader() -> None:
    scene = Scene()
    leader, follower = scene.generation_of(None, None)
    waiting = scene.sync(follower)
    assert waiting.waits
    own = scene.sync(leader, [(leader, b"one"), (follower, b"two")])
    assert own.answer == SyncAnswer(ErrorCode.NONE, "consumer", "range", b"one")
    assert waiting.answer == SyncAnswer(ErrorCode.NONE, "consumer", "range", b"two")
    assert scene.state() is GroupState.STABLE


def test_a_follower_that_comes_later_is_served_at_once() -> None:
    scene = Scene()
    leader, follower = scene.generation_of(None, None)
    scene.sync(leader, [(follower, b"two")])
    assert scene.sync(follower).answer.assignment == b"two"
    assert scene.sync(follower).answer.assignment == b"two"


def test_whom_the_leader_left_out_gets_nothing_and_strangers_do_not_matter() -> None:
    scene = Scene()
    leader, follower = scene.generation_of(None, None)
    assert scene.sync(leader, [(leader, b"one"), ("stranger", b"two")]).answer.assignment == b"one"
    assert scene.sync(follower).answer == SyncAnswer(ErrorCode.NONE, "consumer", "range", b"")


def test_what_a_follower_wants_to_assign_does_not_matter() -> None:
    scene = Scene()
    leader, follower = scene.generation_of(None, None)
    waiting = scene.sync(follower, [(follower, b"everything")])
    assert waiting.waits
    scene.sync(leader, [(follower, b"two")])
    assert waiting.answer.assignment == b"two"


def test_the_assignment_is_kept_until_the_next_one() -> None:
    scene = Scene()
    leader, follower = scene.stable_group(None, None)
    assert scene.sync(leader, [(follower, b"other")]).answer.assignment == leader.upper().encode()
    assert scene.sync(follower).answer.assignment == follower.upper().encode()


class TestErrors:
    @pytest.mark.parametrize("in_state", [GroupState.COMPLETING_REBALANCE, GroupState.STABLE])
    def test_another_generation(self, in_state: GroupState) -> None:
        scene = Scene()
        stable = in_state is GroupState.STABLE
        (member_id,) = scene.stable_group(None) if stable else scene.generation_of(None)
        assert scene.state() is in_state
        for generation in (-1, 0, 2):
            error = scene.sync(member_id, generation=generation).answer.error
            assert error is ErrorCode.ILLEGAL_GENERATION

    def test_in_a_rebalance(self) -> None:
        scene = Scene()
        leader, _ = scene.stable_group(None, None)
        scene.join(version=3)
        assert scene.sync(leader).answer == SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS)

    @pytest.mark.parametrize(
        ("protocol_type", "protocol_name"),
        [("connect", "range"), ("consumer", "roundrobin"), (None, "range"), ("consumer", None)],
    )
    def test_another_protocol(self, protocol_type: str | None, protocol_name: str | None) -> None:
        scene = Scene()
        (member_id,) = scene.generation_of(None)
        inbox = scene.sync(member_id, protocol_type=protocol_type, protocol_name=protocol_name)
        assert inbox.answer == SyncAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def test_before_version_5_no_protocol_is_said(self) -> None:
        scene = Scene()
        (member_id,) = scene.generation_of(None)
        inbox = scene.sync(member_id, version=4, protocol_type=None, protocol_name=None)
        assert inbox.answer.error is ErrorCode.NONE

    def test_strangers(self) -> None:
        scene = Scene()
        assert scene.sync("me").answer.error is ErrorCode.UNKNOWN_MEMBER_ID
        assert scene.sync("me", group_id="").answer.error is ErrorCode.INVALID_GROUP_ID
        scene.stable_group(None)
        assert scene.sync("me").answer.error is ErrorCode.UNKNOWN_MEMBER_ID


class TestWaiting:
    def test_a_rebalance_sends_away_those_who_wait(self) -> None:
        scene = Scene()
        _, follower = scene.generation_of(None, None)
        waiting = scene.sync(follower)
        scene.join(version=3)
        assert waiting.answer == SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS)

    def test_the_earlier_of_two_questions_is_sent_away(self) -> None:
        scene = Scene()
        leader, follower = scene.generation_of(None, None)
        first, second = scene.sync(follower), scene.sync(follower)
        assert first.answer == SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS)
        scene.sync(leader, [(follower, b"two")])
        assert second.answer.assignment == b"two"

    def test_who_waits_needs_no_heartbeats(self) -> None:
        scene = Scene()
        leader, follower = scene.generation_of(None, None)
        waiting = scene.sync(follower)
        for _ in range(10):
            scene.advance(SESSION_MS // 2)
            assert scene.heartbeat(leader) is ErrorCode.NONE
        scene.sync(leader, [(follower, b"two")])
        assert waiting.answer.assignment == b"two"
        scene.advance(SESSION_MS - 1)
        assert scene.heartbeat(follower) is ErrorCode.NONE

    def test_a_leader_that_dies_starts_the_next_generation(self) -> None:
        scene = Scene()
        _, follower = scene.generation_of(None, None)
        waiting = scene.sync(follower)
        scene.advance(SESSION_MS)
        assert waiting.answer.error is ErrorCode.REBALANCE_IN_PROGRESS
        again = scene.join(follower)
        assert (again.answer.generation_id, again.answer.leader) == (2, follower)


class TestThoseWhoNeverSync:
    def test_they_are_dropped_after_the_rebalance_timeout(self) -> None:
        scene = Scene()
        leader, follower = scene.generation_of(None, None)
        scene.sync(leader)
        for _ in range(REBALANCE_MS // 5_000 - 1):
            scene.advance(5_000)
            assert scene.heartbeat(follower) is scene.heartbeat(leader) is ErrorCode.NONE
        scene.advance(5_000)
        assert scene.heartbeat(follower) is ErrorCode.UNKNOWN_MEMBER_ID
        assert scene.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS

    def test_so_is_a_leader_that_sends_nothing_but_heartbeats(self) -> None:
        scene = Scene()
        leader, follower = scene.generation_of(None, None)
        waiting = scene.sync(follower)
        for _ in range(REBALANCE_MS // 5_000):
            scene.heartbeat(leader)
            scene.advance(5_000)
        assert waiting.answer.error is ErrorCode.REBALANCE_IN_PROGRESS
        assert scene.heartbeat(leader) is ErrorCode.UNKNOWN_MEMBER_ID
        assert scene.join(follower).answer.leader == follower

    def test_nobody_is_dropped_when_all_have_synced(self) -> None:
        scene = Scene()
        members = scene.stable_group(None, None)
        for _ in range(2 * REBALANCE_MS // 5_000):
            scene.advance(5_000)
            assert {scene.heartbeat(member_id) for member_id in members} == {ErrorCode.NONE}
