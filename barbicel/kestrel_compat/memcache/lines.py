"""A line of the memcache protocol, without its end → the request that it is, or the header of one with data.

Words are parted by single spaces, and spaces at the end are dropped; so two spaces have an empty word between
them. Only the command's case does not matter. What Kestrel ends without a word (a number that is none, a
`set` too short to say how many bytes follow it) is answered with CLIENT_ERROR before the connection ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple, TypeAlias, final

from barbicel.kestrel_compat.memcache.numbers import parse_number
from barbicel.kestrel_compat.memcache.requests import (
    Bad,
    Confirm,
    Delete,
    DumpStats,
    Flush,
    FlushAll,
    FlushAllExpired,
    FlushExpired,
    Get,
    ListQueues,
    Monitor,
    Quit,
    Refusal,
    Reload,
    Request,
    Set,
    Shutdown,
    Stats,
    Status,
    Version,
)

__all__ = ["MAX_KEPT_LINE_BYTES", "DataHeader", "parse_kept_line", "parse_line"]

# Lines repeat: a worker asks for the same key for ever, a producer sets items of like sizes. How many are
# remembered, and how long they may be, bounds what that costs all connections together to a few megabytes.
_KEPT_LINES = 4096
MAX_KEPT_LINE_BYTES = 256

# Kestrel reads flags as signed and then drops them; memcache clients mean them unsigned, and get them back.
_MAX_FLAGS = 2**32 - 1

_NOREPLY = b"noreply"


@final
class DataHeader(NamedTuple):
    """A request that `data_bytes` bytes and two more follow. With `refused` set, they are passed over."""

    data_bytes: int
    queue: str
    flags: int
    expiry_s: int
    noreply: bool
    refused: Bad | None = None

    def request(self, data: bytes | None) -> Set | Bad:
        if self.refused is not None:
            return self.refused
        return Set(self.queue, self.flags, self.expiry_s, data, self.noreply)


Words: TypeAlias = list[bytes]
Line: TypeAlias = Request | DataHeader


def _stays(reason: str) -> Bad:
    return Bad(Refusal.CLIENT_ERROR, closes=False, reason=reason)


def _ends(reason: str) -> Bad:
    return Bad(Refusal.CLIENT_ERROR, closes=True, reason=reason)


_MISSING_ARGUMENT = _stays("an argument is missing")
_NO_NUMBER = _ends("an argument is not a number")
_NO_KEY = _ends("the key is empty")
_MIXED_OPTIONS = _ends("these options of get exclude each other")
_NO_LENGTH = _ends("a set that does not say how many bytes follow")
_BAD_FLAGS = _stays("the flags are not a number")


def _text(word: bytes) -> str:
    return word.decode("latin-1")


def _parse_set(words: Words) -> Line:
    if len(words) < 5:
        return _NO_LENGTH
    flags = parse_number(words[2], _MAX_FLAGS)
    expiry_s = parse_number(words[3])
    data_bytes = parse_number(words[4])
    if expiry_s is None or data_bytes is None or data_bytes < 0:
        return _NO_NUMBER
    if not words[1]:
        return _NO_KEY
    queue, noreply = words[1].decode("latin-1"), _NOREPLY in words[5:]
    if flags is None:
        return DataHeader(data_bytes, queue, 0, expiry_s, noreply, _BAD_FLAGS)
    return DataHeader(data_bytes, queue, flags, expiry_s, noreply)


def _parse_get(words: Words) -> Line:
    """Only the first key counts."""
    if len(words) < 2:
        return _MISSING_ARGUMENT
    key = words[1].decode("latin-1")
    queue, *options = key.split("/")
    if not queue:
        return _NO_KEY
    if not options:
        return Get(key, queue, False, False, False, False, None)
    return _parse_options(key, queue, options)


def _parse_options(key: str, queue: str, options: list[str]) -> Line:
    """Those that nobody knows are passed over; of several timeouts the last counts."""
    timeout_ms = None
    for option in options:
        if option.startswith("t="):
            number = parse_number(option[2:].encode("latin-1"))
            if number is None:
                return _NO_NUMBER
            timeout_ms = max(0, number)
    opens, closes, aborts, peeks = (name in options for name in ("open", "close", "abort", "peek"))
    if (peeks and aborts) or ((peeks or aborts) and (opens or closes)):
        return _MIXED_OPTIONS
    return Get(key, queue, opens, closes, aborts, peeks, timeout_ms)


def _parse_monitor(words: Words) -> Line:
    if len(words) < 3:
        return _MISSING_ARGUMENT
    seconds = parse_number(words[2])
    max_items = parse_number(words[3]) if len(words) > 3 else -1
    if seconds is None or max_items is None:
        return _NO_NUMBER
    # Kestrel counts down to 0, which a negative number never reaches.
    return Monitor(_text(words[1]), seconds, None if max_items < 0 else max_items)


def _parse_confirm(words: Words) -> Line:
    if len(words) < 3:
        return _MISSING_ARGUMENT
    count = parse_number(words[2])
    return _NO_NUMBER if count is None else Confirm(_text(words[1]), max(0, count))


def _parse_delete(words: Words) -> Line:
    return Delete(_text(words[1]), _NOREPLY in words[2:]) if len(words) > 1 else _MISSING_ARGUMENT


def _parse_flush(words: Words) -> Line:
    return Flush(_text(words[1])) if len(words) > 1 else _MISSING_ARGUMENT


def _parse_flush_expired(words: Words) -> Line:
    return FlushExpired(_text(words[1])) if len(words) > 1 else _MISSING_ARGUMENT


def _parse_flush_all(words: Words) -> Line:
    return FlushAll(_NOREPLY in words[1:])


def _parse_dump_stats(words: Words) -> Line:
    return DumpStats(tuple(map(_text, words[1:])))


def _parse_status(words: Words) -> Line:
    return Status(_text(words[1]) if len(words) > 1 else None)


def _bare(request: Request) -> Callable[[Words], Line]:
    """A command whose arguments, if there are any, mean nothing."""
    return lambda words: request


_COMMANDS: Mapping[bytes, Callable[[Words], Line]] = {
    b"get": _parse_get,
    b"gets": _parse_get,
    b"set": _parse_set,
    b"delete": _parse_delete,
    b"flush": _parse_flush,
    b"flush_all": _parse_flush_all,
    b"flush_expired": _parse_flush_expired,
    b"flush_all_expired": _bare(FlushAllExpired()),
    b"stats": _bare(Stats()),
    b"dump_stats": _parse_dump_stats,
    b"monitor": _parse_monitor,
    b"confirm": _parse_confirm,
    b"reload": _bare(Reload()),
    b"version": _bare(Version()),
    b"status": _parse_status,
    b"quit": _bare(Quit()),
    b"shutdown": _bare(Shutdown()),
    b"list_queues": _bare(ListQueues()),
}


def parse_line(line: bytes) -> Line:
    words = line.rstrip(b" ").split(b" ")
    parse = _COMMANDS.get(words[0].lower())
    return _ends(f"unknown command {words[0][:50]!r}") if parse is None else parse(words)


# For lines of MAX_KEPT_LINE_BYTES at most.
parse_kept_line = lru_cache(_KEPT_LINES)(parse_line)
