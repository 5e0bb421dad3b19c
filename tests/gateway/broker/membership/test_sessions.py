"""Heartbeats, and what happens without them."""

from __future__ import annotations

import pytest

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.gateway.broker.membership import GroupState
from barbicel.gateway.broker.membership.timers import TimerKey, TimerKind, Timers
from tests.gateway.broker.membership.builders import GROUP, SESSION_MS, Scene


def test_a_heartbeat_prolongs_the_session() -> None:
    scene = Scene()
    (member_id,) = scene.stable_group(None)
    for _ in range(3):
        scene.advance(SESSION_MS - 1)
        assert scene.heartbeat(member_id) is ErrorCode.NONE
    scene.advance(SESSION_MS - 1)
    assert scene.state() is GroupState.STABLE
    scene.advance(1)
    assert scene.state() is None
    assert scene.heartbeat(member_id) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_others_rebalance_when_one_falls_silent() -> None:
    scene = Scene()
    silent, alive = scene.stable_group(None, None)
    scene.advance(SESSION_MS - 1)
    scene.heartbeat(alive)
    scene.advance(1)
    assert scene.heartbeat(alive) is ErrorCode.REBALANCE_IN_PROGRESS
    again = scene.join(alive).answer
    assert (again.generation_id, again.leader) == (2, alive)
    assert scene.heartbeat(silent, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_heartbeat_counts_in_a_rebalance_too() -> None:
    scene = Scene()
    (member_id,) = scene.stable_group(None)
    new = scene.join(version=3)
    for _ in range(4):
        scene.advance(SESSION_MS - 1)
        assert scene.heartbeat(member_id) is ErrorCode.REBALANCE_IN_PROGRESS
    assert new.waits
    scene.advance(SESSION_MS)
    assert new.answer.generation_id == 2


def test_who_waits_for_the_next_generation_needs_no_heartbeats() -> None:
    scene = Scene()
    first, second = scene.stable_group(None, None)
    waiting = scene.join(first)
    for _ in range(5):
        scene.advance(SESSION_MS - 1)
        assert scene.heartbeat(second) is ErrorCode.REBALANCE_IN_PROGRESS
    assert waiting.waits
    assert scene.join(second).answer.generation_id == 2
    assert waiting.answer.generation_id == 2
    # Now it does again.
    scene.advance(SESSION_MS)
    assert scene.state() is None


def test_asking_for_the_assignment_again_is_a_sign_of_life() -> None:
    scene = Scene()
    (member_id,) = scene.stable_group(None)
    for _ in range(3):
        scene.advance(SESSION_MS - 1)
        assert scene.sync(member_id).answer.error is ErrorCode.NONE


def test_heartbeats_are_welcome_while_the_leader_assigns() -> None:
    scene = Scene()
    (member_id,) = scene.generation_of(None)
    assert scene.heartbeat(member_id) is ErrorCode.NONE


@pytest.mark.parametrize("generation", [-1, 0, 2])
def test_another_generation_is_refused_and_no_sign_of_life(generation: int) -> None:
    scene = Scene()
    (member_id,) = scene.stable_group(None)
    scene.advance(SESSION_MS - 1)
    assert scene.heartbeat(member_id, generation) is ErrorCode.ILLEGAL_GENERATION
    scene.advance(1)
    assert scene.state() is None


def test_strangers_are_unknown() -> None:
    scene = Scene()
    assert scene.heartbeat("me") is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.heartbeat("me", group_id="") is ErrorCode.INVALID_GROUP_ID
    scene.stable_group(None)
    assert scene.heartbeat("me") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_late_look_at_the_clock_does_everything_that_was_due() -> None:
    scene = Scene()
    scene.stable_group(None, None)
    scene.coordinator.expire(scene.now_ms + 10 * SESSION_MS)
    assert scene.state() is None
    assert scene.coordinator.next_deadline_ms() is None


class TestTimers:
    def test_a_thousand_heartbeats_leave_one_timer(self) -> None:
        scene = Scene()
        (member_id,) = scene.stable_group(None)
        for _ in range(1_000):
            scene.advance(1)
            scene.heartbeat(member_id)
        assert scene.coordinator.next_deadline_ms() == scene.now_ms + SESSION_MS
        assert len(scene.coordinator._timers) == 1

    def test_the_earliest_comes_first_and_a_stopped_one_never(self) -> None:
        timers = Timers()
        first, second, third = (TimerKey(TimerKind.SESSION, GROUP, name) for name in "abc")
        for key, deadline_ms in ((first, 30), (second, 20), (third, 10), (first, 15)):
            timers.start(key, deadline_ms)
        timers.stop(third)
        timers.stop(third)
        assert timers.next_ms() == 15
        assert timers.pop(14) is None
        assert timers.pop(20) == first
        assert timers.pop(20) == second
        assert timers.pop(1_000) is None
        assert (len(timers), timers.next_ms()) == (0, None)
