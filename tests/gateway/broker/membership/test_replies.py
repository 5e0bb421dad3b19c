"""Answers: given once, given to all, and never while a group is changing."""

from __future__ import annotations

import pytest

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.gateway.broker.membership import GroupState, JoinAnswer, PendingReply, SyncAnswer
from barbicel.gateway.broker.membership.replies import Outbox
from tests.gateway.broker.membership.builders import DELAY_MS, SESSION_MS, Inbox, Scene


def test_a_question_cannot_be_answered_twice() -> None:
    outbox = Outbox()
    received: list[int] = []
    reply = PendingReply(received.append)
    outbox.put(reply, 1)
    with pytest.raises(AssertionError):
        outbox.put(reply, 2)


def test_one_receiver_that_fails_keeps_no_answer_from_the_others() -> None:
    outbox = Outbox()
    received: list[int] = []

    def fail(answer: int) -> None:
        raise OSError(answer)

    for receive in (fail, received.append, fail, received.append):
        outbox.put(PendingReply(receive), len(received))
    with pytest.raises(ExceptionGroup) as raised:
        outbox.deliver()
    assert len(raised.value.exceptions) == 2
    assert received == [0, 0]


def test_whoever_gets_an_answer_may_ask_the_next_thing_at_once() -> None:
    scene = Scene()
    assigned: list[Inbox[SyncAnswer]] = []
    states: list[GroupState | None] = []

    def ask_for_assignment(answer: JoinAnswer) -> None:
        states.append(scene.state())
        assigned.append(scene.sync(answer.member_id, [(answer.leader, b"all")]))

    inboxes = [scene.join(version=3) for _ in range(3)]
    for inbox in inboxes:
        assert inbox.pending is not None
        inbox.pending._receive = ask_for_assignment
    scene.advance(2 * DELAY_MS)
    # The leader comes first, and its sync makes the group stable before the others hear of the generation.
    assert states == [GroupState.COMPLETING_REBALANCE, GroupState.STABLE, GroupState.STABLE]
    assert all(not inbox.waits for inbox in assigned)


class TestALostConnection:
    def test_a_forgotten_join_is_not_answered_but_its_member_stays(self) -> None:
        scene = Scene()
        lost, kept = scene.join(version=3), scene.join(version=3)
        assert lost.pending is not None
        lost.pending.forget()
        scene.advance(2 * DELAY_MS)
        assert lost.waits
        assert kept.answer.leader == "client-u1"
        scene.heartbeat(kept.answer.member_id)
        scene.advance(SESSION_MS - 1)
        scene.heartbeat(kept.answer.member_id)
        assert scene.state() is GroupState.COMPLETING_REBALANCE
        # Its session ends like that of anybody who is silent.
        scene.advance(1)
        assert scene.state() is GroupState.PREPARING_REBALANCE

    def test_a_forgotten_sync_is_not_answered(self) -> None:
        scene = Scene()
        leader, follower = scene.generation_of(None, None)
        lost = scene.sync(follower)
        assert lost.pending is not None
        lost.pending.forget()
        scene.sync(leader)
        assert lost.waits
        assert scene.heartbeat(follower) is ErrorCode.NONE
        scene.advance(SESSION_MS)
        assert scene.state() is None

    def test_forgetting_what_is_answered_does_nothing(self) -> None:
        scene = Scene()
        inbox = scene.join()
        assert inbox.pending is not None
        inbox.pending.forget()
        inbox.pending.forget()
        assert inbox.answer.error is ErrorCode.MEMBER_ID_REQUIRED
