"""Groups: a whole conversation of two members in every version, static members, and what is refused."""

from __future__ import annotations

from typing import Any

from barbicel.codecs.kafka.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    Message,
    SyncGroupRequest,
)
from tests.differential.asking import versions
from tests.differential.group_asking import at, heartbeat, join, leave, sync
from tests.differential.script import Ask, Await, Receive, Send, Steps, conversations_of

__all__ = ["CONVERSATIONS"]

ID_FIRST_SINCE = 4
MEMBER_ID_REQUIRED = 79


def joined(label: str, group: str, version: int, **options: Any) -> Steps:
    """The answer that makes it a member; where an id is given out first, that is compared too."""
    answer = yield Ask(f"{label}: join", join(group, **options), version)
    if answer.error_code == MEMBER_ID_REQUIRED:
        answer = yield Ask(f"{label}: join with the id", join(group, answer.member_id, **options), version)
    return answer


def alone(label: str, group: str, version: int, **options: Any) -> Steps:
    """A group of one, in use."""
    member = yield from joined(label, group, version, **options)
    static = options.get("instance_id")
    request = sync(group, member, {member.member_id: b"assigned"}, instance_id=static)
    yield Ask(f"{label}: sync", request, at(SyncGroupRequest, version))
    return member


def find_coordinators() -> Steps:
    for version in versions(FindCoordinatorRequest):
        for key_type in (0, 2, 9) if version else (0,):
            for key in ("group", "", "a b"):
                request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key, "other"])
                yield Ask(f"{key!r} of type {key_type}, version {version}", request, version)


def two_members() -> Steps:
    for version in versions(JoinGroupRequest):
        yield from _two_members(f"version {version}", f"two-{version}", version)


def _two_members(label: str, group: str, version: int) -> Steps:
    first = yield from alone(label, group, version)
    beat, off = at(HeartbeatRequest, version), at(LeaveGroupRequest, version)
    yield Ask(f"{label}: heartbeat", heartbeat(group, first), beat)
    yield from described(f"{label}: one member", group)
    second_id = ""
    if version >= ID_FIRST_SINCE:
        given = yield Ask(f"{label}: second asks for an id", join(group), version)
        second_id = given.member_id
    yield Send("", join(group, second_id), version, on="b")
    # The server has got it when the first member is told to join again.
    yield Await(
        Ask(f"{label}: heartbeat while joining", heartbeat(group, first), beat),
        lambda beat: beat.error_code == 27,
    )
    yield Send("", join(group, first.member_id), version)
    again = yield Receive(f"{label}: the first joins again")
    second = yield Receive(f"{label}: the second joins", on="b")
    yield Ask(f"{label}: heartbeat before sync", heartbeat(group, again), beat)
    yield Send("", sync(group, second, {}), at(SyncGroupRequest, version), on="b")
    plan = {again.member_id: b"one", second.member_id: b"two"}
    yield Ask(f"{label}: the leader syncs", sync(group, again, plan), at(SyncGroupRequest, version))
    yield Receive(f"{label}: the other syncs", on="b")
    yield Ask(f"{label}: syncs again", sync(group, again, plan), at(SyncGroupRequest, version))
    yield from described(f"{label}: two members", group)
    yield Ask(f"{label}: leave", leave(group, second.member_id), off)
    yield Ask(f"{label}: leave again", leave(group, second.member_id), off)
    yield Ask(f"{label}: heartbeat of who left", heartbeat(group, second), beat)
    yield Ask(f"{label}: the last leaves", leave(group, first.member_id), off)
    yield from described(f"{label}: nobody", group)


def described(label: str, *groups: str) -> Steps:
    for version in (0, 4, 6):
        request = DescribeGroupsRequest(groups=list(groups), include_authorized_operations=False)
        yield Ask(f"{label}: described, version {version}", request, version)


def static_members() -> Steps:
    for version in (5, 7, 9):
        group, label = f"static-{version}", f"version {version}"
        first = yield from alone(label, group, version, instance_id="i")
        yield from described(label, group)
        back = yield Ask(f"{label}: it comes back", join(group, instance_id="i"), version)
        yield Ask(f"{label}: its old id joins", join(group, first.member_id, instance_id="i"), version)
        fenced: Any = heartbeat(group, first)
        fenced.group_instance_id = "i"
        yield Ask(f"{label}: its old id beats", fenced, at(HeartbeatRequest, version))
        old = sync(group, first, {}, instance_id="i")
        yield Ask(f"{label}: its old id syncs", old, at(SyncGroupRequest, version))
        again = sync(group, back, {}, instance_id="i")
        yield Ask(f"{label}: it syncs", again, at(SyncGroupRequest, version))
        unknown: Any = heartbeat(group, back)
        unknown.group_instance_id = "nobody"
        yield Ask(f"{label}: an unknown instance beats", unknown, at(HeartbeatRequest, version))
        for who in ("nobody", "i"):
            request = leave(group, "", who)
            yield Ask(f"{label}: {who} is sent away", request, max(3, at(LeaveGroupRequest, version)))


def joins_that_are_refused() -> Steps:
    yield from alone("a group of one", "refused", 9)
    for version in (0, 3, 4, 5, 9):
        for label, request in _refused_joins().items():
            yield Ask(f"{label}, version {version}", request, version)


def _refused_joins() -> dict[str, Message]:
    no_protocols: Any = join("refused-none")
    no_protocols.protocols = []
    no_type: Any = join("refused-none")
    no_type.protocol_type = ""
    return {
        "no group": join(""),
        "an unknown member": join("refused", "nobody"),
        "an unknown member of an unknown group": join("refused-unknown", "nobody"),
        "an unknown member with an instance": join("refused", "nobody", instance_id="i"),
        "a session too short": join("refused-none", session_ms=10),
        "a session too long": join("refused-none", session_ms=10_000_000),
        "no protocols": no_protocols,
        "no protocol type": no_type,
        "another protocol": join("refused", protocol="another"),
    }


def another_protocol_type() -> Steps:
    yield from alone("a consumer", "types", 9)
    request: Any = join("types")
    request.protocol_type = "connect"
    for version in (3, 4, 9):
        yield Ask(f"version {version}", request, version)


def requests_of_nobody() -> Steps:
    member = yield from alone("a member", "nobody", 9)
    for version in versions(SyncGroupRequest):
        for label, group, generation, who in (
            ("unknown group", "nobody-unknown", 1, "who"),
            ("no group", "", 1, "who"),
            ("unknown member", "nobody", 1, "who"),
            ("wrong generation", "nobody", 7, member.member_id),
            ("older generation", "nobody", 0, member.member_id),
            ("negative generation", "nobody", -1, member.member_id),
            ("no member", "nobody", 1, ""),
        ):
            named = f"{label}, version {version}"
            request = SyncGroupRequest(
                group_id=group,
                generation_id=generation,
                member_id=who,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[],
            )
            yield Ask(f"sync, {named}", request, version)
            beat = HeartbeatRequest(group_id=group, generation_id=generation, member_id=who)
            yield Ask(f"heartbeat, {named}", beat, at(HeartbeatRequest, version))
            if who != member.member_id:
                yield Ask(f"leave, {named}", leave(group, who), version)
    for kind, name in (("other", "range"), ("consumer", "other"), (None, None)):
        other: Any = sync("nobody", member, {})
        other.protocol_type, other.protocol_name = kind, name
        yield Ask(f"sync with {kind} {name}", other, 5)
    yield Ask("leave with nobody", LeaveGroupRequest(group_id="nobody", members=[]), 5)


def groups_listed() -> Steps:
    yield from alone("a member", "listed", 9)
    mine = DescribeGroupsRequest(
        groups=["listed", "listed-none", "", "listed"], include_authorized_operations=True
    )
    for version in versions(DescribeGroupsRequest):
        yield Ask(f"described, version {version}", mine, version)
    filters: tuple[tuple[list[str], list[str]], ...] = (
        ([], []),
        (["Stable"], []),
        (["stable"], []),
        (["Dead"], []),
        (["Nonsense"], []),
        ([], ["classic"]),
        ([], ["consumer"]),
        ([], ["nonsense"]),
    )
    for version in versions(ListGroupsRequest):
        for states, types in filters:
            request = ListGroupsRequest(states_filter=states, types_filter=types)
            if (version >= 4 or not states) and (version >= 5 or not types):
                yield Ask(f"{states} {types}, version {version}", request, version)


def groups_deleted() -> Steps:
    member = yield from alone("a member", "deleted", 9)
    names = ["deleted", "deleted-none", ""]
    for version in versions(DeleteGroupsRequest):
        yield Ask(f"in use, version {version}", DeleteGroupsRequest(groups_names=names), version)
    yield Ask("leave", leave("deleted", member.member_id), 5)
    yield Ask("named twice", DeleteGroupsRequest(groups_names=["deleted", "deleted"]), 2)
    yield Ask("once more", DeleteGroupsRequest(groups_names=["deleted"]), 2)


CONVERSATIONS = conversations_of(
    find_coordinators,
    two_members,
    static_members,
    joins_that_are_refused,
    another_protocol_type,
    requests_of_nobody,
    groups_listed,
    groups_deleted,
)
