"""pylibmc, which is libmemcached, behind the form of memcache_client.py.

Where there is no wheel of it (Python 3.12 and newer), `apt-get install libmemcached-dev zlib1g-dev` and
`pip install pylibmc` build one; without it these tests are skipped, and say so.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.kestrel_clients.memcache_client import Value

__all__ = ["Pylibmc"]

pylibmc: Any = pytest.importorskip(
    "pylibmc", reason="pylibmc is not installed: apt-get install libmemcached-dev, then pip install pylibmc"
)


class Pylibmc:
    def __init__(self, port: int) -> None:
        self.client: Any = pylibmc.Client([f"127.0.0.1:{port}"])

    def put(self, queue: str, value: Value, expiry_s: int = 0) -> bool:
        return bool(self.client.set(queue, value, time=expiry_s))

    def get(self, key: str) -> Value | None:
        value: Value | None = self.client.get(key)
        return value

    def delete(self, queue: str) -> bool:
        return bool(self.client.delete(queue))

    def stats(self) -> dict[str, str]:
        """libmemcached knows memcached's names alone, and leaves out the others."""
        ((_, stats),) = self.client.get_stats()
        return {name: value.decode("latin-1") for name, value in stats.items()}

    def end(self) -> None:
        self.client.disconnect_all()
