"""Real files, real processes, real signals: what the simulated disk cannot show."""

from __future__ import annotations

import json
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from barbicel.errors import LogLocked
from barbicel.keratin import Log, LogSettings, NewRecord

SETTINGS = LogSettings(segment_max_bytes=200_000, checkpoint_bytes=150_000)

# Appends until it is stopped, from several threads, and says what was answered.
PRODUCER = textwrap.dedent(
    """
    import json, sys, threading
    from barbicel.errors import BarbicelError
    from barbicel.keratin import Ack, Log, LogSettings, NewRecord, Writer

    path, acknowledge = sys.argv[1], Ack(sys.argv[2])
    settings = LogSettings(segment_max_bytes=200_000, checkpoint_bytes=150_000)
    said = threading.Lock()

    def produce(name: int) -> None:
        number = 0
        while True:
            content = b"%d-%d-" % (name, number) + b"x" * (number * 37 % 3000)
            try:
                answer = writer.append(log, [NewRecord(content)], acknowledge)
            except BarbicelError as error:
                with said:
                    print(json.dumps({"error": str(error)}), flush=True)
                return
            with said:
                print(json.dumps([answer.base_offset, name, number]), flush=True)
            number += 1

    log = Log.open(path, settings=settings)
    with Writer() as writer:
        threads = [threading.Thread(target=produce, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    """
)


def content_of(name: int, number: int) -> bytes:
    return b"%d-%d-" % (name, number) + b"x" * (number * 37 % 3000)


def start(path: Path, ack: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PRODUCER, str(path), ack], stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("ack", ["fsync", "write"])
def test_kill_9_loses_nothing_that_was_answered(tmp_path: Path, ack: str) -> None:
    answered: dict[int, bytes] = {}
    for round_number in range(4):
        producer = start(tmp_path / "log", ack)
        assert producer.stdout is not None
        for _ in range(150 + 100 * round_number):
            offset, name, number = json.loads(producer.stdout.readline())
            assert offset not in answered
            answered[offset] = content_of(name, number)
        producer.send_signal(signal.SIGKILL)
        for line in producer.stdout:  # what was said before the signal came
            if line.endswith("]\n"):
                offset, name, number = json.loads(line)
                answered[offset] = content_of(name, number)
        producer.stdout.close()
        producer.wait()
        with Log.open(str(tmp_path / "log"), settings=SETTINGS) as log:
            found = {record.offset: bytes(record.payload) for record in log.scan(0)}
        assert list(found) == list(range(len(found)))
        assert answered.items() <= found.items()


def test_a_write_that_the_system_refuses_midway(tmp_path: Path) -> None:
    """The kernel writes what fits under the file size limit and then refuses: a real partial write."""
    limit = 100_000
    producer = subprocess.Popen(
        [sys.executable, "-c", PRODUCER, str(tmp_path / "log"), "fsync"],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    output, _ = producer.communicate(timeout=60)
    lines = [json.loads(line) for line in output.splitlines()]
    errors = [line["error"] for line in lines if isinstance(line, dict)]
    answered = {line[0]: content_of(line[1], line[2]) for line in lines if isinstance(line, list)}
    assert len(errors) == 4
    assert any("File too large" in error for error in errors)
    with Log.open(str(tmp_path / "log"), settings=SETTINGS) as log:
        assert not log.damage
        assert {record.offset: bytes(record.payload) for record in log.scan(0)} == answered
        assert log.append([NewRecord(b"next")]).base_offset == len(answered)


def test_one_writer_at_a_time_across_processes(tmp_path: Path) -> None:
    producer = start(tmp_path / "log", "fsync")
    assert producer.stdout is not None
    producer.stdout.readline()
    with pytest.raises(LogLocked, match=f"already open by process {producer.pid}"):
        Log.open(str(tmp_path / "log"))
    reader = Log.open(str(tmp_path / "log"), read_only=True)
    assert reader.end_offset >= 1
    reader.close()
    producer.kill()
    producer.communicate()
    Log.open(str(tmp_path / "log")).close()


FORKS = """
import os, sys
from barbicel.errors import LogClosed, LogStopped
from barbicel.keratin import Log, NewRecord, Writer
log, writer = Log.open(sys.argv[1]), Writer()
writer.append(log, [NewRecord(b"parent")])
child = os.fork()
if child == 0:
    refusals = 0
    for append in (log.append, lambda records: writer.append(log, records)):
        try:
            append([NewRecord(b"child")])
        except (LogStopped, LogClosed) as error:
            refusals += "which forked this one" in str(error)
    assert bytes(log.fetch(0).payload) == b"parent"
    writer.close()
    log.close()
    os._exit(0 if refusals == 2 else 1)
_, status = os.waitpid(child, 0)
assert status == 0, status
assert writer.append(log, [NewRecord(b"parent again")]).base_offset == 1
writer.close()
log.close()
"""


def test_a_forked_process_reads_and_neither_writes_nor_closes(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKS, str(tmp_path / "log")], check=True, timeout=60
    )
    with Log.open(str(tmp_path / "log")) as log:
        assert [bytes(record.payload) for record in log.scan(0)] == [b"parent", b"parent again"]


def test_a_relative_path_stays_good_wherever_the_process_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Log.open("log", settings=SETTINGS) as log:
        monkeypatch.chdir("/")
        for number in range(300):
            log.append([NewRecord(b"x" * 1000)])
            assert log.fetch(number).offset == number
    assert len(list((tmp_path / "log" / "segments").iterdir())) > 4


FILLS_THE_DISK = """
import json, os, subprocess, sys, threading
from barbicel.errors import BarbicelError
from barbicel.keratin import Ack, Log, NewRecord, Writer
root = sys.argv[1]
mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", root]
mounted = subprocess.run(mount, capture_output=True, text=True)
if mounted.returncode:
    print(json.dumps({"skip": mounted.stderr}))
    sys.exit()
with open(root + "/ballast", "wb") as ballast:
    ballast.write(bytes(1 << 20))
log, writer = Log.open(root + "/log"), Writer()
answered, errors = {}, []
def produce(name):
    for number in range(10**6):
        content = b"%d %d " % (name, number) + b"x" * (number % 3000)
        try:
            ack = Ack.AFTER_FSYNC if number % 2 else Ack.AFTER_WRITE
            answered[writer.append(log, [NewRecord(content)], ack).base_offset] = content
        except BarbicelError as error:
            return errors.append(str(error))
threads = [threading.Thread(target=produce, args=(name,)) for name in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
writer.close()
log.close()
os.unlink(root + "/ballast")
with Log.open(root + "/log") as log:
    found = {record.offset: bytes(record.payload) for record in log.scan(0)}
    went_on = log.append([NewRecord(b"next")]).base_offset == len(found)
print(json.dumps({
    "errors": errors, "answered": len(answered), "damage": len(log.damage), "went_on": went_on,
    "contiguous": sorted(found) == list(range(len(found))),
    "lost": sum(found.get(offset) != content for offset, content in answered.items()),
}))
"""


def on_a_small_file_system(script: str, path: Path) -> Any:
    """What a script says that mounts one where it is told to."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("unshare is not installed: no file system of its own can be had")
    done = subprocess.run(
        [unshare, "--map-root-user", "--mount", sys.executable, "-c", script, str(path)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    if done.returncode and "unshare" in done.stderr:
        pytest.skip(f"no namespace of its own can be had: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    if "skip" in said:
        pytest.skip(f"no file system of its own can be mounted: {said['skip'].strip()}")
    return said


def test_a_really_full_disk_loses_nothing_that_was_answered(tmp_path: Path) -> None:
    """A small file system of its own, several threads, both kinds of answer; then there is room again."""
    said = on_a_small_file_system(FILLS_THE_DISK, tmp_path)
    assert len(said["errors"]) == 4
    assert any("the disk is full" in error for error in said["errors"])
    assert said["answered"] > 100
    assert (said["lost"], said["damage"], said["contiguous"], said["went_on"]) == (0, 0, True, True)


DIES_ON_A_FULL_DISK = """
import json, os, signal, subprocess, sys
from barbicel.errors import DiskError
from barbicel.keratin import Log, LogSettings, NewRecord
from barbicel.keratin.retention import RetentionRules
root = sys.argv[1]
mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", root]
mounted = subprocess.run(mount, capture_output=True, text=True)
if mounted.returncode:
    print(json.dumps({"skip": mounted.stderr}))
    sys.exit()
with open(root + "/spare", "wb") as spare:
    spare.write(bytes(4096))
settings = LogSettings(segment_max_bytes=1 << 20)
told, tell = os.pipe()
if not os.fork():
    log = Log.open(root + "/log", settings=settings)
    for size in (50_000, 100):
        while True:
            try:
                log.append([NewRecord(b"x" * size)])
            except DiskError:
                break
            os.write(tell, b"1")
    os.kill(os.getpid(), signal.SIGKILL)
os.close(tell)
answered = 0
while data := os.read(told, 1 << 16):
    answered += len(data)
os.wait()
refused = 0
log = Log.open(root + "/log", settings=settings, read_only=True)
for attempt in (lambda: Log.open(root + "/log", settings=settings), log.begin_writing):
    try:
        attempt()
    except DiskError as error:
        refused += "the disk is full" in str(error)
read = sum(1 for _ in log.scan(0))
os.unlink(root + "/spare")
log.begin_writing()
start = log.retain(RetentionRules(max_bytes=0))
appended = log.append([NewRecord(b"y" * 50_000)]).base_offset
log.close()
with Log.open(root + "/log") as log:
    ends = log.start_offset, log.end_offset
print(json.dumps({
    "answered": answered, "refused": refused, "read": read, "start": start, "appended": appended,
    "ends": ends,
}))
"""


def test_after_a_crash_on_a_really_full_disk_one_block_is_enough_to_make_room(tmp_path: Path) -> None:
    said = on_a_small_file_system(DIES_ON_A_FULL_DISK, tmp_path)
    assert said["answered"] > 50
    assert (said["refused"], said["read"], said["appended"]) == (2, said["answered"], said["answered"])
    assert said["start"] > 0
    assert said["ends"] == [said["start"], said["answered"] + 1]


def test_an_index_of_a_terabyte_costs_no_memory(tmp_path: Path) -> None:
    with Log.open(str(tmp_path / "log"), settings=SETTINGS) as log:
        for _ in range(300):
            log.append([NewRecord(b"x" * 1000)])
        base = log.segments[0].base_offset
    index = tmp_path / "log" / "segments" / f"{base:020d}.idx"
    with index.open("r+b") as file:
        file.truncate(1 << 40)
    with Log.open(str(tmp_path / "log"), settings=SETTINGS) as log:
        assert log.fetch(base + 1).offset == base + 1
