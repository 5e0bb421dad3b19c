"""Holds a conversation with a server over raw sockets, and keeps what it said.

Answers are decoded strictly, and must have no byte more than their message.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import deque
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

from barbicel.codecs.kafka.headers import has_flexible_response_header
from barbicel.codecs.kafka.messages import (
    Message,
    decode_response,
    encode_request,
    encode_response,
    is_flexible,
    request_class,
)
from tests.differential.script import Ask, Await, Conversation, Receive, Send, SendBytes, Step

__all__ = ["ANSWERED", "CLOSED", "SILENT", "Said", "converse", "frame", "header"]

# A server that has nothing to say within this has hung.
TIMEOUT_S = 20.0
AWAIT_DEADLINE_S = 20.0
POLL_S = 0.02
LENGTH = struct.Struct(">i")
HEAD = struct.Struct(">hhi")
NO_TAGS = b"\x00"
API_VERSIONS = 18

CLOSED = "the connection is closed"
ANSWERED = "an answer"
SILENT = "no answer"


class Said(NamedTuple):
    """One answer. `value` is the message, or what became of the request: ANSWERED, CLOSED, SILENT."""

    label: str
    api: str
    version: int
    value: Any


class _Pending(NamedTuple):
    number: int
    api_key: int
    version: int


def header(api_key: int, version: int, number: int = 1, client_id: bytes = b"differential") -> bytes:
    """In front of a request; in a version that nobody knows, as ApiVersions has it."""
    tags = NO_TAGS if is_flexible(api_key, version) else b""
    return HEAD.pack(api_key, version, number) + struct.pack(">h", len(client_id)) + client_id + tags


def frame(content: bytes) -> bytes:
    return LENGTH.pack(len(content)) + content


class _Connection:
    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, TIMEOUT_S)
        self._pending: deque[_Pending] = deque()
        self._sent = 0

    def close(self) -> None:
        self._socket.close()

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send(self, request: Message, version: int) -> None:
        self._sent += 1
        self._pending.append(_Pending(self._sent, request.API_KEY, version))
        head = header(request.API_KEY, version, self._sent)
        # One that was closed says so when it is read from.
        with suppress(ConnectionError):
            self._socket.sendall(frame(head + encode_request(request, version)))

    def forget(self) -> None:
        """The last request gets no answer."""
        self._pending.pop()

    def expect(self, api_key: int, version: int) -> None:
        self._pending.append(_Pending(1, api_key, version))

    def receive(self, patience_s: float = TIMEOUT_S) -> tuple[_Pending, Message | str]:
        """The next answer, or what there is instead."""
        pending = self._pending.popleft()
        self._socket.settimeout(patience_s)
        try:
            content = self.receive_frame()
        except TimeoutError:
            if patience_s >= TIMEOUT_S:
                raise
            return pending, SILENT
        if content is None:
            return pending, CLOSED
        number, api_key, version = pending
        assert LENGTH.unpack_from(content) == (number,), "the answer is to another request"
        body = content[LENGTH.size :]
        if has_flexible_response_header(api_key, is_flexible(api_key, version)):
            assert body[:1] == NO_TAGS
            body = body[1:]
        answer = decode_response(api_key, version, memoryview(body))
        assert len(encode_response(answer, version)) == len(body), "the answer has other bytes too"
        return pending, answer

    def receive_frame(self) -> bytes | None:
        head = self._read(LENGTH.size)
        return None if head is None else self._read(*LENGTH.unpack(head))

    def _read(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            try:
                piece = self._socket.recv(size - len(data))
            except ConnectionResetError:
                return None
            if not piece:
                return None
            data += piece
        return bytes(data)


class _Talk:
    def __init__(self, address: tuple[str, int], stack: ExitStack) -> None:
        self._address = address
        self._stack = stack
        self._connections: dict[str, _Connection] = {}
        self.said: list[Said] = []

    def do(self, step: Step) -> Any:
        match step:
            case Ask():
                return self._keep(step.label, *self._ask(step))
            case Send():
                self._connection(step.on).send(step.request, step.version)
                if getattr(step.request, "acks", None) == 0:
                    self._connection(step.on).forget()
                return None
            case Receive():
                return self._keep(step.label, *self._receive(step.on))
            case Await():
                return self._await(step)
            case SendBytes():
                return self._send_bytes(step)

    def _ask(self, step: Ask) -> tuple[_Pending, Message | str]:
        self._connection(step.on).send(step.request, step.version)
        return self._receive(step.on, step.patience_s)

    def _receive(self, on: str, patience_s: float = TIMEOUT_S) -> tuple[_Pending, Message | str]:
        pending, answer = self._connection(on).receive(patience_s)
        if isinstance(answer, str):
            self._connections.pop(on).close()
        return pending, answer

    def _await(self, step: Await) -> Any:
        deadline = time.monotonic() + AWAIT_DEADLINE_S
        while True:
            pending, answer = self._ask(step.asked)
            if not isinstance(answer, str) and step.until(answer):
                return self._keep(step.asked.label, pending, answer)
            assert time.monotonic() < deadline, f"{step.asked.label}: it never came to be, last was {answer}"
            select.select([], [], [], POLL_S)

    def _send_bytes(self, step: SendBytes) -> Any:
        connection = self._new_connection()
        connection.send_bytes(step.data)
        if step.answer is not None:
            connection.expect(*step.answer)
            return self._keep(step.label, *connection.receive())
        content = connection.receive_frame()
        self.said.append(Said(step.label, "bytes", 0, CLOSED if content is None else ANSWERED))
        return None

    def _keep(self, label: str, pending: _Pending, answer: Message | str) -> Message | None:
        if label:
            name = request_class(pending.api_key).__name__.removesuffix("Request")
            self.said.append(Said(label, name, pending.version, answer))
        return None if isinstance(answer, str) else answer

    def _connection(self, name: str) -> _Connection:
        if name not in self._connections:
            self._connections[name] = self._new_connection()
        return self._connections[name]

    def _new_connection(self) -> _Connection:
        connection = _Connection(self._address)
        self._stack.callback(connection.close)
        return connection


def converse(address: tuple[str, int], conversation: Conversation) -> list[Said]:
    """All that the server said, in order."""
    with ExitStack() as stack:
        talk, steps, answer = _Talk(address, stack), conversation(), None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration:
                return talk.said
            try:
                answer = talk.do(step)
            except (OSError, AssertionError) as error:
                error.add_note(f"with {address}, at {step}")
                raise
