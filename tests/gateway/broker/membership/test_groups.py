"""What others see of a group and may do to it: describe, list, delete, commit, delete offsets."""

from __future__ import annotations

import pytest

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.gateway.broker.membership import DescribedGroup, DescribedMember, GroupState, ListedGroup
from barbicel.gateway.broker.membership.settings import GroupSettings
from tests.gateway.broker.membership.builders import (
    DELAY_MS,
    GROUP,
    SESSION_MS,
    Scene,
    protocols,
    subscription,
)


class TestDescription:
    def test_a_stable_group_is_shown_with_everything(self) -> None:
        scene = Scene()
        first, second = scene.stable_group(None, "b")
        metadata = subscription(["topic"])
        assert scene.coordinator.describe(GROUP) == DescribedGroup(
            GROUP,
            GroupState.STABLE,
            "consumer",
            "range",
            (
                DescribedMember(first, None, "client", "/127.0.0.1", metadata, first.upper().encode()),
                DescribedMember(second, "b", "client", "/127.0.0.1", metadata, second.upper().encode()),
            ),
        )

    def test_any_other_without_protocol_and_metadata(self) -> None:
        scene = Scene()
        (member_id,) = scene.generation_of(None)
        assert scene.coordinator.describe(GROUP) == DescribedGroup(
            GROUP,
            GroupState.COMPLETING_REBALANCE,
            "consumer",
            "",
            (DescribedMember(member_id, None, "client", "/127.0.0.1", b"", b""),),
        )

    def test_an_id_that_was_given_out_is_not_shown(self) -> None:
        scene = Scene()
        scene.obtain_id()
        assert scene.coordinator.describe(GROUP) == DescribedGroup(GROUP, GroupState.EMPTY, "", "", ())

    def test_assignments_that_nobody_will_get_are_not_shown(self) -> None:
        scene = Scene()
        (member_id,) = scene.stable_group(None)
        scene.join(member_id)
        scene.join(version=3)
        described = scene.coordinator.describe(GROUP)
        assert described is not None
        assert described.state is GroupState.PREPARING_REBALANCE
        assert [member.assignment for member in described.members] == [b"", b""]

    def test_unknown_groups_are_not_described(self) -> None:
        assert Scene().coordinator.describe(GROUP) is None

    def test_all_groups_are_listed(self) -> None:
        scene = Scene()
        scene.stable_group(None)
        scene.join(group_id="other", version=3, protocol_type="connect")
        assert scene.coordinator.list_groups() == [
            ListedGroup(GROUP, "consumer", GroupState.STABLE),
            ListedGroup("other", "connect", GroupState.PREPARING_REBALANCE),
        ]


class TestRemoval:
    def test_only_an_empty_group_can_be_removed(self) -> None:
        scene = Scene()
        scene.stable_group(None)
        assert scene.coordinator.remove(GROUP) is ErrorCode.NON_EMPTY_GROUP
        scene.advance(SESSION_MS)
        assert scene.coordinator.remove(GROUP) is ErrorCode.GROUP_ID_NOT_FOUND

    def test_ids_that_were_given_out_go_with_it(self) -> None:
        scene = Scene()
        promised = scene.obtain_id()
        assert scene.coordinator.remove(GROUP) is ErrorCode.NONE
        assert scene.coordinator.next_deadline_ms() is None
        assert scene.join(promised).answer.error is ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_group_that_comes_back_begins_again(self) -> None:
        scene = Scene()
        scene.stable_group(None)
        scene.advance(SESSION_MS)
        assert scene.state() is None
        scene.stable_group(None)


class TestCommits:
    def test_a_consumer_without_a_group_may_commit(self) -> None:
        scene = Scene()
        assert scene.commit_error() is ErrorCode.NONE
        scene.obtain_id()
        assert scene.state() is GroupState.EMPTY
        assert scene.commit_error() is ErrorCode.NONE

    def test_but_not_into_a_group_that_has_members(self) -> None:
        scene = Scene()
        scene.stable_group(None)
        assert scene.commit_error() is ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_member_commits_in_its_generation(self) -> None:
        scene = Scene()
        (member_id,) = scene.stable_group("a")
        assert scene.commit_error(member_id, 1) is ErrorCode.NONE
        assert scene.commit_error(member_id, 1, "a") is ErrorCode.NONE
        assert scene.commit_error(member_id, 2) is ErrorCode.ILLEGAL_GENERATION
        assert scene.commit_error(member_id, -1) is ErrorCode.ILLEGAL_GENERATION
        assert scene.commit_error("stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID
        assert scene.commit_error("stranger", 1, "a") is ErrorCode.FENCED_INSTANCE_ID
        assert scene.commit_error("", 1) is ErrorCode.UNKNOWN_MEMBER_ID

    def test_also_while_a_rebalance_is_prepared(self) -> None:
        scene = Scene()
        (member_id,) = scene.stable_group(None)
        scene.join(version=3)
        assert scene.commit_error(member_id, 1) is ErrorCode.NONE

    def test_not_before_it_knows_its_assignment(self) -> None:
        scene = Scene()
        (member_id,) = scene.generation_of(None)
        assert scene.commit_error(member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS

    def test_a_generation_of_a_group_that_is_gone(self) -> None:
        assert Scene().commit_error("me", 3) is ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_commit_is_a_sign_of_life(self) -> None:
        scene = Scene()
        (member_id,) = scene.stable_group(None)
        for _ in range(3):
            scene.advance(SESSION_MS - 1)
            assert scene.commit_error(member_id, 1) is ErrorCode.NONE

    def test_transactions_commit_for_members_or_for_nobody(self) -> None:
        scene = Scene()
        (member_id,) = scene.generation_of(None)
        assert scene.commit_error(transactional=True) is ErrorCode.NONE
        assert scene.commit_error(member_id, 1, transactional=True) is ErrorCode.NONE
        assert scene.commit_error(member_id, 2, transactional=True) is ErrorCode.ILLEGAL_GENERATION
        assert scene.commit_error("stranger", 1, transactional=True) is ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_transaction_is_no_sign_of_life(self) -> None:
        scene = Scene()
        (member_id,) = scene.stable_group(None)
        scene.advance(SESSION_MS - 1)
        scene.commit_error(member_id, 1, transactional=True)
        scene.advance(1)
        assert scene.state() is None


class TestOffsetDeletion:
    def test_topics_that_some_member_reads_are_in_use(self) -> None:
        scene = Scene()
        for topics in (["s", "t"], ["t", "u"]):
            scene.join(version=3, offers=protocols("range", metadata=subscription(topics)))
        scene.advance(2 * DELAY_MS)
        assert scene.coordinator.check_offset_delete(GROUP) is ErrorCode.NONE
        in_use = [topic for topic in "rstuv" if scene.coordinator.is_subscribed(GROUP, topic)]
        assert in_use == ["s", "t", "u"]

    def test_all_are_before_the_first_generation(self) -> None:
        scene = Scene()
        scene.join(version=3)
        assert scene.coordinator.is_subscribed(GROUP, "whatever")

    def test_all_are_if_a_member_cannot_be_understood(self) -> None:
        scene = Scene()
        scene.stable_group(None, offers=protocols("range", metadata=b"\0"))
        assert scene.coordinator.is_subscribed(GROUP, "whatever")

    def test_none_is_without_members(self) -> None:
        scene = Scene()
        assert not scene.coordinator.is_subscribed(GROUP, "topic")
        assert scene.coordinator.check_offset_delete(GROUP) is ErrorCode.GROUP_ID_NOT_FOUND
        scene.obtain_id()
        assert not scene.coordinator.is_subscribed(GROUP, "topic")
        assert scene.coordinator.check_offset_delete(GROUP) is ErrorCode.NONE

    def test_of_other_types_of_groups_nothing_is_known(self) -> None:
        scene = Scene()
        scene.join(version=3, protocol_type="connect")
        assert scene.coordinator.check_offset_delete(GROUP) is ErrorCode.NON_EMPTY_GROUP
        assert not scene.coordinator.is_subscribed(GROUP, "topic")


@pytest.mark.parametrize(
    "changes",
    [
        {"initial_rebalance_delay_ms": -1},
        {"min_session_timeout_ms": 0},
        {"max_size": 0},
        {"new_member_join_timeout_ms": 0},
        {"max_session_timeout_ms": 5_999},
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        GroupSettings(**changes)
