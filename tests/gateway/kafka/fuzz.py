"""What the fuzz tests attack: a gateway in memory that notices errors in its log and new records."""

from __future__ import annotations

import logging
import random
import struct
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from barbicel.codecs.kafka import messages
from barbicel.gateway.kafka.table import TABLE
from tests.codecs.kafka.random_messages import Case, random_message
from tests.gateway.kafka.in_memory import Gateway, batch, in_memory_gateway
from tests.gateway.kafka.requests import produce

__all__ = ["Target", "mutated_requests"]

# Answered when something happens in the group, so there may be nothing to wait for.
LONG_POLLS = frozenset({1, 11, 14})
WAIT_MS = 600_000


class _Errors(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))


class Target:
    """See the module."""

    def __init__(self, gateway: Gateway, errors: _Errors) -> None:
        self.gateway = gateway
        self._errors = errors
        self._stored = gateway.create("stored").partitions[0]
        client = gateway.connect()
        client.ask(produce(batch(b"value"), topic="stored"), 9)

    @classmethod
    @contextmanager
    def opened(cls, directory: Path) -> Iterator[Target]:
        errors = _Errors()
        logging.getLogger().addHandler(errors)
        # Topics that garbage asks for would be made on the disk.
        settings: dict[str, Any] = {"auto_create_topics_enable": False, "delete_topic_enable": False}
        try:
            with in_memory_gateway(directory / "data", **settings) as gateway:
                yield cls(gateway, errors)
        finally:
            logging.getLogger().removeHandler(errors)

    def attack(self, chunks: Sequence[bytes]) -> None:
        """The connection answers or closes, the log has no error, and nothing was stored."""
        client = self.gateway.connect()
        for chunk in chunks:
            client.connection.dataReceived(chunk)
        connection = client.connection
        if connection.is_waiting and connection._slots[-1].api.key not in LONG_POLLS:
            self.gateway.reactor.until(lambda: client.is_closed or not connection.is_waiting)
        client.lose()
        assert not self._errors.texts, self._errors.texts
        assert self._stored.end_offset == 1
        assert self.gateway.server._queued_bytes == 0

    def attack_with_body(self, api_key: int, version: int, tail: bytes) -> None:
        frame = struct.pack(">hhih", api_key, version, 1, -1) + tail
        self.attack([struct.pack(">i", len(frame)) + frame])


@cache
def _request(api_key: int, version: int, seed: int) -> bytes:
    """A random request of an API that is served, whole and sound."""
    message = random_message(Case("request", api_key, version), seed)
    head = struct.pack(">hhih", api_key, version, seed, -1)
    if messages.is_flexible(api_key, version):
        head += b"\0"
    return head + messages.encode_request(message, version)


def mutate(frame: bytes, choose: random.Random) -> bytes:
    """Some bytes changed, cut out or put in; its length is right, nearly always."""
    data = bytearray(frame)
    for _ in range(choose.randrange(4)):
        at = choose.randrange(len(data))
        match choose.randrange(4):
            case 0:
                data[at] = choose.choice((0, 1, 0x7F, 0x80, 0xFF, choose.randrange(256)))
            case 1:
                del data[at:]
                data += bytes(max(0, 8 - len(data)))
            case 2:
                data[at:at] = choose.randbytes(choose.randrange(1, 9))
            case _:
                data[at : at + 4] = choose.choice(
                    (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x00\x10\x00\x00")
                )
    lie = choose.choice((0,) * 9 + (choose.randrange(-9, 9),))
    return struct.pack(">i", len(data) + lie) + bytes(data)


def mutated(seed: int) -> bytes:
    choose = random.Random(seed)
    stream = b""
    for _ in range(choose.randrange(1, 4)):
        api = choose.choice(list(TABLE.values()))
        version = choose.randrange(api.first_version, api.last_version + 1)
        stream += mutate(_request(api.key, version, choose.randrange(50)), choose)
    return stream


def mutated_requests() -> st.SearchStrategy[bytes]:
    return st.integers(0, 2**32).map(mutated)


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as directory, Target.opened(Path(directory)) as target:
        for seed in range(rounds):
            try:
                target.attack([mutated(seed)])
            except BaseException:
                sys.stderr.write(f"seed {seed}\n")
                raise


if __name__ == "__main__":
    main(int(sys.argv[1]))
