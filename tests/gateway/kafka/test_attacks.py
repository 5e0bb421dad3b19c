"""A real server under attack over real sockets: each attacker gets an error or a closed connection, the log
says who and why, memory stays bounded, and a client beside them does not notice."""

from __future__ import annotations

import resource
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from barbicel.codecs.kafka import messages
from barbicel.codecs.kafka.compression import Codec
from barbicel.codecs.kafka.error_codes import ErrorCode
from tests.codecs.kafka.golden_batches import with_crc
from tests.gateway.kafka.in_memory import batch
from tests.gateway.kafka.requests import fetch, metadata, produce
from tests.support.gateway import Gateway, running_gateway

TIMEOUT_S = 30.0
MIB = 1 << 20
MAX_TIMESTAMP_AT = 35


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    settings = {"connections_max_idle_ms": "600000", "max_connections_per_ip": "2100"}
    with running_gateway(tmp_path_factory.mktemp("attacked"), **settings) as gateway:
        yield gateway


class Raw:
    """A socket that speaks as much Kafka as an attacker needs."""

    def __init__(self, gateway: Gateway) -> None:
        self.socket = socket.create_connection((gateway.host, gateway.port), TIMEOUT_S)

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    @property
    def name(self) -> str:
        host, port = self.socket.getsockname()
        return f"{host}:{port}"

    def send(self, message: messages.Message, version: int) -> None:
        api_key: int = type(message).API_KEY  # type: ignore[attr-defined]  # of kafka-python's classes
        head = struct.pack(">hhih", api_key, version, 7, -1)
        if messages.is_flexible(api_key, version):
            head += b"\0"
        frame = head + messages.encode_request(message, version)
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self) -> bytes:
        """The next answer's body of a version that is not flexible."""
        (length,) = struct.unpack(">i", self._exactly(4))
        frame = self._exactly(length)
        assert struct.unpack_from(">i", frame) == (7,)
        return frame[4:]

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            more = self.socket.recv(min(MIB, size - len(data)))
            assert more, "the connection was closed"
            data += more
        return bytes(data)

    def is_closed(self) -> bool:
        """Waits for the server to close it."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True


def memory_bytes(gateway: Gateway) -> int:
    pages = int(Path(f"/proc/{gateway.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def works(gateway: Gateway, topic: str = "fine") -> None:
    """An ordinary client is served."""
    with Raw(gateway) as client:
        client.send(metadata(topic), 4)
        client.receive()
        client.send(produce(batch(b"value"), topic=topic), 8)
        assert error_code(client.receive(), topic) == 0
        client.send(fetch(0, topic=topic), 11)
        assert b"value" in client.receive()


def error_code(answer: bytes, topic: str) -> int:
    """Of the one partition of a Produce answer, version 8."""
    (code,) = struct.unpack_from(">h", answer, 4 + 2 + len(topic) + 4 + 4)
    return int(code)


def logged(gateway: Gateway, peer: str) -> str:
    return "\n".join(line for line in gateway.log.read_text().splitlines() if peer in line)


TLS_HELLO = bytes.fromhex("1603010200010001fc0303")
COUNT_BOMB = struct.pack(">hhih", 3, 1, 1, -1) + b"\x7f\xff\xff\xff"
STREAMS = [
    (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "not Kafka's protocol: an HTTP client"),
    (TLS_HELLO, "not Kafka's protocol: a TLS client"),
    (struct.pack(">i", 2**31 - 1), "a request of 2147483647 bytes"),
    (struct.pack(">i", -1), "a request of -1 bytes"),
    (struct.pack(">i", len(COUNT_BOMB)) + COUNT_BOMB, "2147483647"),
    (struct.pack(">ihh", 90 * MIB, 3, 1), "API key 3 with"),
    (struct.pack(">ihhih", 10, 4, 0, 1, -1), "API key 4 is not served"),
    (struct.pack(">ihhihb", 11, 1, 99, 1, -1, 0), "Fetch version 99 is not served"),
]


@pytest.mark.parametrize(("stream", "reason"), STREAMS)
def test_a_stranger_is_sent_away_and_named(server: Gateway, stream: bytes, reason: str) -> None:
    with Raw(server) as attacker:
        peer = attacker.name
        attacker.socket.sendall(stream)
        assert attacker.is_closed()
    assert reason in logged(server, peer)
    works(server)


def crafted(data: bytes, at: int, layout: str, value: int) -> bytes:
    return with_crc(data[:at] + struct.pack(layout, value) + data[at + struct.calcsize(layout) :])


BOMB = batch(bytes(20 * MIB), codec=Codec.ZSTD)
BATCHES = [
    (batch(b"x")[:-1] + b"?", ErrorCode.CORRUPT_MESSAGE),
    (crafted(batch(b"x"), 57, ">i", 2**31 - 1), ErrorCode.INVALID_RECORD),
    (batch(b"x")[:16] + b"\1" + batch(b"x")[17:], ErrorCode.INVALID_RECORD),
    (crafted(BOMB, MAX_TIMESTAMP_AT, ">q", -1), ErrorCode.MESSAGE_TOO_LARGE),
]


@pytest.mark.parametrize(("data", "code"), BATCHES)
def test_a_bad_batch_gets_kafkas_code_and_the_connection_stays(
    server: Gateway, data: bytes, code: ErrorCode
) -> None:
    works(server)
    before = memory_bytes(server)
    with Raw(server) as attacker:
        attacker.send(produce(data, topic="fine"), 8)
        assert error_code(attacker.receive(), "fine") == code
        assert "Produce refused" in logged(server, attacker.name)
        attacker.send(produce(batch(b"good"), topic="fine"), 8)
        assert error_code(attacker.receive(), "fine") == 0
    assert memory_bytes(server) - before < 64 * MIB


def test_a_produce_of_millions_of_nothings_is_refused_before_it_is_values(server: Gateway) -> None:
    before = memory_bytes(server)
    count = 4_000_000
    head = struct.pack(">hhih", 0, 8, 7, -1) + struct.pack(">hhii", -1, 1, 1000, 1)
    body = struct.pack(">h", 4) + b"fine" + struct.pack(">i", count)
    frame = head + body + struct.pack(">ii", 0, -1) * count
    with Raw(server) as attacker:
        peer = attacker.name
        attacker.socket.sendall(struct.pack(">i", len(frame)) + frame)
        assert attacker.is_closed()
    assert "more than 20000 topics and partitions" in logged(server, peer)
    assert memory_bytes(server) - before < 128 * MIB
    works(server)


def test_two_thousand_silent_connections_bother_nobody(server: Gateway) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(2000, soft - 200)
    before = memory_bytes(server)
    attackers = [Raw(server) for _ in range(wanted)]
    try:
        for attacker in attackers:
            attacker.socket.sendall(struct.pack(">ihh", 50 * MIB, 0, 8) + b"x" * 100)
        works(server)
        assert memory_bytes(server) - before < 100 * MIB
    finally:
        for attacker in attackers:
            attacker.socket.close()
    works(server)
    assert hard


def test_those_who_fetch_much_and_read_nothing_take_bounded_memory(server: Gateway) -> None:
    with Raw(server) as client:
        client.send(metadata("large"), 4)
        client.receive()
        for _ in range(60):
            client.send(produce(batch(b"x" * 1_000_000), topic="large"), 8)
            assert error_code(client.receive(), "large") == 0
    before = memory_bytes(server)
    slow = [Raw(server) for _ in range(12)]
    try:
        for attacker in slow:
            for _ in range(20):
                attacker.send(fetch(0, topic="large"), 11)
        works(server, "beside")
        # 12 times 20 fetches of 55 MB each were asked for. Of each client one answer of some 1 MiB is left
        # over, and one may be in the making.
        assert memory_bytes(server) - before < 64 * MIB
        # Who reads is answered with more and more.
        sizes = [len(slow[0].receive()) for _ in range(20)]
        assert sizes[0] < 2 * MIB < 10 * MIB < sizes[-1]
    finally:
        for attacker in slow:
            attacker.socket.close()
    works(server, "beside")
