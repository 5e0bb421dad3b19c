"""The bytes of every reply of the text protocol. An item that holds a LF cannot be told from two lines."""

from __future__ import annotations

__all__ = [
    "NO_ITEM",
    "TOO_FEW_OPEN",
    "count",
    "error",
    "item",
    "text",
    "too_many_open",
    "unavailable",
]

# No item came in time; also the end of a monitor.
NO_ITEM = b"*\n"


def count(number: int) -> bytes:
    """How many things were done; 0 also for those that are not counted."""
    return b"+%d\n" % number


def error(message: str) -> bytes:
    return b"-%b\n" % " ".join(message.splitlines()).encode("ascii", "replace")


def item(data: bytes) -> bytes:
    return b":%b\n" % data


def text(message: str) -> bytes:
    """Of status and version."""
    return b":%b\n" % message.encode("ascii", "replace")


def too_many_open(limit: int) -> bytes:
    return error(f"Too many open transactions; limit={limit}")


def unavailable(operation: str) -> bytes:
    """Refused by the server's status or by its limit on connections."""
    return error(f"Server not available for operation {operation}")


# Of a confirm.
TOO_FEW_OPEN = error("Not that many transactions open.")
