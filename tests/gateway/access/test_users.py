"""users.json: what is kept of a password, and what becomes of the file when things fail."""

from __future__ import annotations

import errno
import hashlib
import stat
from pathlib import Path
from random import Random

import pytest

from barbicel.codecs.access_file import ScramCredential, decode_users
from barbicel.disk import RealDisk
from barbicel.errors import CorruptFile, DiskError
from barbicel.gateway.access.access_layout import AccessLayout
from barbicel.gateway.access.scram import MECHANISMS, MIN_ITERATIONS, credential_of_password
from barbicel.gateway.access.users import UserFile
from tests.support.fault_disk import Fate, FaultDisk, Operation

SHA256, SHA512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
LAYOUT = AccessLayout("/data")


def credential(password: str, mechanism: str = SHA256) -> ScramCredential:
    return credential_of_password(MECHANISMS[mechanism], password, b"0123456789abcdef", MIN_ITERATIONS)


@pytest.fixture
def disk() -> FaultDisk:
    disk = FaultDisk()
    disk.make_directory("/data/tmp")
    return disk


def test_users_are_there_after_a_restart(disk: FaultDisk) -> None:
    users = UserFile(disk, LAYOUT)
    assert not users.is_password("alice", "secret")
    users.change({("alice", SHA256): credential("secret"), ("bob", SHA512): credential("x", SHA512)})
    users = UserFile(disk.crash(Fate.DROP, Random(1)), LAYOUT)
    assert users.is_password("alice", "secret")
    assert users.is_password("bob", "x")
    assert not users.is_password("alice", "x")
    users.change({}, [("alice", SHA256)])
    assert not users.is_password("alice", "secret")


def test_strangers_have_the_same_salt_after_a_restart(disk: FaultDisk) -> None:
    users = UserFile(disk, LAYOUT)
    users.change({("alice", SHA256): credential("secret")})
    assert users.find(SHA256, "ghost") == UserFile(disk, LAYOUT).find(SHA256, "ghost")
    assert users.find(SHA256, "ghost")[1] is False


def test_strangers_have_the_shapes_that_users_have(disk: FaultDisk) -> None:
    """Or the iterations and the length of the salt would tell who there is."""
    users = UserFile(disk, LAYOUT)
    mechanism = MECHANISMS[SHA256]
    users.change(
        {
            ("alice", SHA256): credential_of_password(mechanism, "x", b"s" * 64, 4096),
            ("bob", SHA256): credential_of_password(mechanism, "x", b"s" * 24, 10_000),
        }
    )
    found = [users.find(SHA256, f"ghost{number}") for number in range(50)]
    assert {(one.iterations, len(one.salt)) for one, _ in found} == {(4096, 64), (10_000, 24)}
    assert len({one.salt for one, _ in found}) == 50


def test_every_check_of_a_password_is_the_same_work(disk: FaultDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    users = UserFile(disk, LAYOUT)
    users.change(
        {
            ("alice", SHA256): credential_of_password(MECHANISMS[SHA256], "x", b"s" * 16, 4096),
            ("bob", SHA512): credential_of_password(MECHANISMS[SHA512], "x", b"s" * 16, 16_384),
        }
    )
    work: dict[str, int] = {}
    real = hashlib.pbkdf2_hmac

    def counting(name: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        work[name] = work.get(name, 0) + iterations
        return real(name, password, salt, iterations)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", counting)
    seen = []
    for user, password in (("alice", "x"), ("alice", "wrong"), ("bob", "x"), ("nobody", "x")):
        work.clear()
        assert users.is_password(user, password) is ((user, password) in (("alice", "x"), ("bob", "x")))
        seen.append(dict(work))
    assert seen.count(seen[0]) == len(seen)


def test_the_password_is_not_in_the_file_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    layout = AccessLayout(str(tmp_path))
    UserFile(RealDisk(), layout).change({("alice", SHA256): credential("a very secret word")})
    path = Path(layout.users)
    assert b"secret word" not in path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("operation", ["create", "write", "fdatasync", "rename"])
def test_a_change_that_fails_changes_nothing(disk: FaultDisk, operation: Operation) -> None:
    users = UserFile(disk, LAYOUT)
    users.change({("alice", SHA256): credential("secret")})
    disk.fail(operation, errno.EIO, times=1)
    with pytest.raises(DiskError):
        users.change({("alice", SHA256): credential("new")})
    assert users.is_password("alice", "secret")
    after = disk.crash(Fate.DROP, Random(1))
    assert UserFile(after, LAYOUT).is_password("alice", "secret")


def test_a_damaged_file_stops_the_start_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    layout = AccessLayout(str(tmp_path))
    UserFile(RealDisk(), layout).change({("alice", SHA256): credential("secret")})
    path = Path(layout.users)
    sound = path.read_bytes()
    assert decode_users(sound).credentials.keys() == {("alice", SHA256)}
    for position in range(0, len(sound), 7):
        damaged = bytearray(sound)
        damaged[position] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(CorruptFile) as refusal:
            UserFile(RealDisk(), layout)
        assert str(path) in str(refusal.value)
