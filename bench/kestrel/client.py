"""A client for what is not timed, or not fast: one request, one answer, and anything else is an error."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

__all__ = ["Client", "UnexpectedReply", "flush_queues", "watched"]

DEADLINE_S = 30.0
WATCH_EVERY_S = 1.0
WATCHED = ("items", "total_items", "bytes", "mem_items", "mem_bytes", "logsize")


class UnexpectedReply(RuntimeError):
    pass


class Client:
    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), DEADLINE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._replies = self._socket.makefile("rb")

    def close(self) -> None:
        self._replies.close()
        self._socket.close()

    def put(self, queue: str, item: bytes) -> None:
        self.send(f"set {queue} 0 0 {len(item)}".encode("latin-1") + b"\r\n" + item)
        self._expect(b"STORED")

    def get(self, key: str) -> bytes | None:
        """Key: the queue with its options."""
        self.ask_for(key)
        return self.read_item()

    def ask_for(self, key: str) -> None:
        self.send(f"get {key}".encode("latin-1"))

    def read_item(self) -> bytes | None:
        line = self._line()
        if line == b"END":
            return None
        if not line.startswith(b"VALUE "):
            raise UnexpectedReply(line)
        size = int(line.split()[3])
        item = self._replies.read(size + 2)
        self._expect(b"END")
        return item[:size]

    def flush(self, queue: str) -> None:
        self.send(f"flush {queue}".encode("latin-1"))
        self._expect(b"END")

    def version(self) -> str:
        self.send(b"version")
        return self._line().decode("latin-1")

    def stats(self) -> dict[str, str]:
        self.send(b"stats")
        stats: dict[str, str] = {}
        while (line := self._line()) != b"END":
            _, name, value = line.decode("latin-1").split(" ", 2)
            stats[name] = value
        return stats

    def send(self, request: bytes) -> None:
        self._socket.sendall(request + b"\r\n")

    def _line(self) -> bytes:
        line = self._replies.readline()
        if not line.endswith(b"\r\n"):
            raise UnexpectedReply("the server closed the connection")
        return line[:-2]

    def _expect(self, line: bytes) -> None:
        if (got := self._line()) != line:
            raise UnexpectedReply(f"{got!r} instead of {line!r}")


def flush_queues(host: str, port: int, *queues: str) -> None:
    with closing(Client(host, port)) as client:
        for queue in queues:
            client.flush(queue)


@contextmanager
def watched(host: str, port: int, queue: str, *, is_wanted: bool) -> Iterator[None]:
    """Meanwhile, if it is wanted, print every second what the server says of the queue."""
    if not is_wanted:
        yield
        return
    is_over = threading.Event()
    thread = threading.Thread(target=_watch, args=(Client(host, port), queue, is_over))
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _watch(client: Client, queue: str, is_over: threading.Event) -> None:
    with closing(client):
        while not is_over.wait(WATCH_EVERY_S):
            stats = client.stats()
            print(queue, *(f"{name}={stats.get(f'queue_{queue}_{name}', 0)}" for name in WATCHED), flush=True)
