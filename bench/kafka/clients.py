"""Starts `bench.kafka.driver` for one job and waits for what it took."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace

from bench.kafka.driver import READY, Job, Took
from bench.rounds import ROOT

__all__ = ["follow", "run_client"]

DEADLINE_S = 120.0


def run_client(job: Job) -> Took:
    with _started(job) as process:
        return _result(job, process)


def follow(job: Job) -> Took:
    """A consumer at the topic's end takes what a producer sends meanwhile; what the consumer took for it."""
    consuming = replace(job, do="consume_new")
    with _started(consuming) as consumer:
        assert consumer.stdout is not None
        if consumer.stdout.readline().strip() != READY:
            raise RuntimeError(f"a client has failed: {consuming}")
        run_client(replace(job, do="produce"))
        return _result(consuming, consumer)


@contextmanager
def _started(job: Job) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "bench.kafka.driver", json.dumps(asdict(job))]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _result(job: Job, process: subprocess.Popen[str]) -> Took:
    output, _ = process.communicate(timeout=DEADLINE_S)
    if process.returncode:
        raise RuntimeError(f"a client has failed: {job}")
    return Took(**json.loads(output))
