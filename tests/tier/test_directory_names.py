"""Keys as paths: every key has one, no two have the same, and no path leads elsewhere."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from barbicel.errors import StoreRefused
from barbicel.tier.directory_names import OWN_DIRECTORY, key_of, path_of
from barbicel.tier.object_store import check_key


def is_key(text: str) -> bool:
    try:
        check_key(text)
    except StoreRefused:
        return False
    return True


NAMES = st.text(st.sampled_from("ab.%fd+2E5-é😀"), min_size=1, max_size=12)
LONG_NAMES = st.builds(lambda name, times: name * times, NAMES, st.integers(1, 90))
KEYS = st.lists(NAMES | LONG_NAMES, min_size=1, max_size=4).map("/".join).filter(is_key)


@pytest.mark.parametrize(
    "key",
    [
        "cluster/cluster.json",
        "cluster/orders.v1-AAAAAAAAAAAAAAAAAAAAAA/0/segment-00000000000000000042.kfs",
        "cluster/orders.v1-AAAAAAAAAAAAAAAAAAAAAA/0/segment-00000000000000000042.index",
        "a/b/manifest/orders-AAAAAAAAAAAAAAAAAAAAAA-0/00000000000000000003.mlog",
        "a/b/manifest/orders-AAAAAAAAAAAAAAAAAAAAAA-0/snapshot_12.bin",
    ],
)
def test_the_keys_of_the_tier_are_paths_as_they_are(key: str) -> None:
    assert path_of(key) == key
    assert key_of(key) == key


@given(KEYS)
@example("n" * 240 + ".kfs")
@example("n" * 238 + "%" * 3)
@example(".%2E")
@example("a.kfs/b")
def test_a_path_leads_back_to_its_key(key: str) -> None:
    path = path_of(key)
    assert key_of(path) == key
    parts = path.split("/")
    assert all(0 < len(part.encode()) <= 255 for part in parts)
    assert not any(part.startswith(".") for part in parts)
    assert PurePosixPath(path).as_posix() == path


@given(st.lists(KEYS, min_size=2, max_size=6, unique=True))
@example(["a", "a/b", "a.kfs", "a.kfs/b", "a%f", "a%d/b"])
def test_no_object_is_in_the_way_of_another(keys: list[str]) -> None:
    files = {path_of(key) for key in keys}
    assert len(files) == len(keys)
    directories = {str(above) for path in files for above in PurePosixPath(path).parents}
    assert not files & directories


@pytest.mark.parametrize(
    "path",
    [
        f"{OWN_DIRECTORY}/LOCK",
        ".hidden.kfs",
        "plain",
        "dir.kfs/a.kfs",
        "a%.kfs",
        "a/.nfs0001",
        "x%+",
        "a%2Eb.kfs",
    ],
)
def test_other_files_are_no_objects(path: str) -> None:
    assert key_of(path) is None
