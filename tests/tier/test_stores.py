"""URLs and options: which store they open, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from barbicel.disk import RealDisk
from barbicel.errors import StoreRefused
from barbicel.tier.stores import open_store
from tests.support.object_store_server import ObjectStoreServer

AWS_NAMES = {
    "endpoint": "AWS_ENDPOINT_URL",
    "region": "AWS_REGION",
    "access_key_id": "AWS_ACCESS_KEY_ID",
    "secret_access_key": "AWS_SECRET_ACCESS_KEY",
}


def test_a_path_and_its_url_are_one_store(tmp_path: Path) -> None:
    path = tmp_path / "a b" / "100%"
    by_path = open_store(str(path), disk=RealDisk())
    by_path.put_new("key", [b"content"])
    by_url = open_store(path.as_uri(), disk=RealDisk())
    assert by_url.get("key") == b"content"
    assert by_url.url == by_path.url == path.as_uri()
    assert open_store(by_url.url, disk=RealDisk()).get("key") == b"content"


@pytest.mark.parametrize(
    "url", ["s3://KEY:SECRET@bucket/prefix", "s3://KEY:SEC/RET@bucket", "s3://KEY@bucket"]
)
def test_a_url_has_no_secrets_and_they_are_not_repeated(url: str) -> None:
    with pytest.raises(StoreRefused, match="come from the environment, AWS_ACCESS_KEY_ID") as caught:
        open_store(url, disk=RealDisk())
    assert "KEY@" not in str(caught.value)
    assert "SEC" not in str(caught.value).replace("SECRET_ACCESS", "")


def test_a_bucket_is_opened_with_the_names_of_aws_from_the_environment(
    s3_server: ObjectStoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_options = open_store("s3://bucket/stores", disk=RealDisk(), options=s3_server.options)
    for option, name in AWS_NAMES.items():
        monkeypatch.setenv(name, s3_server.options[option])
    from_environment = open_store("s3://bucket/stores/", disk=RealDisk())
    with_options.put_new("key", [b"content"])
    assert from_environment.get("key") == b"content"
    assert from_environment.url == with_options.url == "s3://bucket/stores"
    whole = open_store("s3://bucket", disk=RealDisk())
    assert whole.get("stores/key") == b"content"


def test_an_option_outdoes_the_environment(
    s3_server: ObjectStoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in AWS_NAMES.values():
        monkeypatch.setenv(name, "http://nowhere.invalid")
    store = open_store("s3://bucket/outdone", disk=RealDisk(), options=s3_server.options)
    assert list(store.list("")) == []


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("ftp://host/path", {}, "no such kind of store"),
        ("file://host/path", {}, "no such kind of store"),
        ("", {}, "names no directory"),
        ("file://", {}, "names no directory"),
        ("s3://", {}, "names no bucket"),
        ("s3:///prefix", {}, "names no bucket"),
        ("s3://bucket/a/../b", {}, "none of them"),
        ("s3://bucket", {"endpiont": "x"}, "no option 'endpiont'"),
        ("s3://bucket", {"allow_http": "maybe"}, "allow_http: 'maybe' is neither true nor false"),
        ("s3://bucket", {"tries": "0"}, "tries: '0' is no number above 0"),
        ("s3://bucket", {"timeout_ms": "1s"}, "timeout_ms: '1s' is no number above 0"),
        ("s3://bucket", {"endpoint": "http://h", "allow_http": "false"}, "http://h is not encrypted"),
        ("/tmp/path", {"region": "x"}, "a directory has no option 'region'"),
    ],
)
def test_what_is_wrong_is_refused_at_once(url: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(StoreRefused, match=message):
        open_store(url, disk=RealDisk(), options=options)


def test_the_library_for_s3_is_loaded_for_s3_alone() -> None:
    code = (
        "import sys; from barbicel.disk import RealDisk; from barbicel.tier.stores import open_store;"
        "open_store('/nowhere', disk=RealDisk()); assert 'obstore' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
