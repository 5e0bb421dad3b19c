"""HTTP as operators and their tools speak it, on real sockets."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from http.client import HTTPConnection
from typing import Any, NamedTuple

from tests.support.gateway import Gateway

__all__ = ["Operator", "Reply", "poll"]

DEADLINE_S = 30.0
POLL_S = 0.02


class Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


class Operator:
    """Asks one gateway; with its token, where that is wanted."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @property
    def token(self) -> str:
        return (self._gateway.data / "admin.token").read_text().strip()

    def ask(
        self, method: str, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None
    ) -> Reply:
        connection = HTTPConnection(self._gateway.host, self._gateway.admin_port, timeout=DEADLINE_S)
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, data, dict(headers or {}))
            answer = connection.getresponse()
            return Reply(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def get(self, path: str) -> Reply:
        return self.ask("GET", path)

    def look(self, path: str) -> Any:
        """What a path of the API tells, which must be there."""
        reply = self.get(path)
        assert reply.status == 200, reply
        return reply.json()

    def post(self, path: str, body: Any = None) -> Reply:
        return self.ask("POST", path, body, headers={"Authorization": f"Bearer {self.token}"})


def poll(what: Callable[[], Any]) -> Any:
    """What it returns as soon as that is something."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        found = what()
        if found:
            return found
        time.sleep(POLL_S)
    raise AssertionError("it has not come to that in time")
