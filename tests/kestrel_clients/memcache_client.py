"""What the checks ask of a memcache client, in one form for all of them. An adapter translates only."""

from __future__ import annotations

from typing import Protocol, TypeAlias

__all__ = ["MemcacheClient", "Value"]

Value: TypeAlias = str | bytes | int


class MemcacheClient(Protocol):
    """One connection, with the client's own settings but for what its adapter names."""

    def __init__(self, port: int) -> None: ...

    def put(self, queue: str, value: Value, expiry_s: int = 0) -> bool: ...

    def get(self, key: str) -> Value | None:
        """The key is a queue with options. The value has the type that was put."""

    def delete(self, queue: str) -> bool: ...

    def stats(self) -> dict[str, str]: ...

    def end(self) -> None: ...
