"""Which topics the members of a group subscribe to, read from the metadata that they joined with.

    version i16, topic count i32, topics { length i16, UTF-8 }, ...

Every version of the consumer protocol begins like this, and what follows is not looked at. The bytes come
from clients and may be anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from struct import Struct

__all__ = ["CONSUMER_PROTOCOL_TYPE", "Subscriptions", "read_topics"]

CONSUMER_PROTOCOL_TYPE = "consumer"

_HEAD = Struct(">hi")
_LENGTH = Struct(">h")


def read_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics of one member, None if the bytes are not a subscription."""
    if len(metadata) < _HEAD.size:
        return None
    version, count = _HEAD.unpack_from(metadata)
    # A topic takes its length field at least, so a count is never believed beyond the bytes that are there.
    if version < 0 or not 0 <= count <= (len(metadata) - _HEAD.size) // _LENGTH.size:
        return None
    return _read_names(metadata, _HEAD.size, count)


def _read_names(metadata: bytes, position: int, count: int) -> frozenset[str] | None:
    names = set()
    for _ in range(count):
        begin = position + _LENGTH.size
        if begin > len(metadata):
            return None
        length = _LENGTH.unpack_from(metadata, position)[0]
        position = begin + length
        if length < 0 or position > len(metadata):
            return None
        try:
            names.add(metadata[begin:position].decode())
        except UnicodeDecodeError:
            return None
    return frozenset(names)


class Subscriptions:
    """The topics of one generation. Read when somebody asks, which is rare, not at every rebalance."""

    def __init__(self, metadata: Iterable[bytes]) -> None:
        self._metadata = tuple(metadata)

    def include(self, topic: str) -> bool:
        """True as well if some member's bytes are not readable: then no topic is known to be free."""
        return self._topics is None or topic in self._topics

    @cached_property
    def _topics(self) -> frozenset[str] | None:
        topics: set[str] = set()
        for metadata in self._metadata:
            names = read_topics(metadata)
            if names is None:
                return None
            topics |= names
        return frozenset(topics)
