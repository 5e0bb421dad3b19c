"""What ACLs allow, against a model that is as plain as Kafka's documents; and which ACLs a filter finds."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from barbicel.codecs.access_file import decode_acls, encode_acls
from barbicel.codecs.kafka.acls import Acl, Operation, Pattern, Permission, Resource
from barbicel.gateway.access.acl_filter import AclFilter, BadAcl, check_acl
from barbicel.gateway.access.authorizer import Authorizer
from barbicel.gateway.access.principals import Principal, user

NAMES = ("a", "ab", "abc", "b", "*")
USERS = ("alice", "bob")
HOSTS = ("10.0.0.1", "10.0.0.2")
RESOURCES = (Resource.TOPIC, Resource.GROUP)
OPERATIONS = (
    Operation.READ,
    Operation.WRITE,
    Operation.DESCRIBE,
    Operation.ALTER_CONFIGS,
    Operation.DESCRIBE_CONFIGS,
)
acls = st.builds(
    Acl,
    st.sampled_from(RESOURCES),
    st.sampled_from(NAMES),
    st.sampled_from((Pattern.LITERAL, Pattern.PREFIXED)),
    st.sampled_from(("User:alice", "User:bob", "User:*", "Group:alice")),
    st.sampled_from((*HOSTS, "*")),
    st.sampled_from((*OPERATIONS, Operation.ALL)),
    st.sampled_from((Permission.ALLOW, Permission.DENY)),
)
IMPLIED = {
    Operation.READ: {Operation.DESCRIBE},
    Operation.WRITE: {Operation.DESCRIBE},
    Operation.DELETE: {Operation.DESCRIBE},
    Operation.ALTER: {Operation.DESCRIBE},
    Operation.ALTER_CONFIGS: {Operation.DESCRIBE_CONFIGS},
}


def model(rules: set[Acl], who: str, host: str, operation: Operation, resource: Resource, name: str) -> bool:
    """One pass over all rules, with nothing remembered and no index."""
    about = [
        acl
        for acl in rules
        if acl.resource == resource
        and (
            name.startswith(acl.name)
            if acl.pattern == Pattern.PREFIXED
            else acl.name == name or acl.name == "*"
        )
    ]
    mine = [acl for acl in about if acl.principal in (f"User:{who}", "User:*") and acl.host in (host, "*")]
    for acl in mine:
        if acl.permission == Permission.DENY and acl.operation in (operation, Operation.ALL):
            return False
    for acl in mine:
        granted = {acl.operation} | IMPLIED.get(acl.operation, set())
        if acl.permission == Permission.ALLOW and (acl.operation == Operation.ALL or operation in granted):
            return True
    return False


class Authorizing(RuleBasedStateMachine):
    """Rules come and go; whatever is asked, index and memory answer as the model does."""

    def __init__(self) -> None:
        super().__init__()
        self.held: set[Acl] = set()
        self.authorizer = Authorizer((), frozenset({user("root")}), allow_if_no_acl=False)
        self.asked: list[tuple[str, str, Operation, Resource, str]] = []

    @rule(acl=acls)
    def create(self, acl: Acl) -> None:
        self.held.add(acl)
        self.authorizer.replace(self.held)

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        if self.held:
            self.held.remove(data.draw(st.sampled_from(sorted(self.held))))
            self.authorizer.replace(self.held)

    @rule(
        who=st.sampled_from(USERS),
        host=st.sampled_from(HOSTS),
        operation=st.sampled_from(OPERATIONS),
        resource=st.sampled_from(RESOURCES),
        name=st.sampled_from(NAMES),
    )
    def ask(self, who: str, host: str, operation: Operation, resource: Resource, name: str) -> None:
        self.asked.append((who, host, operation, resource, name))

    @invariant()
    def agrees(self) -> None:
        for who, host, operation, resource, name in self.asked:
            found = self.authorizer.is_allowed(user(who), host, operation, resource, name)
            assert found == model(self.held, who, host, operation, resource, name)
            assert self.authorizer.is_allowed(user("root"), host, operation, resource, name)

    @invariant()
    def is_the_same_after_a_restart(self) -> None:
        assert decode_acls(encode_acls(self.held)) == self.held


TestAuthorizing = Authorizing.TestCase
TestAuthorizing.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


@given(st.sets(acls, max_size=8), st.sampled_from(USERS), st.sampled_from(HOSTS), st.sampled_from(RESOURCES))
def test_somewhere_is_allowed_whenever_one_name_is(
    rules: set[Acl], who: str, host: str, resource: Resource
) -> None:
    """It may say yes where only names that nobody has are allowed, and never no where one is."""
    authorizer = Authorizer(rules, frozenset(), allow_if_no_acl=False)
    names = ("a", "ab", "abc", "abcd", "b", "bz")
    if any(model(rules, who, host, Operation.WRITE, resource, name) for name in names):
        assert authorizer.is_allowed_somewhere(user(who), host, Operation.WRITE, resource)


def acl(name: str, permission: Permission = Permission.ALLOW, **changed: object) -> Acl:
    fields: dict[str, object] = {
        "resource": Resource.TOPIC,
        "name": name,
        "pattern": Pattern.LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": Operation.WRITE,
        "permission": permission,
        **changed,
    }
    return Acl(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([], False),
        ([acl("t")], True),
        ([acl("*")], True),
        ([acl("t", pattern=Pattern.PREFIXED)], True),
        ([acl("t"), acl("t", Permission.DENY)], False),
        ([acl("tt"), acl("t", Permission.DENY, pattern=Pattern.PREFIXED)], False),
        ([acl("tt", pattern=Pattern.PREFIXED), acl("t", Permission.DENY, pattern=Pattern.PREFIXED)], False),
        ([acl("t", pattern=Pattern.PREFIXED), acl("tt", Permission.DENY, pattern=Pattern.PREFIXED)], True),
        ([acl("*"), acl("*", Permission.DENY)], False),
        ([acl("*"), acl("t", Permission.DENY)], True),
        ([acl("t", operation=Operation.READ)], False),
        ([acl("t", resource=Resource.GROUP)], False),
        ([acl("t", principal="User:bob")], False),
        ([acl("t", host="10.9.9.9")], False),
    ],
)
def test_somewhere(rules: list[Acl], expected: bool) -> None:
    authorizer = Authorizer(rules, frozenset(), allow_if_no_acl=False)
    found = authorizer.is_allowed_somewhere(user("alice"), HOSTS[0], Operation.WRITE, Resource.TOPIC)
    assert found is expected


def test_what_no_acl_is_about_may_be_for_everybody() -> None:
    authorizer = Authorizer([acl("t")], frozenset(), allow_if_no_acl=True)

    def may(who: Principal, name: str) -> bool:
        return authorizer.is_allowed(who, HOSTS[0], Operation.WRITE, Resource.TOPIC, name)

    assert may(user("bob"), "other")
    assert not may(user("bob"), "t")
    assert may(user("alice"), "t")


# --- filters ----------------------------------------------------------------------------------------------

RULES = [acl("t"), acl("*"), acl("t", pattern=Pattern.PREFIXED), acl("tx"), acl("x")]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclFilter(), {0, 1, 2, 3, 4}),
        (AclFilter(name="t"), {0, 2}),
        (AclFilter(name="t", pattern=Pattern.LITERAL), {0}),
        (AclFilter(name="t", pattern=Pattern.PREFIXED), {2}),
        (AclFilter(pattern=Pattern.PREFIXED), {2}),
        (AclFilter(name="tx", pattern=Pattern.MATCH), {1, 2, 3}),
        (AclFilter(name="y", pattern=Pattern.MATCH), {1}),
        (AclFilter(name="*", pattern=Pattern.LITERAL), {1}),
        (AclFilter(resource=Resource.GROUP), set()),
        (AclFilter(principal="User:bob"), set()),
        (AclFilter(host="*"), {0, 1, 2, 3, 4}),
        (AclFilter(host="10.0.0.1"), set()),
        (AclFilter(operation=Operation.ALL), set()),
        (AclFilter(permission=Permission.DENY), set()),
    ],
)
def test_which_acls_a_filter_finds(wanted: AclFilter, found: set[int]) -> None:
    assert {number for number, one in enumerate(RULES) if wanted.matches(one)} == found


@pytest.mark.parametrize(
    "bad",
    [
        acl(""),
        acl("t", resource=Resource.ANY),
        acl("t", pattern=Pattern.MATCH),
        acl("t", pattern=Pattern.ANY),
        acl("t", operation=Operation.ANY),
        acl("t", permission=Permission.ANY),
        acl("t", principal="alice"),
        acl("t", principal=""),
        acl("t", host=""),
        acl("t\n"),
        acl("t" * 1001),
        acl("t", resource=Resource.CLUSTER),
        acl("kafka-cluster", resource=Resource.CLUSTER, pattern=Pattern.PREFIXED),
    ],
)
def test_what_is_no_rule(bad: Acl) -> None:
    with pytest.raises(BadAcl):
        check_acl(bad)


def test_long_names_that_clients_make_up_do_not_fill_the_memory() -> None:
    """A request of 2 MiB has sixty names of 32 KB, and each would be remembered with its decision."""
    authorizer = Authorizer([], frozenset(), allow_if_no_acl=False)
    alice = user("alice")
    tracemalloc.start()
    try:
        for number in range(1000):
            name = f"{number}".ljust(32_000, "x")
            assert not authorizer.is_allowed(alice, "10.0.0.1", Operation.READ, Resource.TOPIC, name)
        assert tracemalloc.get_traced_memory()[0] < 1 << 20
    finally:
        tracemalloc.stop()


def test_whether_somewhere_changes_with_the_acls() -> None:
    rule_ = Acl(Resource.TOPIC, "a", Pattern.LITERAL, "User:alice", "*", Operation.WRITE, Permission.ALLOW)
    authorizer = Authorizer([rule_], frozenset(), allow_if_no_acl=False)
    asked = user("alice"), "10.0.0.1", Operation.WRITE, Resource.TOPIC
    assert authorizer.is_allowed_somewhere(*asked)
    authorizer.replace([])
    assert not authorizer.is_allowed_somewhere(*asked)
