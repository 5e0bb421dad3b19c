"""The token: made once, kept, for its owner's eyes only."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from barbicel.disk import RealDisk
from barbicel.errors import BarbicelError
from barbicel.gateway.admin.token import is_bearer_of, provide_token
from tests.support.fault_disk import Fate, FaultDisk


def test_a_token_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "admin.token"
    token = provide_token(RealDisk(), str(path))
    assert len(token) > 40
    assert path.stat().st_mode & 0o777 == 0o600
    assert provide_token(RealDisk(), str(path)) == token
    assert provide_token(RealDisk(), str(tmp_path / "other")) != token


def test_a_token_that_was_told_survives_a_power_cut() -> None:
    disk = FaultDisk()
    disk.make_directory("/data")
    disk.sync_directory("/")
    token = provide_token(disk, "/data/admin.token")
    after = disk.crash(Fate.DROP, Random(0))
    assert provide_token(after, "/data/admin.token") == token


def test_a_token_that_was_given_is_used(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("  a-token-of-some-length\n")
    assert provide_token(RealDisk(), str(path)) == "a-token-of-some-length"


@pytest.mark.parametrize("text", ["", "short", "has a space in the middle", "ünïcödé-and-quite-long"])
def test_what_is_no_token_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "secret"
    path.write_text(text)
    with pytest.raises(BarbicelError, match="this is no token") as caught:
        provide_token(RealDisk(), str(path))
    assert not text or text not in str(caught.value)


def test_what_is_left_of_a_crash_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "admin.token.new").write_text("half")
    assert len(provide_token(RealDisk(), str(tmp_path / "admin.token"))) > 40


def test_only_the_whole_token_is_good() -> None:
    assert is_bearer_of("abc", "Bearer abc")
    assert not any(is_bearer_of("abc", given) for given in (None, "", "Bearer", "Bearer ab", "Bearer abcd"))
