"""The server under a small limit of open files: what clients and topics cannot take away from it."""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from barbicel.codecs.kafka import messages
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.gateway.kestrel.dialect import MEMCACHE
from barbicel.gateway.open_file_limit import raise_open_file_limit
from tests.gateway.kafka.in_memory import batch
from tests.gateway.kafka.requests import metadata, only, produce, produced
from tests.gateway.kafka.test_attacks import Raw
from tests.support.gateway import Gateway

LIMIT = 200
DEADLINE_S = 20.0
LARGE = batch(b"x" * 900_000)
# So that a second one needs a second segment.
SEGMENT_BYTES = str(1 << 20)


@contextmanager
def limited_gateway(directory: Path, **settings: str) -> Iterator[Gateway]:
    gateway = Gateway(directory, settings, open_files=LIMIT)
    gateway.start()
    try:
        yield gateway
    finally:
        gateway.stop()


def wait_for(gateway: Gateway, text: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while text not in gateway.log.read_text():
        assert time.monotonic() < deadline, gateway.log.read_text()
        time.sleep(0.02)


def ask(client: Raw, message: Any, version: int) -> Any:
    client.send(message, version)
    kind: Any = messages.response_class(message.API_KEY)
    decode = kind._struct.compiled_decode_from(version, compact=False, tagged=False, data_class=kind)
    return decode(memoryview(client.receive()), 0)[0]


def connect_many(gateway: Gateway, open_sockets: ExitStack, count: int) -> None:
    for _ in range(count):
        open_sockets.enter_context(socket.create_connection((gateway.host, gateway.port), DEADLINE_S))


def test_clients_cannot_take_the_descriptors_that_a_roll_needs(tmp_path: Path) -> None:
    with limited_gateway(tmp_path, log_segment_bytes=SEGMENT_BYTES) as gateway, ExitStack() as open_sockets:
        client = open_sockets.enter_context(Raw(gateway))
        ask(client, metadata("t"), 7)
        assert only(produced(ask(client, produce(LARGE), 7))).error_code == ErrorCode.NONE
        connect_many(gateway, open_sockets, LIMIT)
        wait_for(gateway, "refusing clients")
        assert only(produced(ask(client, produce(LARGE), 7))).error_code == ErrorCode.NONE
        assert gateway.log.read_text().count("refusing clients") == 1


def test_topics_are_refused_before_a_restart_would_fail(tmp_path: Path) -> None:
    with limited_gateway(tmp_path) as gateway:
        names = [f"t{number}" for number in range(LIMIT)]
        with Raw(gateway) as client:
            rows = [only(ask(client, metadata(name), 7).topics) for name in names]
            created = [row.name for row in rows if not row.error_code]
            assert 5 <= len(created) < len(names)
            assert {row.error_code for row in rows} == {ErrorCode.NONE, ErrorCode.POLICY_VIOLATION}
        gateway.kill()
        gateway.start()
        with Raw(gateway) as client:
            for name in created:
                row = only(produced(ask(client, produce(batch(b"a"), topic=name), 7)))
                assert row.error_code == ErrorCode.NONE


def test_a_client_that_cannot_be_accepted_is_told_of(tmp_path: Path) -> None:
    """Should the descriptors be used up all the same: here the limit is lowered behind the server's back."""
    with limited_gateway(tmp_path) as gateway, ExitStack() as open_sockets:
        connect_many(gateway, open_sockets, 20)
        resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, (20, LIMIT))
        connect_many(gateway, open_sockets, 20)
        wait_for(gateway, "clients cannot be accepted")
        assert gateway.log.read_text().count("clients cannot be accepted") == 1


def test_the_limit_is_raised_as_far_as_allowed(caplog: pytest.LogCaptureFixture) -> None:
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    caplog.set_level("INFO")
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, most), most))
        limit = raise_open_file_limit()
        assert limit == resource.getrlimit(resource.RLIMIT_NOFILE)[0] == most
        assert f"{most} files may be open at once (ulimit -n was {min(512, most)})" in caplog.text
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, most))


def test_kestrels_clients_are_counted_with_kafkas(tmp_path: Path) -> None:
    with limited_gateway(tmp_path) as gateway, ExitStack() as open_sockets:
        connect_many(gateway, open_sockets, LIMIT)
        wait_for(gateway, "refusing clients")
        late = open_sockets.enter_context(
            socket.create_connection((gateway.host, gateway.kestrel_port), DEADLINE_S)
        )
        late.settimeout(DEADLINE_S)
        assert late.makefile("rb").read() == MEMCACHE.too_many
