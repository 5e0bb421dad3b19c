"""One connection by Kafka's protocol: a server that does not come to an end with its answer."""

from __future__ import annotations

import socket

import pytest

from barbicel.gateway.client import answers
from barbicel.gateway.client.connecting import NoServer
from barbicel.gateway.client.kafka_connection import KafkaConnection


def test_a_server_that_drips_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its bytes comes in time, and all of them do not."""
    ours, other = socket.socketpair()
    times_s = iter(range(0, 1000, 10))
    monkeypatch.setattr(answers.Answers.__init__, "__defaults__", (lambda: float(next(times_s)),))
    monkeypatch.setattr(answers, "READ_BYTES", 1)
    with other, KafkaConnection(ours, "here:9092", "me") as connection:
        other.sendall(b"\0\0\0\x64" + bytes(100))
        with pytest.raises(NoServer, match="takes too long"):
            connection.greet()
