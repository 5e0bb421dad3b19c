"""A directory and a bucket of a real S3 server, for every test that wants either."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.object_store_server import ObjectStoreServer
from tests.tier.clients.tiered_gateway import Bucket


def s3_bucket(
    server: ObjectStoreServer, monkeypatch: pytest.MonkeyPatch, endpoint: str | None = None
) -> Bucket:
    """A prefix of its own. Credentials come from the environment, as AWS names them."""
    options = dict(server.options)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", options["access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", options["secret_access_key"])
    settings = {"tier_s3_endpoint": endpoint or server.endpoint, "tier_s3_region": "us-east-1"}
    return Bucket(f"s3://bucket/{uuid4().hex}", settings, options)


@pytest.fixture(params=["directory", "s3"])
def bucket(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    if request.param == "directory":
        path = tmp_path / "objects"
        path.mkdir()
        return Bucket(str(path), {}, {})
    return s3_bucket(request.getfixturevalue("s3_server"), monkeypatch)
