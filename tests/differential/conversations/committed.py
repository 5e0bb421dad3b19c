"""OffsetCommit, OffsetFetch, OffsetDelete: by names and ids, for members, for nobody, what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from barbicel.codecs.kafka.messages import (
    Message,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from tests.differential.asking import new_topic, versions
from tests.differential.conversations.groups import alone
from tests.differential.group_asking import commit, leave
from tests.differential.script import Ask, Steps, conversations_of

__all__ = ["CONVERSATIONS"]

BY_ID_SINCE = 10


def committed(
    group: str, topics: Mapping[str, Sequence[int]] | None, *, topic_id: UUID | None = None, **member: Any
) -> Message:
    """Asks for offsets, in any version."""
    old, new = OffsetFetchRequest.OffsetFetchRequestTopic, OffsetFetchRequest.OffsetFetchRequestGroup
    rows = None if topics is None else list(topics.items())
    row = new.OffsetFetchRequestTopics
    return OffsetFetchRequest(
        group_id=group,
        topics=None if rows is None else [old(name=name, partition_indexes=list(p)) for name, p in rows],
        groups=[
            new(
                group_id=group,
                **{"member_id": None, "member_epoch": -1, **member},
                topics=None
                if rows is None
                else [row(name=name, topic_id=topic_id, partition_indexes=list(p)) for name, p in rows],
            )
        ],
        require_stable=False,
    )


def commits_without_a_member() -> Steps:
    identity = yield from new_topic("committed", 2)
    for version in versions(OffsetCommitRequest):
        by = identity if version >= BY_ID_SINCE else None
        group = f"committed-{version}"
        yield Ask(
            f"commit, version {version}",
            commit(group, "committed", {0: 5, 1: 6}, topic_id=by, metadata="m", epoch=0),
            version,
        )
        wrong = commit(group, "committed", {2: 1, -1: 1}, topic_id=by)
        yield Ask(f"unknown partitions, version {version}", wrong, version)
        nowhere = commit(group, "committed-none", {0: 1}, topic_id=UUID(int=5) if by else None)
        yield Ask(f"unknown topic, version {version}", nowhere, version)
        negative = commit(group, "committed", {0: -1}, topic_id=by)
        yield Ask(f"a negative offset, version {version}", negative, version)
        yield Ask(
            f"no metadata, version {version}",
            commit(group, "committed", {1: 7}, topic_id=by, metadata=None),
            version,
        )
    long = commit("committed-long", "committed", {0: 1}, metadata="x" * 4097)
    yield Ask("metadata that is too long", long, 9)
    yield Ask("no group", commit("", "committed", {0: 1}), 9)
    yield Ask("nothing", OffsetCommitRequest(group_id="committed-2", topics=[]), 9)


def commits_fetched() -> Steps:
    identity = yield from new_topic("fetched", 3)
    yield Ask("commit", commit("fetched", "fetched", {0: 5, 1: 0}, metadata="m", epoch=0), 9)
    for version in versions(OffsetFetchRequest):
        by = identity if version >= BY_ID_SINCE else None
        for label, topics in (
            ("some", {"fetched": [0, 1, 2]}),
            ("unknown partitions", {"fetched": [7, -1]}),
            ("no partitions", {"fetched": []}),
            ("nothing", {}),
            ("all", None),
        ):
            if topics is not None or version >= 2:
                yield Ask(f"{label}, version {version}", committed("fetched", topics, topic_id=by), version)
        other = UUID(int=6) if by else None
        yield Ask(
            f"unknown topic, version {version}",
            committed("fetched", {"fetched-none": [0]}, topic_id=other),
            version,
        )
        yield Ask(
            f"unknown group, version {version}",
            committed("fetched-none", {"fetched": [0]}, topic_id=by),
            version,
        )
        yield Ask(f"no group, version {version}", committed("", {"fetched": [0]}, topic_id=by), version)
    several: Any = committed("fetched", None)
    several.groups = [*several.groups, *committed("fetched-none", None).groups]
    yield Ask("two groups", several, 8)
    for label, given in (
        ("a member", {"member_id": "who"}),
        ("an epoch", {"member_epoch": 1}),
        ("both", {"member_id": "who", "member_epoch": 1}),
    ):
        yield Ask(f"as {label}", committed("fetched", {"fetched": [0]}, **given), 9)


def commits_of_members() -> Steps:
    yield from new_topic("members")
    member = yield from alone("a member", "members", 9)
    who = member.member_id
    for version in (2, 5, 7, 9):
        for label, group, generation, name in (
            ("its own", "members", 1, who),
            ("a wrong generation", "members", 2, who),
            ("an older generation", "members", 0, who),
            ("an unknown member", "members", 1, "nobody"),
            ("no member", "members", -1, ""),
            ("a generation alone", "members", 1, ""),
            ("a member alone", "members", -1, who),
            ("a generation of an unknown group", f"members-unknown-{version}", 1, "nobody"),
            ("a member of an unknown group", "members-none", -1, "nobody"),
        ):
            request = commit(group, "members", {0: version}, member=(generation, name))
            yield Ask(f"{label}, version {version}", request, version)
    instance: Any = commit("members", "members", {0: 1}, member=(1, who))
    instance.group_instance_id = "nobody"
    yield Ask("an unknown instance", instance, 9)
    yield Ask("leave", leave("members", who), 5)
    yield Ask("who has left", commit("members", "members", {0: 1}, member=(1, who)), 9)
    yield Ask("nobody, when it is empty", commit("members", "members", {0: 9}), 9)
    yield Ask("fetched", committed("members", None), 9)


def commits_deleted() -> Steps:
    yield from new_topic("deleted-offsets", 2)
    yield Ask("commit", commit("deleted-offsets", "deleted-offsets", {0: 1, 1: 1}), 9)
    yield Ask("one", _delete("deleted-offsets", {"deleted-offsets": [0]}), 0)
    yield Ask(
        "again, and unknown ones", _delete("deleted-offsets", {"deleted-offsets": [0, 9], "none": [0]}), 0
    )
    yield Ask("unknown group", _delete("deleted-offsets-none", {"deleted-offsets": [0]}), 0)
    yield Ask("no group", _delete("", {"deleted-offsets": [0]}), 0)
    yield Ask("fetched", committed("deleted-offsets", None), 9)
    yield from new_topic("t")
    yield from alone("a member", "deleted-subscribed", 9)
    yield Ask("commit of nobody", commit("deleted-subscribed", "t", {0: 1}), 9)
    yield Ask("of a topic in use", _delete("deleted-subscribed", {"t": [0], "deleted-offsets": [0]}), 0)


def _delete(group: str, topics: Mapping[str, Sequence[int]]) -> Message:
    row = OffsetDeleteRequest.OffsetDeleteRequestTopic
    one = row.OffsetDeleteRequestPartition
    return OffsetDeleteRequest(
        group_id=group,
        topics=[
            row(name=name, partitions=[one(partition_index=number) for number in numbers])
            for name, numbers in topics.items()
        ],
    )


CONVERSATIONS = conversations_of(
    commits_without_a_member, commits_fetched, commits_of_members, commits_deleted
)
