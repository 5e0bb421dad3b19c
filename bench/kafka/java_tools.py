"""Kafka's own ProducerPerformance and ConsumerPerformance, a JVM for each run, with their defaults.

The producer's are acks=all, idempotence, linger.ms=5 and batches of 16 KB: sixty times as many requests as
librdkafka sends for the same bytes.
"""

from __future__ import annotations

import re
import subprocess
from typing import NamedTuple

from bench.kafka.driver import Job
from tests.rig.jars import jars
from tests.rig.jvm import java_command

__all__ = ["Result", "consume", "parse_consumed", "parse_produced", "produce"]

DEADLINE_S = 120.0
# With the optimising compiler, which the rig's short-lived clients do without.
OPTIONS = ("-Xmx512m", "-XX:-UsePerfData", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
SENT = re.compile(r"^(\d+) records sent, ([0-9.]+) records/sec", re.MULTILINE)
# A line of names and a line of values.
FETCH_TABLE = re.compile(r"([^,]+, ){9}[^,]+$")


class Result(NamedTuple):
    messages: int
    messages_a_second: float


def produce(job: Job) -> float:
    """Messages in a second."""
    output = _run("ProducerPerformance", job, "--record-size", str(job.size_bytes), "--throughput", "-1")
    return _checked(job, parse_produced(output))


def consume(job: Job, group: str) -> float:
    """Messages in a second, from the topic's beginning, without the time that joining the group took."""
    return _checked(job, parse_consumed(_run("ConsumerPerformance", job, "--group", group)))


def parse_produced(output: str) -> Result:
    # The last such line is about the whole run, those before are about a few seconds of it.
    messages, rate = SENT.findall(output)[-1]
    return Result(int(messages), float(rate))


def parse_consumed(output: str) -> Result:
    names, values = (line.split(", ") for line in output.splitlines() if FETCH_TABLE.match(line))
    found = dict(zip(names, values, strict=True))
    return Result(int(found["data.consumed.in.nMsg"]), float(found["fetch.nMsg.sec"]))


def _checked(job: Job, result: Result) -> float:
    """The consumer may have a few more: what its last fetch has brought."""
    if result.messages < job.messages:
        raise RuntimeError(f"{result.messages} messages instead of {job.messages}")
    return result.messages_a_second


def _run(tool: str, job: Job, *arguments: str) -> str:
    command = java_command(
        jars("performance-tools"),
        f"org.apache.kafka.tools.{tool}",
        *("--bootstrap-server", job.bootstrap, "--topic", job.topic, "--num-records", str(job.messages)),
        *arguments,
        options=OPTIONS,
    )
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{tool} has failed:\n{done.stdout}{done.stderr}")
    return done.stdout
