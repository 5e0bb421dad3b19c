"""Where a log command meets the world: other processes, newer programs, names from elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from crc32c import crc32c

from barbicel import __version__
from barbicel.cli.log_findings import look
from barbicel.disk import Disk, RealDisk
from barbicel.keratin import Log
from barbicel.keratin.recovery import plan_recovery
from tests.cli.support import RECORDS, document, environment, run, segment, snapshot, words
from tests.support.fault_disk import FaultDisk

HOLD_A_LOG = """
import sys
from barbicel.keratin import Log, NewRecord
log = Log.open(sys.argv[1])
log.append([NewRecord(b"not in the manifest yet")])
print("open", flush=True)
sys.stdin.read()
"""


@contextmanager
def held_by_another_process(log: Path) -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_A_LOG, str(log)],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"open\n"
            yield process.pid
        finally:
            process.kill()


# --- a log in use ---------------------------------------------------------------------------------


def test_a_log_in_use_can_be_looked_at_and_recovered_but_not_repaired(log: Path, tmp_path: Path) -> None:
    with held_by_another_process(log) as pid:
        before = snapshot(log)
        for verb in ("verify", "inspect"):
            result = run("log", verb, log, "--deep")
            assert f"In use by process {pid}; the tail may move." in result.stdout
            assert "This is usual while a log is in use." in words(result)
            assert result.exit_code == (1 if verb == "verify" else 0)
            assert document(run("log", verb, log, "--json"))["in_use_by"] == str(pid)
        refused = run("log", "repair", log, "--apply")
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert f"already open by process {pid}" in refused.stderr
        recovered = run("log", "recover", log, tmp_path / "saved", "--json")
        assert recovered.exit_code == 0
        assert f"Warning: In use by process {pid}; the tail may move." in recovered.stderr
        assert document(recovered)["next_offset"] == RECORDS + 1
        assert snapshot(log) == before
    assert document(run("log", "verify", log, "--json"))["in_use_by"] is None


def test_what_vanishes_while_a_log_in_use_is_looked_at_is_no_damage(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention replaces the manifest and unlinks a segment after the old manifest was read."""
    looks: list[bool] = []

    with Log.open(str(log)) as opened:

        def plan_too_late(*arguments: object, **options: object) -> object:
            manifest = (log / "manifest.bin").read_bytes()
            opened.truncate_before(opened.start_offset + 4 if len(looks) < 2 else opened.start_offset)
            current = (log / "manifest.bin").read_bytes()
            (log / "manifest.bin").write_bytes(manifest)
            try:
                plan = plan_recovery(*arguments, **options)  # type: ignore[arg-type]
            finally:
                (log / "manifest.bin").write_bytes(current)
            looks.append(bool(plan.damage))
            return plan

        monkeypatch.setattr("barbicel.keratin.recovery.plan_recovery", plan_too_late)
        findings = look(RealDisk(), str(log), deep=False)
    assert looks == [True, True, False]
    assert (findings.holder, findings.lost) == (str(os.getpid()), ())


@pytest.mark.parametrize("make_disk", [RealDisk, FaultDisk])
def test_the_holder_of_a_lock_is_told_and_nothing_is_created(
    make_disk: Callable[[], Disk], tmp_path: Path
) -> None:
    disk, path = make_disk(), str(tmp_path / "LOCK")
    disk.make_directory(str(tmp_path))
    assert disk.lock_holder(path) is None
    assert not disk.exists(path)
    lock = disk.lock(path)
    assert disk.lock_holder(path) == str(os.getpid())
    file = disk.open(path, "write")
    file.truncate(0)
    file.close()
    assert disk.lock_holder(path) == "unknown"
    lock.release()
    assert disk.lock_holder(path) is None
    disk.lock(path).release()


# --- what is not as usual -------------------------------------------------------------------------


def test_an_interrupted_creation_is_a_log_to_be(tmp_path: Path) -> None:
    (tmp_path / "segments").mkdir()
    result = run("log", "verify", tmp_path)
    assert result.exit_code == 1
    assert "create an empty log" in words(result)
    assert run("log", "repair", tmp_path, "--apply").exit_code == 0
    assert run("log", "verify", tmp_path, "--deep").exit_code == 0


def test_a_newer_programs_file_is_refused(log: Path) -> None:
    data = bytearray(segment(log, 16).read_bytes())
    data[8:10] = (2).to_bytes(2, "big")
    data[64:68] = crc32c(bytes(data[:64])).to_bytes(4, "big")
    segment(log, 16).write_bytes(data)
    result = run("log", "verify", log)
    assert result.exit_code == 2
    assert "version 2, only 1 is known" in result.stderr


def test_the_version() -> None:
    assert run("--version").stdout == f"barbicel, version {__version__}\n"


def test_names_from_another_encoding_do_no_harm(log: Path) -> None:
    (log / "segments" / os.fsdecode(b"caf\xe9")).write_bytes(b"")
    assert r"segments/caf\udce9" in run("log", "inspect", log).stdout
    assert document(run("log", "verify", log, "--json"))["foreign"] == ["segments/caf\udce9"]
