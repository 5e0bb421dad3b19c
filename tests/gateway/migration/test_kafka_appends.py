"""A batch is sent again, as it was, when the connection breaks before its answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.produce import (
    ProducePartitionResult,
    ProduceTopicResult,
    encode_produce_response,
)
from barbicel.codecs.kafka.produce_client import HEAD, VERSION
from barbicel.codecs.kafka.wire import INT32
from barbicel.gateway.client.connecting import NoServer
from barbicel.gateway.migration import patience
from barbicel.gateway.migration.kafka_appends import KafkaAppends

BATCH = b"a batch"


def read_frame(connection: socket.socket) -> bytes:
    stream = connection.makefile("rb")
    (size,) = INT32.unpack(stream.read(INT32.size))
    return stream.read(size)


def answer(request: bytes, base_offset: int) -> bytes:
    correlation_id = HEAD.unpack_from(request)[2]
    topics = [ProduceTopicResult("q", None, [ProducePartitionResult(0, ErrorCode.NONE, base_offset)])]
    body = INT32.pack(correlation_id) + bytes(encode_produce_response(VERSION, topics))
    return INT32.pack(len(body)) + body


@contextmanager
def gateway(answers: list[bytes | None]) -> Iterator[tuple[tuple[str, int], list[bytes]]]:
    """One connection for each: what it answers to a request, or None to answer as it should. An empty answer
    breaks the connection."""
    requests: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for prepared in answers:
                connection, _ = server.accept()
                with connection:
                    requests.append(read_frame(connection))
                    connection.sendall(answer(requests[-1], 41) if prepared is None else prepared)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname(), requests
        finally:
            thread.join(30)


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "RETRY_PAUSE_S", 0.0)


@pytest.mark.parametrize("broken", [b"", b"\0\0", INT32.pack(-1), INT32.pack(1 << 30)])
def test_the_same_batch_is_sent_again(broken: bytes) -> None:
    with gateway([broken, broken, None]) as (address, requests), KafkaAppends(address) as appends:
        assert appends.append("q", 0, BATCH).base_offset == 41
    assert [request.endswith(BATCH) for request in requests] == [True] * 3


def test_nobody_is_tried_for_ever() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
    with KafkaAppends(address, retry_s=0.0) as appends, pytest.raises(NoServer):
        appends.append("q", 0, BATCH)
