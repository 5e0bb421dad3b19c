"""Imports into a gateway that runs: real processes, real sockets, real clients."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from kafka.admin import ConfigResource, ConfigResourceType  # type: ignore[import-untyped]

from barbicel.disk import RealDisk
from barbicel.gateway.migration.directory_target import DirectoryTarget
from barbicel.gateway.migration.gateway_target import GatewayTarget
from barbicel.gateway.migration.importing import FamilyOutcome, ImportRules, Outcome, import_family
from barbicel.gateway.migration.source import open_source
from barbicel.gateway.migration.target import TargetRefused
from barbicel.gateway.migration.verify import FamilyVerdict, Verdict, verify_family
from barbicel.gateway.migration.watch import Quiet
from tests.gateway.migration.support import run_verify
from tests.golden.kestrel.writer import Step, addx, join, remove, reserve
from tests.support.gateway import Gateway, running_gateway

NEVER_MS = 9_999_999_999_999


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running_gateway(tmp_path_factory.mktemp("gateway")) as gateway:
        yield gateway


def open_target(gateway: Gateway) -> GatewayTarget:
    return GatewayTarget.open((gateway.host, gateway.port), (gateway.host, gateway.kestrel_port))


def write(directory: Path, queues: dict[str, list[Step]]) -> str:
    for name, steps in queues.items():
        (directory / name).write_bytes(join(steps))
    return str(directory)


def run_import(gateway: Gateway, source: str) -> list[FamilyOutcome]:
    journals = open_source(RealDisk(), source)
    with open_target(gateway) as target:
        completed = target.completed()
        return [
            import_family(journals, family, target, completed, ImportRules(), Quiet())
            for family in journals.families
        ]


def verify(gateway: Gateway, source: str) -> list[FamilyVerdict]:
    journals = open_source(RealDisk(), source)
    with open_target(gateway) as target:
        completed = target.completed()
        return [verify_family(journals, family, target, completed, Quiet()) for family in journals.families]


def drain(gateway: Gateway, queue: str) -> list[bytes]:
    """As a Kestrel client reads it."""
    found: list[bytes] = []
    with socket.create_connection((gateway.host, gateway.kestrel_port), 30) as client:
        answers = client.makefile("rb")
        while True:
            client.sendall(f"get {queue}\r\n".encode())
            head = answers.readline()
            if head == b"END\r\n":
                return found
            size = int(head.split()[-1])
            found.append(answers.read(size + 2)[:-2])
            assert answers.readline() == b"END\r\n"


def items(*numbers: int, queue: str = "") -> list[Step]:
    return [addx(b"%s %d" % (queue.encode(), number), 1_600_000_000_000 + number) for number in numbers]


def test_a_queue_and_its_children_come_over(gateway: Gateway, tmp_path: Path) -> None:
    shared = [
        *items(1, 2, 3),
        addx(b"late", 1_600_000_000_009, NEVER_MS),
        addx(b"past", 1_600_000_000_010, 5),
    ]
    source = write(tmp_path, {"fan": [*shared, remove(), reserve(7)], "fan+a:b": [*shared, *items(20)]})
    (outcome,) = run_import(gateway, source)
    assert (outcome.outcome, outcome.records) == (Outcome.IMPORTED, 6)
    assert [one.outcome for one in run_import(gateway, source)] == [Outcome.ALREADY]
    (verdict,) = verify(gateway, source)
    assert verdict.verdict is Verdict.COMPLETE, verdict
    assert drain(gateway, "fan") == [b" 2", b" 3", b"late"]
    assert drain(gateway, "fan+a:b") == [b" 1", b" 2", b" 3", b"late", b" 20"]
    assert [one.outcome for one in run_import(gateway, source)] == [Outcome.ALREADY]
    assert drain(gateway, "fan") == []


def test_what_was_read_since_is_told(gateway: Gateway, tmp_path: Path) -> None:
    source = write(tmp_path, {"taken": items(1, 2)})
    run_import(gateway, source)
    with socket.create_connection((gateway.host, gateway.kestrel_port), 30) as client:
        client.sendall(b"get taken\r\n")
        assert client.makefile("rb").readline().startswith(b"VALUE taken")
    (verdict,) = verify(gateway, source)
    assert (verdict.verdict, verdict.lines[0].read_items) == (Verdict.READ, 1)


def test_large_items_come_over(gateway: Gateway, tmp_path: Path) -> None:
    data = [Random(4).randbytes(700_000), b"small", Random(5).randbytes(3_000_000)]
    source = write(tmp_path, {"large": [addx(one, 1_600_000_000_000) for one in data]})
    assert [one.outcome for one in run_import(gateway, source)] == [Outcome.IMPORTED]
    assert drain(gateway, "large") == data
    with open_target(gateway) as target:
        resource = ConfigResource(ConfigResourceType.TOPIC, "large", {"max.message.bytes": None})
        found = target.admin.describe_configs([resource], config_filter="all")
        assert int(found["topic"]["large"]["max.message.bytes"]["value"]) > 3_000_000


def test_an_item_that_needs_no_more_room_changes_no_limit(gateway: Gateway, tmp_path: Path) -> None:
    source = write(tmp_path, {"medium": [addx(bytes(700_000), 1_600_000_000_000)]})
    run_import(gateway, source)
    with open_target(gateway) as target:
        resource = ConfigResource(ConfigResourceType.TOPIC, "medium", {"max.message.bytes": None})
        found = target.admin.describe_configs([resource], config_filter="all")
        assert int(found["topic"]["medium"]["max.message.bytes"]["value"]) == 1_048_588


def test_killed_imports_go_on(gateway: Gateway, tmp_path: Path) -> None:
    steps = [addx(b"%06d" % number + bytes(994), 1_600_000_000_000 + number) for number in range(6000)]
    source = write(tmp_path, {"killed": steps})
    arguments = ["--bootstrap", gateway.bootstrap, "--kestrel", f"{gateway.host}:{gateway.kestrel_port}"]
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "barbicel.cli.main",
        "import-journals",
        source,
        *arguments,
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    log = next(iter(gateway.data.glob("topics/killed-*/0/segments/*.log")), None)
    killed = 0
    for _ in range(3):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
        before = 0 if log is None else log.stat().st_blocks
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            log = next(iter(gateway.data.glob("topics/killed-*/0/segments/*.log")), None)
            if log is not None and log.stat().st_blocks > before + 1000:
                process.kill()
                killed += 1
            time.sleep(0.001)
        process.wait(60)
    assert killed
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    assert process.wait(60) == 0
    (verdict,) = verify(gateway, source)
    assert verdict.verdict is Verdict.COMPLETE, verdict
    assert [item[:6] for item in drain(gateway, "killed")] == [b"%06d" % number for number in range(6000)]


def test_nobody_there_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(TargetRefused, match="Kestrel at"):
        GatewayTarget.open(("127.0.0.1", port), ("127.0.0.1", port))


def test_a_directory_in_use_is_refused(gateway: Gateway) -> None:
    with pytest.raises(TargetRefused, match="a server uses this data directory"):
        DirectoryTarget.open(RealDisk(), str(gateway.data))


def test_both_ways_lead_to_the_same_directory(tmp_path: Path) -> None:
    """Begun in a running gateway, verified in its directory when it has stopped."""
    (tmp_path / "journals").mkdir()
    source = write(tmp_path / "journals", {"q": items(1, 2), "q+c": items(2, 3)})
    with running_gateway(tmp_path) as gateway:
        run_import(gateway, source)
    (verdict,) = run_verify(RealDisk(), source=source, data=str(tmp_path / "data"))
    assert verdict.verdict is Verdict.COMPLETE, verdict
