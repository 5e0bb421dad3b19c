"""Real files, real processes, real signals: what the simulated disk cannot show."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

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
