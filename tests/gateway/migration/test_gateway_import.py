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
from threading import Thread

import pytest
from kafka.admin import ConfigResource, ConfigResourceType

from barbicel.disk import RealDisk
from barbicel.gateway.client.kestrel_queues import KestrelServer
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
# As Kestrel answers.
STATS = b"STAT uptime 5\r\nSTAT version 2.4.1\r\nEND\r\n"


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


def begin(gateway: Gateway, source: str) -> subprocess.Popen[bytes]:
    arguments = ["--bootstrap", gateway.bootstrap, "--kestrel", f"{gateway.host}:{gateway.kestrel_port}"]
    return subprocess.Popen(
        [
            *(sys.executable, "-W", "ignore", "-m", "barbicel.cli.main"),
            *("import-journals", source, *arguments),
        ],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def wait_until_it_writes(process: subprocess.Popen[bytes], gateway: Gateway, queue: str) -> bool:
    """Whether the queue's log has grown by half a megabyte before the import was done."""

    def blocks() -> int:
        return sum(path.stat().st_blocks for path in gateway.data.glob(f"topics/{queue}-*/0/segments/*.log"))

    before, deadline = blocks(), time.monotonic() + 60
    while process.poll() is None:
        assert time.monotonic() < deadline
        if blocks() > before + 1000:
            return True
        time.sleep(0.001)
    return False


def test_killed_imports_go_on(gateway: Gateway, tmp_path: Path) -> None:
    source = write(tmp_path, {"killed": kilobytes(6000)})
    killed = 0
    for _ in range(3):
        process = begin(gateway, source)
        if wait_until_it_writes(process, gateway, "killed"):
            process.kill()
            killed += 1
        process.wait(60)
    assert killed
    assert begin(gateway, source).wait(60) == 0
    (verdict,) = verify(gateway, source)
    assert verdict.verdict is Verdict.COMPLETE, verdict
    assert [item[:6] for item in drain(gateway, "killed")] == [b"%06d" % number for number in range(6000)]


def test_a_gateway_that_is_killed_meanwhile_is_waited_for(tmp_path: Path) -> None:
    """One run: it goes on with the queue at hand, and with others, for which it had other connections."""
    (tmp_path / "journals").mkdir()
    queues = {"a": kilobytes(6000), "b": items(1), "c": items(2, 3), "c+d": items(3)}
    source = write(tmp_path / "journals", queues)
    with running_gateway(tmp_path) as gateway:
        process = begin(gateway, source)
        assert wait_until_it_writes(process, gateway, "a")
        gateway.kill()
        gateway.start()
        assert process.wait(120) == 0
        assert {one.verdict for one in verify(gateway, source)} == {Verdict.COMPLETE}
        assert [item[:6] for item in drain(gateway, "a")] == [b"%06d" % number for number in range(6000)]


def kilobytes(count: int) -> list[Step]:
    return [addx(b"%06d" % number + bytes(994), 1_600_000_000_000 + number) for number in range(count)]


def test_nobody_there_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(TargetRefused, match="no Kestrel server answers"):
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


def test_ports_of_two_servers_are_refused_and_nothing_is_made(gateway: Gateway, tmp_path: Path) -> None:
    with running_gateway(tmp_path) as other:
        with pytest.raises(TargetRefused, match=r"of another server .*--kestrel"):
            GatewayTarget.open((gateway.host, gateway.port), (other.host, other.kestrel_port))
        with KestrelServer(other.host, other.kestrel_port, {}).connected() as queues:
            assert queues.names() == []


def test_a_kestrel_that_is_no_gateway_is_refused(gateway: Gateway) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        kestrel = ("127.0.0.1", listener.getsockname()[1])

        def serve() -> None:
            client, _ = listener.accept()
            with client, client.makefile("rb") as requests:
                for request in requests:
                    client.sendall({b"version": b"VERSION 2.4.1\r\n", b"stats": STATS}[request.strip()])

        thread = Thread(target=serve)
        thread.start()
        with pytest.raises(TargetRefused, match="of another server"):
            GatewayTarget.open((gateway.host, gateway.port), kestrel)
        thread.join(30)
