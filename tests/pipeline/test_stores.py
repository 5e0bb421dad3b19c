"""Where a job reads: what is an address and what a path, and whether anybody is there."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from barbicel.errors import BarbicelError
from barbicel.pipeline.jobs.stores import Store, check_servers, parse_store
from tests.cli.support import run


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address that is taken, and where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("host:9092", Store("host:9092", None)),
        ("kafka://a:1,b:2", Store("a:1,b:2", None)),
        ("[::1]:9092", Store("[::1]:9092", None)),
        ("./host:9092", Store(None, "./host:9092")),
        ("/data", Store(None, "/data")),
        ("s3://bucket/prefix", Store(None, "s3://bucket/prefix")),
    ],
)
def test_addresses_and_paths(text: str, expected: Store) -> None:
    assert parse_store(text) == expected


def test_one_of_many_is_enough(nobody: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_servers(f"{nobody},127.0.0.1:{server.getsockname()[1]}")
    with pytest.raises(BarbicelError, match="no gateway is there: .*; 127.0.0.1:99999"):
        check_servers(f"{nobody},127.0.0.1:99999")


def test_a_gateway_that_is_not_there_is_told_before_spark_starts(nobody: str, tmp_path: Path) -> None:
    for arguments in (
        ("verify", nobody, "--topic", "t"),
        ("verify", tmp_path, "--topic", "t", "--against", nobody),
        ("to-lake", nobody, "--topic", "t", "--parquet", tmp_path / "lake"),
        ("replay", tmp_path, "t", "--bootstrap", nobody),
    ):
        result = run("pipeline", *arguments)
        assert (result.exit_code, f"no gateway is there: {nobody}" in result.stderr) == (2, True)
