"""Clients that mean harm, in a process of their own: one attack as JSON in, then it goes on until stdin ends.

It says how many connections it has, which may be fewer than it wants: a process may have only so many files.
"""

from __future__ import annotations

import json
import resource
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

__all__ = ["ATTACKS", "KAFKA_PORT", "KESTREL_PORT", "Attack", "raise_file_limit"]

HOST = "127.0.0.1"
# The protocols.
KAFKA_PORT, KESTREL_PORT = "kafka", "kestrel"
TIMEOUT_S = 30.0
# For what this process has open beside its connections.
OTHER_FILES = 100
# So that the kernel takes little of what is not read.
SMALL_BUFFER_BYTES = 16 << 10
RESET = struct.pack("ii", 1, 0)
# How often whoever drips sends a byte, and whoever is thrown out comes back.
DRIP_S, RETURN_S = 0.5, 0.005
UNREAD_REQUESTS = 20

# By protocol, what is sent first.
FIRST_QUESTION: Mapping[str, bytes] = {
    KAFKA_PORT: struct.pack(">ihhih", 10, 18, 0, 1, -1),
    KESTREL_PORT: b"version\r\n",
}
HALF_SENT: Mapping[str, bytes] = {
    KAFKA_PORT: struct.pack(">ihh", 10 << 20, 0, 8) + b"x" * 100,
    KESTREL_PORT: b"set drip 0 0 1000000\r\nabc",
}
TWO_GIGABYTES: Mapping[str, bytes] = {
    KAFKA_PORT: struct.pack(">ih", (1 << 31) - 1, 0),
    KESTREL_PORT: b"set huge 0 0 2147483647\r\n",
}


@dataclass(frozen=True, slots=True)
class Attack:
    kind: str
    port: int
    connections: int
    protocol: str = KAFKA_PORT
    # That has much to read.
    topic: str = ""


def raise_file_limit() -> int:
    """As far as allowed; how many connections a process may have then."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard - OTHER_FILES


def _connect(attack: Attack) -> socket.socket:
    client = socket.socket()
    client.settimeout(TIMEOUT_S)
    # Closed by a reset: otherwise its port would stay taken for a minute, and there are 28,000.
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    if attack.kind == "unread":
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER_BYTES)
    client.connect((HOST, attack.port))
    return client


@contextmanager
def _all_connected(attack: Attack) -> Iterator[list[socket.socket]]:
    clients: list[socket.socket] = []
    try:
        for _ in range(min(attack.connections, raise_file_limit())):
            clients.append(_connect(attack))
        yield clients
    finally:
        for client in clients:
            client.close()


def idle(attack: Attack) -> Iterator[int]:
    """Connected and answered once, and that is all."""
    with _all_connected(attack) as clients:
        for client in clients:
            client.sendall(FIRST_QUESTION[attack.protocol])
        for client in clients:
            client.recv(1 << 16)
        while True:
            yield len(clients)
            time.sleep(DRIP_S)


def half_sent(attack: Attack) -> Iterator[int]:
    """Slow loris: the beginning of a large request, then a byte now and then. Who is thrown out returns."""
    with _all_connected(attack) as clients:
        for client in clients:
            client.sendall(HALF_SENT[attack.protocol])
        while True:
            yield len(clients)
            for number, client in enumerate(clients):
                try:
                    client.sendall(b"x")
                except OSError:
                    _return(attack, clients, number, HALF_SENT[attack.protocol])
            time.sleep(DRIP_S)


def _return(attack: Attack, clients: list[socket.socket], number: int, sent_first: bytes) -> None:
    clients[number].close()
    clients[number] = _connect(attack)
    clients[number].sendall(sent_first)


def unread(attack: Attack) -> Iterator[int]:
    """Ask for much, and read nothing of it. Who is thrown out returns."""
    question = _question(attack) * UNREAD_REQUESTS
    with _all_connected(attack) as clients:
        for client in clients:
            client.sendall(question)
        while True:
            yield len(clients)
            for number, client in enumerate(clients):
                if _is_thrown_out(client):
                    _return(attack, clients, number, question)
            time.sleep(DRIP_S)


def _is_thrown_out(client: socket.socket) -> bool:
    return client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0


def _question(attack: Attack) -> bytes:
    if attack.protocol == KESTREL_PORT:
        return f"get {attack.topic}/peek\r\n".encode()
    name = attack.topic.encode()
    # Fetch, version 4: from the beginning of partition 0, as much as may be.
    body = struct.pack(">iiiibi", -1, 0, 1, (1 << 31) - 1, 0, 1)
    body += struct.pack(">h", len(name)) + name + struct.pack(">iiqi", 1, 0, 0, (1 << 31) - 1)
    frame = struct.pack(">hhih", 1, 4, 1, -1) + body
    return struct.pack(">i", len(frame)) + frame


def two_gigabytes(attack: Attack) -> Iterator[int]:
    """Announce a request of 2 GB, again and again. Kafka's port ends the connection each time; Kestrel's
    drops such an item as it comes, so that some of it is sent."""
    while True:
        with _connect(attack) as client:
            client.sendall(TWO_GIGABYTES[attack.protocol])
            if attack.protocol == KESTREL_PORT:
                client.sendall(bytes(1 << 20))
            elif not _is_ended(client):
                raise RuntimeError("a request of 2 GB was answered")
        yield 1
        time.sleep(RETURN_S)


def _is_ended(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


ATTACKS: Mapping[str, Callable[[Attack], Iterator[int]]] = {
    "idle": idle,
    "half_sent": half_sent,
    "unread": unread,
    "two_gigabytes": two_gigabytes,
}


def main() -> None:
    attack = Attack(**json.loads(sys.argv[1]))
    attacking = ATTACKS[attack.kind](attack)
    print(next(attacking), flush=True)
    is_over = threading.Event()

    def go_on() -> None:
        while not is_over.is_set():
            next(attacking)

    thread = threading.Thread(target=go_on)
    thread.start()
    sys.stdin.read()
    is_over.set()
    thread.join()


if __name__ == "__main__":
    main()
