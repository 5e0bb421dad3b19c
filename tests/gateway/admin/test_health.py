"""When the server says that it is not ready, with real reasons."""

from __future__ import annotations

import resource
from pathlib import Path

from confluent_kafka import Producer

from tests.gateway.admin.http import Operator, Reply, poll
from tests.support.gateway import Gateway, running_gateway


def not_ready(operator: Operator) -> Reply:
    def look() -> Reply | None:
        reply = operator.get("/readyz")
        return reply if reply.status == 503 else None

    found: Reply = poll(look)
    return found


def produce(gateway: Gateway, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": gateway.bootstrap, "retries": 0, "message.timeout.ms": 10_000})
    producer.produce("orders", value)
    producer.flush(30)


def test_a_disk_that_is_nearly_full_is_not_ready_and_alive(tmp_path: Path) -> None:
    with running_gateway(tmp_path, admin_min_free_bytes=str(1 << 60)) as gateway:
        operator = Operator(gateway)
        assert "the disk is full" in not_ready(operator).text
        assert operator.get("/livez").status == 200
        overview = operator.look("/api/overview")
        assert overview["is_ready"] is False
        assert "the disk is full" in overview["problems"][0]


def test_a_log_that_has_stopped_is_not_ready(tmp_path: Path) -> None:
    with running_gateway(tmp_path) as gateway:
        operator = Operator(gateway)
        produce(gateway, b"fine")
        assert operator.get("/readyz").status == 200
        # From now on no file may grow: a write fails, and that is not one of the failures that pass.
        resource.prlimit(gateway.pid, resource.RLIMIT_FSIZE, (1, 1))
        produce(gateway, b"x" * 1000)
        assert "orders-0 takes no writes" in not_ready(operator).text
        assert operator.get("/livez").status == 200
        assert operator.look("/api/topics/orders")["not_writable"] == [0]
        assert "\nbarbicel_ready 0\n" in operator.get("/metrics").text
        gateway.kill()


def test_a_server_is_ready_as_soon_as_it_serves(tmp_path: Path) -> None:
    with running_gateway(tmp_path) as gateway:
        assert Operator(gateway).get("/readyz").status == 200
        gateway.stop()
        gateway.start()
        assert Operator(gateway).get("/readyz").status == 200
        gateway.kill()
        gateway.start()
        assert Operator(gateway).get("/readyz").status == 200


def test_without_the_listener_nothing_listens_and_no_token_is_made(tmp_path: Path) -> None:
    with running_gateway(tmp_path, admin_enable="false") as gateway:
        assert gateway.admin_port == 0
        assert not (gateway.data / "admin.token").exists()
