"""The examples with Kafka's clients run as they stand, and print what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaProducer

from tests.support.gateway import Gateway, running_gateway

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples"
DEADLINE_S = 60
# An example is a page.
MAX_LINES = 100
CLIENTS = ("python", "confluent", "aiokafka")
STORED = re.compile(r"order \d is stored in partition \d at offset \d+")


def run(example: str, *arguments: str) -> list[str]:
    """The lines that an example prints."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / example), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("client", CLIENTS)
def test_produce_and_consume(tmp_path: Path, client: str) -> None:
    """The second run of a consumer goes on where the first has stopped: no order comes twice."""
    read: list[str] = []
    with running_gateway(tmp_path) as gateway:
        sent = run(f"kafka_{client}_producer.py", gateway.bootstrap)
        assert len([line for line in sent if STORED.fullmatch(line)]) == len(sent) == 10
        for count in (6, 4):
            *lines, end = run(f"kafka_{client}_consumer.py", gateway.bootstrap, str(count))
            assert (len(lines), end) == (count, f"{count} orders are done")
            read += lines
    assert sorted(read) == sorted(
        f"customer {number % 3}: order {number}, {{'currency': b'EUR'}}" for number in range(10)
    )


def test_records_of_other_producers_have_no_key(tmp_path: Path) -> None:
    with running_gateway(tmp_path) as gateway:
        with closing(KafkaProducer(bootstrap_servers=gateway.bootstrap)) as producer:
            producer.send("orders", b"tea").get(DEADLINE_S)
        for client in CLIENTS:
            lines = run(f"kafka_{client}_consumer.py", gateway.bootstrap, "1")
            assert lines == [": tea, {}", "1 orders are done"]


def test_worker_group(gateway: Gateway) -> None:
    lines = run("kafka_worker_group.py", gateway.bootstrap)
    killed = lines.index("worker 0 is killed")
    done = {line.split(" has done ")[1] for line in lines if " has done " in line}
    assert done == {f"task {number}" for number in range(60)}
    assert lines[-1] == "all 60 tasks are done"
    shares = [line for line in lines[killed:] if " has partitions " in line]
    assert shares, "nobody took over"
    assert not any(line.startswith("worker 0 has done") for line in lines[killed + 1 :])


def test_admin(gateway: Gateway) -> None:
    assert run("kafka_admin.py", gateway.bootstrap) == [
        "audit has 3 partitions",
        "retention.ms = 604800000",
        "cleanup.policy = delete",
        "max.message.bytes = 1048588",
        "the first entry that is left has offset 2",
        "auditors goes on at offset 4 (begin here)",
        "its state is Empty",
        "deleted: True",
        "deleted: True",
    ]


def test_every_example_is_a_page_and_is_run_here() -> None:
    run_here = {f"kafka_{client}_{role}.py" for client in CLIENTS for role in ("producer", "consumer")}
    run_here |= {"kafka_admin.py", "kafka_worker_group.py"}
    assert {path.name for path in EXAMPLES.glob("kafka_*.py")} == run_here
    for name in run_here:
        assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) <= MAX_LINES
