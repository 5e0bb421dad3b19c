"""How a certificate's subject becomes a name."""

from __future__ import annotations

import pytest

from barbicel.gateway.access.principals import BadPrincipal, Principal, map_subject, parse_mapping_rules


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("DEFAULT", "CN=alice,O=Tests", "CN=alice,O=Tests"),
        ("RULE:^CN=(.*?),.*$/$1/,DEFAULT", "CN=alice,O=Tests", "alice"),
        ("RULE:^CN=(.*?),.*$/$1/,DEFAULT", "O=Tests", "O=Tests"),
        ("RULE:^CN=(.*?), *O=(.*?)$/$1@$2/L", "CN=Alice,O=Tests", "alice@tests"),
        ("RULE:^CN=([^,]*).*$/$1/U, DEFAULT", "CN=alice,O=Tests", "ALICE"),
        ("RULE:^x$/y/,RULE:^CN=(.*)$/$1/", "CN=alice", "alice"),
        ("RULE:^CN=(\\w+)\\/.*$/$1/", "CN=alice/x", "alice"),
    ],
)
def test_the_first_rule_that_matches_counts(rules: str, subject: str, name: str) -> None:
    assert map_subject(parse_mapping_rules(rules), subject) == Principal("User", name)


def test_a_rule_matches_the_whole_subject() -> None:
    """Or CN=admin somewhere in a subject would be enough."""
    rules = parse_mapping_rules("RULE:CN=admin/admin/")
    with pytest.raises(BadPrincipal, match="no rule"):
        map_subject(rules, "O=CN=admin,CN=mallory")


def test_a_comma_in_a_name_does_not_end_it() -> None:
    """RFC 4514 writes it with a backslash, so that a name cannot look like the next attribute."""
    rules = parse_mapping_rules("RULE:^CN=((?:[^,\\\\]|\\\\.)*),O=Tests$/$1/")
    assert map_subject(rules, "CN=admin\\,O=Tests,O=Tests").name == "admin\\,O=Tests"


@pytest.mark.parametrize(
    "rules", ["RULE:x", "x", "RULE:(/x/", "RULE:a/$1/", "DEFAULTRULE:a/b/", "RULE:a/b/X"]
)
def test_what_is_no_rule(rules: str) -> None:
    with pytest.raises(BadPrincipal, match="ssl.principal.mapping.rules"):
        parse_mapping_rules(rules)


@pytest.mark.parametrize("text", ["", "alice", ":alice", "User:"])
def test_what_is_no_principal(text: str) -> None:
    with pytest.raises(BadPrincipal):
        Principal.parse(text)


def test_a_principal_as_text() -> None:
    assert str(Principal.parse(" User:a:b")) == "User:a:b"
