"""`barbicel user` and `barbicel acl`: they find a server, and tell that there is none, as all others do."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka.errors import NodeNotReadyError  # type: ignore[import-untyped]

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


def test_an_error_without_a_text_is_named_once() -> None:
    with pytest.raises(AdministrationRefused, match="^NodeNotReady$"), _refusing():
        raise NodeNotReadyError
