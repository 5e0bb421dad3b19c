"""pymemcache behind the form of memcache_client.py: as it is by default, so that it wants no replies.

It compares the key in VALUE with the one that it asked for: the gateway has to run with kestrel.echo.key.
"""

from __future__ import annotations

from typing import Any

import pymemcache
from pymemcache import serde

from tests.kestrel_clients.memcache_client import Value
from tests.kestrel_clients.raw_client import DEADLINE_S

__all__ = ["Pymemcache"]


class Pymemcache:
    def __init__(self, port: int) -> None:
        # Without a serde it knows no types, and sends no flags.
        self.client: Any = pymemcache.Client(
            ("127.0.0.1", port), timeout=DEADLINE_S, connect_timeout=DEADLINE_S, serde=serde.pickle_serde
        )

    def put(self, queue: str, value: Value, expiry_s: int = 0) -> bool:
        return bool(self.client.set(queue, value, expire=expiry_s))

    def get(self, key: str) -> Value | None:
        value: Value | None = self.client.get(key)
        return value

    def delete(self, queue: str) -> bool:
        return bool(self.client.delete(queue))

    def stats(self) -> dict[str, str]:
        """It has its own ideas of the types of memcached's numbers."""
        return {_text(name): _text(value) for name, value in self.client.stats().items()}

    def end(self) -> None:
        self.client.close()


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
