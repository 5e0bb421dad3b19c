"""`barbicel user` and `barbicel acl`: they find a server, and tell that there is none, as all others do."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka.errors import NodeNotReadyError

from barbicel.cli.acl_options import OPERATIONS, OperationName
from barbicel.gateway.access.administration import AdministrationRefused, _refusing
from tests.cli.live import Live, invoke


@pytest.mark.parametrize("command", [("user", "list"), ("acl", "list")], ids=" ".join)
def test_users_and_acls_tell_that_nobody_answers_as_all_others_do(command: tuple[str, ...]) -> None:
    result = invoke(*command, "--bootstrap", "127.0.0.1:1")
    assert result.exit_code == 2
    assert "no server answers" in result.stderr
    assert "Error: 127.0.0.1:1: " in result.stderr


@pytest.mark.parametrize("command", [("list",), ("delete", "alice")], ids=" ".join)
def test_a_data_directory_that_there_is_not_is_told_and_not_made(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    """It would look like one without users."""
    missing = tmp_path / "mistyped"
    result = invoke("user", *command, "--data", str(missing))
    assert result.exit_code == 2
    assert result.stderr == f"Error: {missing}: there is no data directory\n"
    assert not missing.exists()


def test_the_first_user_may_come_before_the_data_directory(tmp_path: Path) -> None:
    data = str(tmp_path / "new")
    assert invoke("user", "set", "admin", "--data", data, stdin=b"a password\n").exit_code == 0
    assert '"user": "admin"' in invoke("user", "list", "--data", data, "--json").stdout


def test_users_and_acls_find_the_server_by_its_settings(live: Live) -> None:
    assert invoke("user", "list", "--json", env=live.settings()).stdout == '{\n  "users": []\n}\n'
    refused = invoke("acl", "list", env=live.settings())
    assert refused.exit_code == 2
    assert refused.stderr == "Error: there is no access control on this server (SecurityDisabled)\n"


@pytest.mark.parametrize(
    "name", ["describeconfigs", "DescribeConfigs", "DESCRIBE_CONFIGS", "describe_configs"]
)
def test_an_operation_is_known_by_all_of_its_names(name: str) -> None:
    assert (
        OperationName(list(OPERATIONS), case_sensitive=False).convert(name, None, None) == "describeconfigs"
    )
    wanted = ("--topic", "q", "--principal", "User:a", "--bootstrap", "127.0.0.1:1", "--operation", name)
    assert "no server answers" in invoke("acl", "create", *wanted).stderr


ALWAYS = ("--principal", "User:a", "--operation", "read", "--bootstrap", "127.0.0.1:1")
SENSELESS = [
    ("--topic", "q", "--host", "1.2.3.0/24"),
    ("--topic", "q", "--host", "client.example"),
    ("--topic", "q", "--host", "0:0:0:0:0:0:0:1"),
    ("--topic", "in valid"),
    ("--topic", ".."),
    ("--topic", "q" * 250),
    ("--topic", "in valid", "--prefixed"),
    ("--topic", "*", "--prefixed"),
]
SENSIBLE = [
    ("--topic", "q", "--host", "192.0.2.1"),
    ("--topic", "q", "--host", "::1"),
    ("--topic", "q", "--host", "::ffff:192.0.2.1"),
    ("--topic", "*", "--host", "*"),
    ("--topic", "..", "--prefixed"),
    ("--topic", "q" * 249, "--prefixed"),
    ("--group", "any thing"),
    ("--cluster",),
]


@pytest.mark.parametrize("given", SENSELESS, ids=" ".join)
def test_an_acl_that_could_never_hold_is_refused(given: tuple[str, ...]) -> None:
    result = invoke("acl", "create", *ALWAYS, *given)
    assert result.exit_code == 2
    assert f"Error: {given[2] if '--host' in given else given[0]} " in result.stderr


@pytest.mark.parametrize("given", SENSIBLE, ids=" ".join)
def test_an_acl_that_may_hold_is_asked_for(given: tuple[str, ...]) -> None:
    assert "no server answers" in invoke("acl", "create", *ALWAYS, *given).stderr


def test_one_that_another_tool_has_made_can_be_deleted_all_the_same() -> None:
    wanted = ("--topic", "in valid", "--bootstrap", "127.0.0.1:1")
    assert "no server answers" in invoke("acl", "delete", *wanted).stderr


def test_an_error_without_a_text_is_named_once() -> None:
    with pytest.raises(AdministrationRefused, match="^NodeNotReady$"), _refusing():
        raise NodeNotReadyError
