"""The server's log has a line for each thing that an operator needs to know, and clients cannot forge one."""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import memcache
import pytest
from confluent_kafka.admin import AdminClient

from barbicel.config import Listener
from barbicel.gateway.service import _tell_listeners
from tests.gateway.admin.http import Operator, poll
from tests.gateway.admin.kafka_clients import commit, create_topic, produce
from tests.support.gateway import Gateway, running_gateway

LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (INFO|WARNING|ERROR) [a-z_.A-Z]+ .+")


def has_line(gateway: Gateway, pattern: str) -> bool:
    return re.search(pattern, gateway.log.read_text()) is not None


def wait_for(gateway: Gateway, pattern: str) -> None:
    assert poll(lambda: has_line(gateway, pattern)), gateway.log.read_text()


def test_addresses_of_ipv6_are_told_as_pages_have_them(caplog: pytest.LogCaptureFixture) -> None:
    there: Any = SimpleNamespace(
        kestrel={"Kestrel": Listener("KESTREL", "::1", 22133)},
        admin_listener=Listener("HTTP", "::1", 8080),
        kafka=[Listener("PLAINTEXT", "::1", 9092)],
        broker=SimpleNamespace(data_directory="data"),
    )
    with caplog.at_level("INFO"):
        _tell_listeners(there)
    assert "Kestrel clients are served on [::1]:22133" in caplog.text
    assert "operators are served on http://[::1]:8080/" in caplog.text
    assert "Kafka clients are served on PLAINTEXT://[::1]:9092" in caplog.text


def test_a_start_and_a_stop_are_told(tmp_path: Path) -> None:
    with running_gateway(tmp_path) as gateway:
        create_topic(gateway, "orders", 3)
        produce(gateway, "orders", b"x")
        gateway.kill()
        gateway.start()
        gateway.stop()
        gateway.start()
    text = gateway.log.read_text()
    assert len(re.findall(r"Barbicel [0-9.a-z]+ starts, process \d+", text)) == 3
    found = re.findall(
        r"(\d+) partitions are open after [0-9.]+ s: (\d+) had not been stopped in order", text
    )
    assert found == [("0", "0"), ("3", "3"), ("3", "0")]
    assert text.count("stopping: what was accepted is answered") == 2
    assert text.rstrip().endswith(" stopped")


def test_what_clients_change_is_told(tmp_path: Path) -> None:
    with running_gateway(tmp_path) as gateway:
        create_topic(gateway, "asked-for", 2)
        produce(gateway, "by-itself", b"x")
        commit(gateway, "readers", ("by-itself", 0, 1))
        admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
        admin.delete_consumer_groups(["readers"])["readers"].result(30)
        admin.delete_topics(["asked-for"])["asked-for"].result(30)
        client = memcache.Client([f"{gateway.host}:{gateway.kestrel_port}"])
        client.set("jobs", "x")
        client.delete("jobs")
        client.disconnect_all()
        for pattern in (
            r"topic asked-for with 2 partitions, created by 127\.0\.0\.1:\d+",
            r"topic by-itself with 1 partitions, created because 127\.0\.0\.1:\d+ asked for it",
            r"group readers, deleted by 127\.0\.0\.1:\d+",
            r"topic asked-for, deleted by 127\.0\.0\.1:\d+",
            r"queue jobs, created",
            r"queue jobs, deleted",
        ):
            wait_for(gateway, pattern)


def test_retention_is_told(tmp_path: Path) -> None:
    with running_gateway(tmp_path, log_retention_check_interval_ms="200") as gateway:
        create_topic(gateway, "short", 1, retention_ms="1")
        produce(gateway, "short", b"old", timestamp=int(time.time() * 1000) - 60_000)
        wait_for(gateway, r"retention: short-0 begins at offset 1 now, \d+ bytes went")


def test_a_full_disk_is_told_once_and_by_its_reason(tmp_path: Path) -> None:
    with running_gateway(tmp_path, admin_min_free_bytes=str(1 << 60)) as gateway:
        wait_for(gateway, "not ready: the disk is full")
        create_topic(gateway, "meanwhile", 1)
        produce(gateway, "meanwhile", b"x" * 100_000)
        wait_for(gateway, "topic meanwhile")
    assert gateway.log.read_text().count("not ready: the disk is full") == 1


def test_changes_by_operators_and_wrong_tokens_are_told(tmp_path: Path) -> None:
    with running_gateway(tmp_path) as gateway:
        operator = Operator(gateway)
        client = memcache.Client([f"{gateway.host}:{gateway.kestrel_port}"])
        client.set("jobs", "x")
        client.set("others", "x")
        client.disconnect_all()
        assert operator.ask("POST", "/api/queues/jobs/move", {"to": "others"}).status == 401
        token = {"Authorization": f"Bearer {operator.token}"}
        assert operator.ask("POST", "/api/queues/jobs/move", {"to": "others"}, headers=token).status == 200
        wait_for(gateway, r"127\.0\.0\.1:\d+, refused in the console: POST /api/queues/jobs/move without the")
        wait_for(gateway, "an operator moved 1 items of the queue jobs to others")
        assert operator.token not in gateway.log.read_text()


def test_no_client_can_write_a_line_of_the_log(tmp_path: Path) -> None:
    forged = "\r\n2026-01-01 00:00:00,000 ERROR barbicel.gateway.service forged \x1b[2J"
    with running_gateway(tmp_path) as gateway:
        # By HTTP, by Kestrel's protocol, by Kafka's.
        with socket.create_connection((gateway.host, gateway.admin_port)) as http:
            http.sendall(b"POST /%0aforged HTTP/1.1\r\nHost: localhost\x1b[2J\r\n\r\n")
            http.recv(1000)
        with socket.create_connection((gateway.host, gateway.kestrel_port)) as kestrel:
            kestrel.sendall(b"get " + forged.encode() + b"\r\n" + b"x" * 20_000)
        produce(gateway, "t", b"x")
        commit(gateway, f"group{forged}", ("t", 0, 1))
        admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
        admin.delete_consumer_groups([f"group{forged}"])[f"group{forged}"].result(30)
        wait_for(gateway, "group.*forged.*, deleted by")
    for line in gateway.log.read_bytes().decode().split("\n")[:-1]:
        assert line.isprintable(), line
        assert LINE.fullmatch(line), line
        assert not line.startswith("2026-01-01")


def test_who_has_seen_the_lines_of_a_start_can_stop_it_in_order(tmp_path: Path) -> None:
    with running_gateway(tmp_path) as gateway:
        for _ in range(5):
            gateway.stop()
            assert gateway.log.read_text().rstrip().endswith(" stopped")
            gateway.start()


def test_what_goes_to_the_object_store_is_told(tmp_path: Path) -> None:
    with running_gateway(tmp_path, remote_log_storage_system_enable="true") as gateway:
        create_topic(gateway, "cold", 1, remote_storage_enable="true")
        produce(gateway, "cold", b"x")
        operator = Operator(gateway)
        wait_for(gateway, "sealed segments are tiered to ")
        token = {"Authorization": f"Bearer {operator.token}"}
        assert operator.ask("POST", "/api/tier/flush", {}, headers=token).status == 200
        wait_for(gateway, "an operator asked for all sealed segments to be uploaded")
        wait_for(gateway, r"the tier of cold-0: \d+ bytes of sealed segments were uploaded")
