"""Access control as settings put it together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from twisted.internet.task import Clock

from barbicel.clock import wall_clock_ms
from barbicel.config import Config
from barbicel.disk import RealDisk
from barbicel.gateway.access.access import Access
from barbicel.gateway.access.principals import BadPrincipal, user


def made(data: Path, **settings: Any) -> Access:
    reactor: Any = Clock()
    return Access(RealDisk(), str(data), Config(**settings), reactor, wall_clock_ms)


def test_super_users_are_named_one_behind_the_other(tmp_path: Path) -> None:
    access = made(
        tmp_path, authorizer_class_name="StandardAuthorizer", super_users=" User:admin; User:CN=a,O=b ;"
    )
    assert access.authorizer is not None
    assert access.authorizer._super_users == {user("admin"), user("CN=a,O=b")}


def test_a_super_user_that_is_none_is_told_with_the_setting(tmp_path: Path) -> None:
    with pytest.raises(BadPrincipal, match="^super.users: 'admin' is no principal such as User:alice"):
        made(tmp_path, authorizer_class_name="StandardAuthorizer", super_users="User:alice;admin")
