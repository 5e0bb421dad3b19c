"""The server as a process: how it starts, how it stops, and what it refuses to start on."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from twisted.internet.testing import MemoryReactorClock

from barbicel.config.listeners import Listener
from barbicel.config.settings import Config
from barbicel.disk import RealDisk
from barbicel.errors import BarbicelError, LogLocked
from barbicel.gateway.service import Service
from tests.cli.support import environment
from tests.gateway.kafka.in_memory import batch
from tests.gateway.kafka.requests import produce
from tests.gateway.kafka.test_attacks import Raw
from tests.support.gateway import running_gateway

START_DEADLINE_S = 60.0


def start_beside(data: Path, port: int = 0) -> subprocess.CompletedProcess[str]:
    """A server that must fail to start."""
    flags = ["--data-directory", str(data), "--listeners", f"PLAINTEXT://127.0.0.1:{port}"]
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "barbicel.cli.main", "serve", *flags],
        capture_output=True,
        text=True,
        timeout=START_DEADLINE_S,
        env=environment(),
        check=False,
    )


def test_what_was_answered_is_there_after_an_orderly_stop_and_after_a_kill(tmp_path: Path) -> None:
    with running_gateway(tmp_path) as gateway:
        stored = 0
        for stop in (gateway.stop, gateway.kill, gateway.stop):
            producer = KafkaProducer(bootstrap_servers=gateway.bootstrap)
            for number in range(20):
                producer.send("t", b"%d" % (stored + number)).get(30)
            producer.close()
            stored += 20
            assert stop() in (0, None)
            gateway.start()
        consumer = KafkaConsumer(bootstrap_servers=gateway.bootstrap, auto_offset_reset="earliest")
        consumer.assign([TopicPartition("t", 0)])
        values = [next(consumer).value for _ in range(stored)]
        assert values == [b"%d" % number for number in range(stored)]
        consumer.close()
        assert gateway.stop() == 0
        assert "ERROR" not in gateway.log.read_text()
        assert "Traceback" not in gateway.log.read_text()


def test_stopping_answers_what_was_sent_and_writes_the_producers_down(tmp_path: Path) -> None:
    with running_gateway(tmp_path, auto_create_topics_enable="true") as gateway:
        producer = KafkaProducer(bootstrap_servers=gateway.bootstrap, enable_idempotence=True)
        producer.send("t", b"first").get(30)
        producer.close()
        with Raw(gateway) as client:
            for _ in range(50):
                client.send(produce(batch(b"x" * 1000)), 8)
            client.receive()
            assert gateway.stop() == 0
        assert list(gateway.data.rglob("producers.snap"))
        gateway.start()
        assert "set back" not in gateway.log.read_text()


@pytest.mark.parametrize(("kestrel", "times"), [("true", 1), ("false", 0)])
def test_the_start_tells_once_that_kestrels_clients_are_past_the_acls(
    tmp_path: Path, kestrel: str, times: int
) -> None:
    with running_gateway(
        tmp_path, authorizer_class_name="StandardAuthorizer", kestrel_enable=kestrel
    ) as gateway:
        told = gateway.log.read_text()
    assert told.count("WARNING") == told.count("ACLs do not hold for Kestrel's clients") == times
    assert told.count("set kestrel.enable = false") == times


def test_a_second_server_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    with running_gateway(tmp_path) as gateway:
        second = start_beside(gateway.data)
        assert second.returncode == 2
        assert "Traceback" not in second.stderr
        assert str(gateway.data) in second.stderr
        with Raw(gateway) as client:
            client.send(produce(batch(b"x")), 8)
            client.receive()


def test_a_port_that_is_taken_is_refused_and_the_directory_is_free_again(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = start_beside(tmp_path / "data", port)
        assert refused.returncode == 2
        assert f"cannot listen on PLAINTEXT://127.0.0.1:{port}" in refused.stderr
    with running_gateway(tmp_path):
        pass


def test_a_service_that_cannot_listen_lets_go_of_the_directory(tmp_path: Path) -> None:
    make: Any = MemoryReactorClock  # it has no types
    reactor = make()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listeners = (Listener("PLAINTEXT", "127.0.0.1", taken.getsockname()[1]),)
        config = Config(data_directory=str(tmp_path / "data"), listeners=listeners)
        for _ in range(2):
            with pytest.raises(BarbicelError, match="cannot listen") as caught:
                Service(RealDisk(), config, reactor, lambda: config)
            assert not isinstance(caught.value, LogLocked)
