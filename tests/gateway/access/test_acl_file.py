"""ACLs are no more than a server can look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from barbicel.codecs.kafka.acls import Acl, Operation, Pattern, Permission, Resource
from barbicel.disk import RealDisk
from barbicel.gateway.access import acl_file
from barbicel.gateway.access.access_layout import AccessLayout
from barbicel.gateway.access.acl_file import AclFile
from barbicel.gateway.broker.topic_errors import InvalidRequest


def acl(number: int) -> Acl:
    operation, permission = Operation.READ, Permission.ALLOW
    return Acl(Resource.TOPIC, f"t{number}", Pattern.LITERAL, "User:a", "*", operation, permission)


def test_there_are_never_too_many_and_too_many_become_fewer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    layout = AccessLayout(str(tmp_path))
    kept = AclFile(RealDisk(), layout)
    kept.change([acl(1), acl(2), acl(3)])
    monkeypatch.setattr(acl_file, "MAX_ACLS", 2)
    with pytest.raises(InvalidRequest, match="more than 2 ACLs"):
        kept.change([acl(4)])
    assert len(kept.acls) == 3
    assert kept.change([acl(1)], [acl(3)]) == {acl(1), acl(2)}
    # One goes and another comes.
    assert kept.change([acl(4)], [acl(1)]) == {acl(2), acl(4)}
