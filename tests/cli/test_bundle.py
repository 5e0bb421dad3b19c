"""`barbicel bundle`: what is in it, and above all what is not."""

from __future__ import annotations

import gzip
import json
import os
import stat
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from barbicel.cli.archive import encode_archive
from barbicel.cli.redaction import HIDDEN, hide, is_secret_name
from tests.cli.live import Live, invoke
from tests.cli.support import document


def unpacked(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        files = {}
        for member in archive.getmembers():
            file = archive.extractfile(member)
            assert file is not None
            files[member.name.partition("/")[2]] = file.read().decode()
        return files


@pytest.fixture(scope="module")
def packed(live: Live, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of a gateway with messages in it that nobody else may see, and a log with a secret."""
    directory = tmp_path_factory.mktemp("bundle")
    live.kafka(
        "produce", "private", "--key", "key-of-alice", "--header", "h=head-of-alice", stdin=b"said by alice\n"
    )
    live.kafka("consume", "private", "--group", "readers")
    live.kestrel("queue", "put", "private-jobs", "job of alice")
    token = (live.gateway.data / "admin.token").read_text().strip()
    log = directory / "server.log"
    secrets = f"Authorization: Bearer abcdefgh\nthe token is {token}\nthe store is s3://u:pw12345@b/p\n"
    log.write_text(f"started\n{secrets}last line\n")
    env = {**live.settings(), "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI"}
    target = directory / "report.tar.gz"
    told = document(invoke("bundle", "--output", str(target), "--log", str(log), "--json", env=env))
    assert told["path"] == str(target)
    assert stat.S_IMODE(os.stat(target).st_mode) == 0o600
    return {"token": token, **unpacked(target)}


def test_everything_is_there(packed: dict[str, str]) -> None:
    assert json.loads(packed["versions.json"])["packages"]["click"]
    assert json.loads(packed["settings.json"])["num.partitions"]["value"] == "1"
    assert "python" in {row["check"] for row in json.loads(packed["doctor.json"])}
    assert "private" in packed["logs.json"]
    assert {"readers", "kestrel"} <= {row["group"] for row in json.loads(packed["groups.json"])["groups"]}
    assert "cluster.json" in packed["files.txt"]
    assert packed["log.txt"].startswith("started\n")
    assert json.loads(packed["server/overview.json"])["is_ready"]
    assert "barbicel_info" in packed["server/metrics.txt"]


@pytest.mark.parametrize("secret", ["alice", "wJalrXUtnFEMI", "pw12345", "abcdefgh"])
def test_no_contents_and_no_secrets(packed: dict[str, str], secret: str) -> None:
    assert [name for name, text in packed.items() if secret in text] == []


def test_the_token_is_not_in_it(packed: dict[str, str]) -> None:
    assert [name for name, text in packed.items() if packed["token"] in text] == ["token"]


def test_without_a_server_and_with_bad_settings_there_is_a_report_too(tmp_path: Path) -> None:
    target = tmp_path / "report.tar.gz"
    env = {"BARBICEL_NUM_PARTITIONS": "none", "BARBICEL_DATA_DIRECTORY": str(tmp_path / "data")}
    arguments = (
        "--output",
        str(target),
        "--log",
        str(tmp_path / "nowhere.log"),
        "--data",
        str(tmp_path / "data"),
    )
    assert invoke("bundle", *arguments, "--admin", "http://127.0.0.1:1", env=env).exit_code == 0
    files = unpacked(target)
    assert files["server/overview.json"].startswith("not to be had: ")
    assert "nowhere.log" in files["log.txt"]
    assert "BARBICEL_NUM_PARTITIONS" in files["doctor.json"]


def test_a_secret_that_is_refused_as_a_setting_is_not_in_it(tmp_path: Path) -> None:
    target = tmp_path / "report.tar.gz"
    env = {"BARBICEL_TIER_STORE": "s3://u:pw12345@b/p", "BARBICEL_DATA_DIRECTORY": str(tmp_path / "data")}
    arguments = ("--output", str(target), "--data", str(tmp_path / "data"), "--admin", "http://127.0.0.1:1")
    assert invoke("bundle", *arguments, env=env).exit_code == 0
    files = unpacked(target)
    assert "come from the environment" in files["doctor.json"]
    assert [name for name, text in files.items() if "pw12345" in text] == []


def test_no_file_is_overwritten(live: Live, tmp_path: Path) -> None:
    target = tmp_path / "dear"
    target.write_text("dear")
    result = invoke("bundle", "--output", str(target), env=live.settings())
    assert result.exit_code == 2
    assert target.read_text() == "dear"


def test_an_archive_is_read_back() -> None:
    files = {"a": b"", "b/c": b"x" * 512, "d": b"y" * 1000}
    data = encode_archive("top", files, 1_700_000_000_000)
    assert data == encode_archive("top", files, 1_700_000_000_000)
    with tarfile.open(fileobj=BytesIO(gzip.decompress(data))) as archive:
        assert {one.name: one.size for one in archive} == {"top/a": 0, "top/b/c": 512, "top/d": 1000}


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("sasl.password=hunter2 next", f"sasl.password={HIDDEN} next"),
        ('"client_secret": "a b", "x": 1', f'"client_secret": {HIDDEN}, "x": 1'),
        ("s3://user:pass@host/path", f"s3://{HIDDEN}@host/path"),
        ("Authorization: Bearer abc.def", f"Authorization: {HIDDEN}"),
        ("topic orders has 3 partitions", "topic orders has 3 partitions"),
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str, hidden: str) -> None:
    assert hide(text) == hidden


def test_names_of_secrets() -> None:
    assert all(map(is_secret_name, ["AWS_SECRET_ACCESS_KEY", "ssl.key.password", "GITHUB_TOKEN"]))
    assert not any(map(is_secret_name, ["admin.token.file", "num.partitions", "ssl.keystore.location"]))
