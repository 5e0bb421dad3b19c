"""`barbicel tier status`, `flush` and `restore`: with and without a server, and whatever may be wrong."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.cli.support import document, environment, flip, run, snapshot, words
from tests.gateway.broker.tiering.gated_store import GatedStore, embedded_broker, tiered_broker, values

SENT = values(100)
TIMEOUT_S = 60


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two segments of one topic, in the store alone."""
    with embedded_broker(tmp_path) as broker:
        broker.create("orders")
        broker.produce(SENT, "orders")
        assert broker.flush().problems == []
        broker.until(lambda: broker.local_start("orders") == len(SENT))
    return tmp_path / "data"


@pytest.fixture
def unflushed(tmp_path: Path) -> Path:
    """A directory of which nothing was uploaded."""
    with embedded_broker(tmp_path, remote_log_manager_task_interval_ms=10**9) as broker:
        # The only pass there is comes before there is anything.
        broker.until(lambda: broker.tiering.is_ready and not broker.tiering._busy)
        broker.create("orders", retention_ms="-1")  # its clock stands still
        broker.produce(SENT, "orders")
    return tmp_path / "data"


def barbicel(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """In a process of its own: a reactor runs once."""
    return subprocess.run(
        [sys.executable, "-m", "barbicel.cli.main", *map(str, arguments)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )


def config_of(tmp_path: Path, **settings: str) -> Path:
    path = tmp_path / "barbicel.toml"
    lines = {"remote.log.storage.system.enable": "true", **settings}
    path.write_text("".join(f"{name} = {value}\n" for name, value in lines.items()))
    return path


# --- status -----------------------------------------------------------------------------------------------


def test_status_tells_where_everything_is(data: Path) -> None:
    before = snapshot(data / "tier")
    shown = run("tier", "status", "--data", data)
    assert shown.exit_code == 0
    assert "orders-0" in shown.stdout
    assert "2 segments in the store, 0 sealed ones to go there." in shown.stdout
    (row,) = document(run("tier", "status", "--data", data, "--json"))["partitions"]
    assert (row["topic"], row["partition"], row["start_offset"]) == ("orders", 0, 0)
    assert row["tiered_end_offset"] == row["local_start_offset"] == row["end_offset"] == 100
    assert (row["tiered_segments"], row["waiting_segments"], row["failing_uploads"]) == (2, 0, 0)
    assert snapshot(data / "tier") == before


def test_status_beside_a_running_server(data: Path, tmp_path: Path) -> None:
    with embedded_broker(tmp_path) as broker:
        broker.produce(SENT, "orders")
        (row,) = document(run("tier", "status", "--data", data, "--json"))["partitions"]
        assert (row["end_offset"], row["tiered_end_offset"]) == (200, 100)


def test_status_of_what_waits(unflushed: Path) -> None:
    answer = run("tier", "status", "--data", unflushed, "--json")
    (row,) = document(answer)["partitions"]
    assert (answer.exit_code, row["tiered_segments"], row["tiered_end_offset"]) == (0, 0, None)
    assert row["waiting_segments"] == 1


def test_status_of_a_failing_upload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = GatedStore(tmp_path / "objects")
    store.refuses = lambda operation, key: key.endswith(".kfs")
    with tiered_broker(tmp_path, monkeypatch, store) as broker:
        broker.create("orders")
        broker.produce(SENT, "orders")
        assert broker.flush().problems
    answer = run("tier", "status", "--data", tmp_path / "data", "--json")
    assert (answer.exit_code, document(answer)["partitions"][0]["failing_uploads"]) == (3, 1)


def test_status_of_a_damaged_manifest(data: Path) -> None:
    for chunk in data.glob("tier/*/*.mlog"):
        flip(chunk, 100)
    for path in data.glob("tier/*/snapshot*"):
        path.unlink()
    answer = run("tier", "status", "--data", data, "--json")
    assert answer.exit_code == 3
    assert [one["topic"] for one in document(answer)["unreadable"]] == ["orders"]
    assert "Unreadable" in run("tier", "status", "--data", data).stdout


def test_status_of_a_directory_without_tiered_topics(tmp_path: Path) -> None:
    with embedded_broker(tmp_path):
        pass
    answer = run("tier", "status", "--data", tmp_path / "data")
    assert (answer.exit_code, "0 segments in the store" in answer.stdout) == (0, True)


# --- flush ------------------------------------------------------------------------------------------------


def test_flush_without_a_server(unflushed: Path, tmp_path: Path) -> None:
    config = config_of(tmp_path)
    done = barbicel("tier", "flush", "--data", unflushed, "--config", config)
    assert (done.returncode, done.stdout.strip()) == (0, "1 tiered partition flushed."), done.stderr
    (row,) = document(run("tier", "status", "--data", unflushed, "--json"))["partitions"]
    assert (row["tiered_end_offset"], row["waiting_segments"]) == (100, 0)
    with embedded_broker(tmp_path) as broker:
        assert broker.read(len(SENT), "orders") == SENT


def test_flush_into_a_store_that_is_not_fit(unflushed: Path, tmp_path: Path) -> None:
    config = config_of(tmp_path, **{"tier.store": '"/proc/objects"'})
    done = barbicel("tier", "flush", "--data", unflushed, "--config", config, "--json")
    assert done.returncode == 3, done.stderr
    assert '"partitions": 1' in done.stdout
    assert "/proc/objects" in done.stdout


def test_flush_while_tiering_is_switched_off(unflushed: Path, tmp_path: Path) -> None:
    config = config_of(tmp_path, **{"remote.log.storage.system.enable": "false"})
    done = run("tier", "flush", "--data", unflushed, "--config", config)
    assert (done.exit_code, "switched off" in done.stderr) == (2, True)


def test_flush_of_a_directory_that_is_not_there_makes_none(tmp_path: Path) -> None:
    done = run("tier", "flush", "--data", tmp_path / "typo", "--config", config_of(tmp_path))
    assert (done.exit_code, "no data directory" in done.stderr) == (2, True)
    assert not (tmp_path / "typo").exists()


class Answering(BaseHTTPRequestHandler):
    """Whatever a test wants to hear; None is an end without an answer."""

    answer: tuple[int, bytes] | None
    seen: list[tuple[str, str | None]]

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class has that name
        pass

    def do_POST(self) -> None:
        self.seen.append((self.path, self.headers.get("Authorization")))
        if self.answer is None:
            self.close_connection = True
            return
        status, body = self.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def answering(answer: tuple[int, bytes] | None) -> Iterator[str]:
    Answering.answer, Answering.seen = answer, []
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("answer", "exit_code", "told"),
    [
        ((200, b'{"partitions": 3, "problems": []}'), 0, "3 tiered partitions flushed."),
        ((200, b'{"partitions": 3, "problems": ["orders-0: away"]}'), 3, "orders-0: away"),
        ((404, b""), 2, "is tiering switched on there?"),
        ((401, b""), 2, "401"),
        ((200, b"<html>"), 2, "no server of ours"),
        ((200, b"[]"), 2, "no server of ours"),
        ((200, b"{}"), 2, "no server of ours"),
        (None, 2, "cannot be asked"),
    ],
    ids=str,
)
def test_a_running_server_is_asked(
    unflushed: Path, tmp_path: Path, answer: tuple[int, bytes] | None, exit_code: int, told: str
) -> None:
    with embedded_broker(tmp_path, remote_log_manager_task_interval_ms=10**9), answering(answer) as url:
        (unflushed / "admin.token").write_text("secret\n")
        done = run("tier", "flush", "--data", unflushed, "--admin", url)
        assert Answering.seen == [("/api/tier/flush", "Bearer secret")]
    assert (done.exit_code, told in " ".join(done.output.split())) == (exit_code, True), done.output


@pytest.mark.parametrize("admin", ["ftp://127.0.0.1", "http://127.0.0.1:1", "127.0.0.1:1"])
def test_a_running_server_that_cannot_be_reached(unflushed: Path, tmp_path: Path, admin: str) -> None:
    with embedded_broker(tmp_path, remote_log_manager_task_interval_ms=10**9):
        assert run("tier", "flush", "--data", unflushed, "--admin", admin).exit_code == 2  # no token
        (unflushed / "admin.token").write_text("secret\n")
        assert run("tier", "flush", "--data", unflushed, "--admin", admin).exit_code == 2


# --- restore ----------------------------------------------------------------------------------------------


def test_a_copy_of_a_store_is_as_good(data: Path, tmp_path: Path) -> None:
    """Etags are others there."""
    shutil.copytree(data / "object-store", tmp_path / "copy")
    done = run("tier", "restore", tmp_path / "copy", tmp_path / "new" / ".." / "again", "--json")
    assert done.exit_code == 0, done.output
    (row,) = document(done)["partitions"]
    assert (row["topic"], row["end_offset"], row["segments"], row["problems"]) == ("orders", 100, 2, [])
    (tmp_path / "again").rename(tmp_path / "moved")
    (tmp_path / "second").mkdir()
    (tmp_path / "moved").rename(tmp_path / "second" / "data")
    with embedded_broker(tmp_path / "second", tier_store=str(tmp_path / "copy")) as broker:
        assert broker.read(len(SENT), "orders") == SENT
        assert broker.flush().problems == []
    assert run("tier", "status", "--data", tmp_path / "second" / "data").exit_code == 0


def test_a_restore_in_words(data: Path, tmp_path: Path) -> None:
    done = run("tier", "restore", data / "object-store", tmp_path / "again")
    assert done.exit_code == 0
    assert "Restored 1 partition of 2 segments." in done.stdout


def test_a_restore_that_was_killed_is_made_again(data: Path, tmp_path: Path) -> None:
    left = tmp_path / "again.restoring"
    (left / "topics" / "half").mkdir(parents=True)
    (left / "LOCK").write_bytes(b"")
    killed = subprocess.Popen(
        [sys.executable, "-m", "barbicel.cli.main", "tier", "restore", data / "object-store", "again"],
        env=environment(),
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
    )
    killed.kill()
    killed.wait(TIMEOUT_S)
    done = run("tier", "restore", data / "object-store", tmp_path / "again", "--json")
    assert (done.exit_code, document(done)["partitions"][0]["end_offset"]) == (0, 100)
    assert not left.exists()


def test_a_missing_object_is_told_and_the_rest_is_restored(data: Path, tmp_path: Path) -> None:
    sorted((data / "object-store").rglob("*.kfs"))[0].unlink()
    done = run("tier", "restore", data / "object-store", tmp_path / "again")
    assert done.exit_code == 3
    assert "is gone" in words(done)


def test_a_directory_that_is_not_empty_is_left_alone(data: Path, tmp_path: Path) -> None:
    before = snapshot(data)
    done = run("tier", "restore", data / "object-store", data)
    assert (done.exit_code, "not empty" in done.stderr) == (2, True)
    assert snapshot(data) == before


def test_two_namespaces(data: Path, tmp_path: Path) -> None:
    with embedded_broker(tmp_path / "other", tier_store=str(data / "object-store")) as broker:
        broker.create("theirs")
        broker.flush()
    done = run("tier", "restore", data / "object-store", tmp_path / "again")
    assert (done.exit_code, "there are 2" in done.stderr) == (2, True)
    names = [path.parent.name for path in (data / "object-store").glob("*/cluster.json")]
    topics = {
        document(
            run(
                "tier",
                "restore",
                data / "object-store",
                tmp_path / name,
                "--namespace",
                name,
                "--json",
            )
        )["partitions"][0]["topic"]
        for name in names
    }
    assert topics == {"orders", "theirs"}
    assert run("tier", "restore", data / "object-store", tmp_path / "x", "--namespace", "no").exit_code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["{store}"],
        ["{store}", ""],
        ["{store}", "{store}/orders.file"],
        ["{tmp}/nowhere", "{tmp}/again"],
        ["{tmp}", "{tmp}/again"],
        ["ftp://host/path", "{tmp}/again"],
        ["s3://", "{tmp}/again"],
        ["{store}", "{tmp}/again", "--namespace", "../up"],
        ["{store}", "{tmp}/again", "--endpoint", "http://127.0.0.1:1"],
        ["{store}", "{tmp}/again", "--wrong"],
    ],
    ids=" ".join,
)
def test_wrong_usage_of_restore(data: Path, tmp_path: Path, arguments: list[str]) -> None:
    store = data / "object-store"
    (store / "orders.file").write_text("no directory")
    given = [argument.format(store=store, tmp=tmp_path) for argument in arguments]
    done = run("tier", "restore", *given)
    assert (done.exit_code, done.stdout) == (2, "")
    assert not (tmp_path / "again").exists()
    assert not (tmp_path / "nowhere").exists()


def test_wrong_usage_of_the_others(tmp_path: Path) -> None:
    for verb in ("status", "flush"):
        assert run("tier", verb, "--wrong").exit_code == 2
        assert run("tier", verb, "--data", "").exit_code == 2
        assert run("tier", verb, "--config", tmp_path / "none.toml").exit_code == 2
    assert run("tier", "status", "--data", tmp_path / "nowhere").exit_code == 2
