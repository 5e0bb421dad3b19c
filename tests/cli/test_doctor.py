"""`barbicel doctor`: each thing that can be wrong is found, with what to do about it."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barbicel.cli.checks import machine, storage
from tests.cli.live import Live, invoke
from tests.cli.support import document, run_on_terminal
from tests.support.gateway import Gateway


def diagnose(
    tmp_path: Path, *arguments: str, env: dict[str, str] | None = None
) -> tuple[int, list[dict[str, Any]]]:
    """On ports that nobody has."""
    free = {
        "BARBICEL_LISTENERS": "PLAINTEXT://127.0.0.1:0",
        "BARBICEL_KESTREL_PORT": "0",
        "BARBICEL_ADMIN_PORT": "0",
    }
    data = () if "--data" in arguments else ("--data", str(tmp_path / "data"))
    result = invoke("doctor", "--json", *data, *arguments, env={**free, **(env or {})})
    return result.exit_code, document(result)["findings"]


def of(findings: list[dict[str, Any]], check: str) -> dict[str, Any]:
    return next(one for one in findings if one["check"] == check)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with a topic and a queue, closed in order."""
    gateway = Gateway(tmp_path_factory.mktemp("stopped"), {})
    gateway.start()
    live = Live(gateway)
    live.kafka("produce", "orders", stdin=b"secret tea\n")
    live.kafka("consume", "orders", "--group", "g")
    live.kestrel("queue", "put", "jobs", "secret work")
    gateway.stop()
    return gateway.data


def partition(data: Path) -> Path:
    return next(data.glob("topics/orders-*/0"))


def test_before_the_first_start(tmp_path: Path) -> None:
    code, findings = diagnose(tmp_path)
    assert code in (0, 1)  # this machine may have few open files, or no time service
    assert "the first start makes it" in of(findings, "data directory")["what"]
    assert of(findings, "syncs")["level"] == "ok"
    assert not list(tmp_path.iterdir())  # what it wrote is gone


def test_a_directory_in_order(tmp_path: Path, stopped: Path) -> None:
    code, findings = diagnose(tmp_path, "--data", str(stopped), "--deep")
    assert code in (0, 1)
    assert "no server uses it" in of(findings, "data directory")["what"]
    assert of(findings, "logs")["what"] == "2 logs sound"
    assert "sound" in of(findings, "groups")["what"]


def test_beside_a_server(live: Live) -> None:
    result = invoke("doctor", env=live.settings())
    assert result.exit_code in (0, 1)
    assert f"process {live.gateway.pid} serves it" in result.stdout
    assert f"{live.gateway.bootstrap} answers (listeners)" in result.stdout


def test_on_a_terminal_it_fits(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in live.settings().items():
        monkeypatch.setenv(name, value)
    assert "Checks" in run_on_terminal("doctor").stdout


def test_a_damaged_log(tmp_path: Path, stopped: Path) -> None:
    copied = copy(stopped, tmp_path)
    (segment,) = partition(copied).glob("segments/*.log")
    data = bytearray(segment.read_bytes())
    data[-20] ^= 1
    segment.write_bytes(data)
    (partition(copied) / "segments" / segment.with_suffix(".isum").name).unlink(missing_ok=True)
    code, findings = diagnose(tmp_path, "--data", str(copied), "--deep")
    assert code == 3
    found = of(findings, "logs")
    assert (found["level"], "damaged" in found["what"]) == ("fault", True)
    assert "barbicel log verify" in found["advice"]


def test_a_topic_whose_file_is_broken(tmp_path: Path, stopped: Path) -> None:
    copied = copy(stopped, tmp_path)
    (partition(copied).parent / "topic.json").write_text("{}")
    code, findings = diagnose(tmp_path, "--data", str(copied))
    assert code == 3
    assert "topic.json" in of(findings, "logs")["what"]


def rename_topic(data: Path) -> None:
    topic = partition(data).parent
    topic.rename(topic.with_name("renamed"))


def copy_topic(data: Path) -> None:
    """Whole, under a name that could be another topic's."""
    topic = partition(data).parent
    (topic.with_name("zzz")).mkdir()
    (topic.with_name("zzz") / "topic.json").write_bytes((topic / "topic.json").read_bytes())


def remove_topic_file(data: Path) -> None:
    (partition(data).parent / "topic.json").unlink()


def write(name: str, text: str) -> Callable[[Path], None]:
    def damage(data: Path) -> None:
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_text(text)

    return damage


def lock_by_directory(data: Path) -> None:
    (data / "LOCK").unlink()
    (data / "LOCK").mkdir()


@pytest.mark.parametrize(
    ("damage", "check", "named"),
    [
        (write("access/users.json", ""), "access", "users.json"),
        (write("access/acls.json", "{}"), "access", "acls.json"),
        (write("access/quotas.json", "garbage"), "access", "quotas.json"),
        (write("admin.token", "short"), "admin token", "admin.token"),
        (write("topics/zzz/topic.json", "garbage"), "logs", "zzz/topic.json"),
        (copy_topic, "logs", "zzz/topic.json"),
        (rename_topic, "logs", "renamed/topic.json"),
        (remove_topic_file, "logs", "topic.json"),
        (write("cluster.json", "{}"), "data directory", "cluster.json"),
        (lock_by_directory, "data directory", "LOCK"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_it_finds_what_a_start_refuses(
    tmp_path: Path, stopped: Path, damage: Callable[[Path], None], check: str, named: str
) -> None:
    """The server itself is asked first: the two look at the same."""
    copied = copy(stopped, tmp_path)
    damage(copied)
    with pytest.raises(AssertionError, match=f"did not start: (.|\n)*{named}"):
        Gateway(tmp_path, {"data_directory": str(copied)}).start()
    code, findings = diagnose(tmp_path, "--data", str(copied))
    assert code == 3
    found = next(one for one in findings if one["check"] == check and one["level"] == "fault")
    assert named in found["what"]
    assert found["advice"]


def test_damaged_groups(tmp_path: Path, stopped: Path) -> None:
    copied = copy(stopped, tmp_path)
    for file in copied.glob("groups/**/*"):
        if file.is_file() and file.name != "LOCK" and file.stat().st_size > 16:
            file.write_bytes(b"\0" * file.stat().st_size)
    code, findings = diagnose(tmp_path, "--data", str(copied))
    assert code == 3
    assert "group" in (of(findings, "groups")["advice"] or "")


def test_a_directory_that_is_another_ones(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "holiday.jpg").touch()
    code, findings = diagnose(tmp_path)
    assert code == 3
    assert "no data directory" in of(findings, "data directory")["what"]


def test_settings_that_cannot_be_used(tmp_path: Path) -> None:
    file = tmp_path / "barbicel.toml"
    file.write_text("num.partitions = 0\nno.such = 1\n")
    code, findings = diagnose(tmp_path, "--config", str(file))
    assert code == 3
    faults = [one["what"] for one in findings if one["check"] == "settings"]
    assert len(faults) == 2
    assert any("no.such is no setting" in what for what in faults)


def test_a_file_of_settings_that_is_not_there(tmp_path: Path) -> None:
    code, findings = diagnose(tmp_path, "--config", str(tmp_path / "nowhere.toml"))
    assert code == 3
    assert of(findings, "settings")["level"] == "fault"


def test_a_port_that_another_has(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, findings = diagnose(tmp_path, env={"BARBICEL_KESTREL_PORT": str(port)})
    assert code == 3
    found = of(findings, "ports")
    assert f"127.0.0.1:{port}" in found["what"]
    assert "kestrel.port" in found["advice"]


def test_an_address_that_the_machine_does_not_have(tmp_path: Path) -> None:
    code, findings = diagnose(tmp_path, env={"BARBICEL_LISTENERS": "PLAINTEXT://192.0.2.1:9092"})
    assert code == 3
    assert "no such address" in of(findings, "ports")["advice"]


def test_few_open_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 1024))
    _, findings = diagnose(tmp_path)
    found = of(findings, "open files")
    assert (found["level"], "1024" in found["what"]) == ("warning", True)


def test_a_clock_that_was_set_back(tmp_path: Path, stopped: Path) -> None:
    copied = copy(stopped, tmp_path)
    os.utime(copied / "cluster.json", (4e9, 4e9))
    code, findings = diagnose(tmp_path, "--data", str(copied))
    assert code == 3
    assert "set the clock" in of(findings, "clock")["advice"]


def test_a_full_disk(tmp_path: Path) -> None:
    code, findings = diagnose(tmp_path, env={"BARBICEL_ADMIN_MIN_FREE_BYTES": str(1 << 60)})
    assert code == 3
    assert "the disk is full" in of(findings, "room")["what"]


def test_a_file_system_in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/a / ext4 rw 0 0\ntmpfs {tmp_path} tmpfs rw 0 0\n")
    monkeypatch.setattr(storage, "MOUNTS_FILE", str(mounts))
    code, findings = diagnose(tmp_path)
    assert code >= 1
    assert "gone after a restart" in of(findings, "file system")["what"]


def test_slow_syncs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(storage, "SLOW_MS", -1.0)
    _, findings = diagnose(tmp_path)
    assert of(findings, "syncs")["level"] == "warning"


def test_a_store_that_is_not_there(tmp_path: Path) -> None:
    settings = {"BARBICEL_REMOTE_LOG_STORAGE_SYSTEM_ENABLE": "true"}
    _, findings = diagnose(tmp_path, env={**settings, "BARBICEL_TIER_STORE": str(tmp_path / "store")})
    assert of(findings, "object store")["level"] == "ok"
    (tmp_path / "taken").write_text("a file")
    code, findings = diagnose(tmp_path, env={**settings, "BARBICEL_TIER_STORE": str(tmp_path / "taken")})
    assert code == 3
    assert of(findings, "object store")["level"] == "fault"


@pytest.mark.parametrize(
    ("script", "level", "what"),
    [
        ("echo 'openjdk version \"17.0.9\" 2023' >&2", "ok", "Java 17"),
        ("echo 'java version \"1.8.0_392\"' >&2", "warning", "Java 8"),
        ("exit 1", "ok", "does not say its version"),
        (None, "ok", "there is no Java"),
    ],
)
def test_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, level: str, what: str
) -> None:
    if script is not None:
        (tmp_path / "java").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "java").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    (found,) = machine.check_java(None)  # type: ignore[arg-type]  # it looks at nothing else
    assert (found.level.name.lower(), what in found.what) == (level, True)


def copy(data: Path, tmp_path: Path) -> Path:
    import shutil

    return Path(shutil.copytree(data, tmp_path / "copied"))


def test_a_directory_with_users_and_no_topics_is_in_order(tmp_path: Path) -> None:
    """docs/security.md begins so."""
    data = str(tmp_path / "data")
    assert invoke("user", "set", "admin", "--data", data, stdin=b"a password\n").exit_code == 0
    code, findings = diagnose(tmp_path)
    assert code in (0, 1)
    assert "the first start fills it" in of(findings, "data directory")["what"]


SECURE = {"BARBICEL_AUTHORIZER_CLASS_NAME": "StandardAuthorizer"}


@pytest.mark.parametrize(
    ("settings", "level"),
    [
        ({}, "warning"),
        ({"BARBICEL_KESTREL_ENABLE": "false"}, "ok"),
        ({"BARBICEL_KESTREL_AUTH_ENABLE": "true"}, "ok"),
    ],
)
def test_what_leads_past_acls(tmp_path: Path, settings: dict[str, str], level: str) -> None:
    _, findings = diagnose(tmp_path, env={**SECURE, **settings})
    found = of(findings, "access")
    assert (found["level"], "kestrel.enable = false" in (found["advice"] or "")) == (
        level,
        level == "warning",
    )


def test_files_of_settings_that_a_start_would_refuse(tmp_path: Path) -> None:
    keys = tmp_path / "jwks.json"
    keys.write_text("[]")
    env = {
        "BARBICEL_LISTENERS": "SASL_SSL://127.0.0.1:0",
        "BARBICEL_SSL_KEYSTORE_LOCATION": str(tmp_path / "nothing.pem"),
        "BARBICEL_SASL_ENABLED_MECHANISMS": "OAUTHBEARER",
        "BARBICEL_SASL_OAUTHBEARER_JWKS_ENDPOINT_URL": f"file://{keys}",
        "BARBICEL_SASL_OAUTHBEARER_EXPECTED_ISSUER": "i",
        "BARBICEL_SASL_OAUTHBEARER_EXPECTED_AUDIENCE": "a",
        "BARBICEL_SUPER_USERS": "admin",
        **SECURE,
    }
    code, findings = diagnose(tmp_path, env=env)
    assert code == 3
    told = "\n".join(one["what"] for one in findings if one["check"] == "access")
    assert all(part in told for part in ("nothing.pem", "jwks.json", "super.users"))


def test_a_store_of_tiered_data_is_looked_at_where_tiering_is_switched_off(tmp_path: Path) -> None:
    """What was tiered before is read by a server without tiering too: it does not start without its store."""
    (tmp_path / "data" / "tier" / "stream").mkdir(parents=True)
    _, findings = diagnose(tmp_path, env={"BARBICEL_TIER_STORE": "ftp://x"})
    assert of(findings, "object store")["level"] == "fault"
    _, findings = diagnose(tmp_path)
    assert "what was tiered is read from" in of(findings, "object store")["what"]
