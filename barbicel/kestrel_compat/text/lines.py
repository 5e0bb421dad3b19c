"""A line of the text protocol, without its end and the colon → the request that it is.

Words are parted as in the memcache protocol. The messages are Kestrel's, but for the two numbers over which
it ends the connection without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from barbicel.kestrel_compat.memcache.numbers import parse_number
from barbicel.kestrel_compat.text.requests import (
    Bad,
    Confirm,
    Delete,
    Flush,
    Get,
    Monitor,
    Peek,
    Put,
    Quit,
    Request,
    Shutdown,
    Status,
    Version,
)

__all__ = ["parse_line"]

Arguments: TypeAlias = list[bytes]

_NO_QUEUE = Bad("Queue name required.")
_BAD_EXPIRATION = Bad("Error parsing expiration time.")
_BAD_TIMEOUT = Bad("Error parsing timeout.")


def _text(word: bytes) -> str:
    return word.decode("latin-1")


def _parse_put(arguments: Arguments) -> Request:
    if not arguments:
        return _NO_QUEUE
    if len(arguments) < 2:
        return Put(_text(arguments[0]), None)
    lifetime_ms = parse_number(arguments[1])
    return _BAD_EXPIRATION if lifetime_ms is None else Put(_text(arguments[0]), lifetime_ms)


def _fetch(make: Callable[[str, int | None], Get | Peek]) -> Callable[[Arguments], Request]:
    def parse(arguments: Arguments) -> Request:
        if not arguments:
            return _NO_QUEUE
        if len(arguments) < 2:
            return make(_text(arguments[0]), None)
        timeout_ms = parse_number(arguments[1])
        return _BAD_TIMEOUT if timeout_ms is None else make(_text(arguments[0]), max(0, timeout_ms))

    return parse


def _parse_monitor(arguments: Arguments) -> Request:
    if len(arguments) < 2:
        return Bad("Queue name & timeout required.")
    timeout_ms = parse_number(arguments[1])
    if timeout_ms is None:
        return Bad("Error parsing timeout.", closes=True)
    return Monitor(_text(arguments[0]), max(0, timeout_ms))


def _parse_confirm(arguments: Arguments) -> Request:
    if len(arguments) < 2:
        return Bad("Queue name & count required.")
    count = parse_number(arguments[1])
    if count is None:
        return Bad("Error parsing count.", closes=True)
    return Confirm(_text(arguments[0]), max(0, count))


def _parse_flush(arguments: Arguments) -> Request:
    return Flush(_text(arguments[0])) if arguments else _NO_QUEUE


def _parse_delete(arguments: Arguments) -> Request:
    return Delete(_text(arguments[0]), noreply=False) if arguments else _NO_QUEUE


def _parse_status(arguments: Arguments) -> Request:
    return Status(_text(arguments[0]) if arguments else None)


def _bare(request: Request) -> Callable[[Arguments], Request]:
    """A command whose arguments, if there are any, mean nothing."""
    return lambda arguments: request


_COMMANDS: Mapping[bytes, Callable[[Arguments], Request]] = {
    b"put": _parse_put,
    b"get": _fetch(Get),
    b"peek": _fetch(Peek),
    b"monitor": _parse_monitor,
    b"confirm": _parse_confirm,
    b"flush": _parse_flush,
    b"delete": _parse_delete,
    b"status": _parse_status,
    b"quit": _bare(Quit()),
    b"shutdown": _bare(Shutdown()),
    b"version": _bare(Version()),
}


def parse_line(line: bytes) -> Request:
    command, *arguments = line.rstrip(b" ").split(b" ")
    parse = _COMMANDS.get(command.lower())
    return Bad(f"Unknown command: {_text(command.lower())}") if parse is None else parse(arguments)
