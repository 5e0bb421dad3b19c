"""python-memcached behind the form of memcache_client.py."""

from __future__ import annotations

from typing import Any

import memcache

from tests.kestrel_clients.memcache_client import Value
from tests.kestrel_clients.raw_client import DEADLINE_S

__all__ = ["PythonMemcached"]


class PythonMemcached:
    def __init__(self, port: int, timeout_s: float = DEADLINE_S) -> None:
        self.client: Any = memcache.Client([f"127.0.0.1:{port}"], socket_timeout=timeout_s)

    def put(self, queue: str, value: Value, expiry_s: int = 0) -> bool:
        return bool(self.client.set(queue, value, time=expiry_s))

    def get(self, key: str) -> Value | None:
        value: Value | None = self.client.get(key)
        return value

    def delete(self, queue: str) -> bool:
        return bool(self.client.delete(queue))

    def stats(self) -> dict[str, str]:
        ((_, stats),) = self.client.get_stats()
        return dict(stats)

    def end(self) -> None:
        self.client.disconnect_all()
