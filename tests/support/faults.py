"""The gate that every call of a fault disk goes through: numbered, announced, failed on demand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from barbicel.errors import DiskError
from tests.support.tree import os_error

__all__ = ["Call", "Fault", "Gate", "Observer", "Operation", "PowerCut", "naming"]

# As a DiskError names it, but for "create", which a DiskError calls "open".
Operation: TypeAlias = Literal[
    "create",
    "write",
    "preallocate",
    "truncate",
    "fdatasync",
    "rename",
    "unlink",
    "mkdir",
    "rmdir",
    "fsync",
    "lock",
    "open",
    "read",
    "stat",
    "list",
    "map",
    "close",
]

# Numbered and announced only on request: a crash at a read finds what one at the next write finds.
READS: frozenset[Operation] = frozenset(("open", "read", "stat", "list", "map", "close"))


class PowerCut(BaseException):
    """An observer raises this to stop the program at a call. No `except Exception` hides it."""


class Call(NamedTuple):
    """A call that is about to happen."""

    number: int
    operation: Operation
    path: str
    data: bytes  # of a "write"
    size: int  # that a "preallocate" or "truncate" asks for
    target: str  # of a "rename"


Observer: TypeAlias = Callable[[Call], None]


@dataclass
class Fault:
    """A rule that lets calls fail. See `Gate.fail`."""

    operation: Operation
    error: int
    path_contains: str
    after: int
    partial: int
    times: int

    def strikes(self, call: Call) -> bool:
        """Count a matching call, and tell whether it fails."""
        if not self._matches(call) or self.times == 0:
            return False
        if self.after > 0:
            self.after -= 1
            return False
        self.times -= 1
        return True

    def _matches(self, call: Call) -> bool:
        wanted = self.operation == call.operation or (self.operation == "open" and call.operation == "create")
        return wanted and (self.path_contains in call.path or self.path_contains in call.target)


class Gate:
    """A test may set every public attribute at any time."""

    def __init__(self) -> None:
        self.calls = 0
        self.observer: Observer | None = None
        self.observe_reads = False
        self._faults: list[Fault] = []
        # Around the state, never around an observer, which may crash or read the disk itself.
        self._mutex = threading.Lock()

    def fail(
        self,
        operation: Operation,
        error: int,
        *,
        path_contains: str = "",
        after: int = 0,
        partial: int = 0,
        times: int = 1,
    ) -> None:
        """Let matching calls fail with an errno, `times` of them, once `after` of them went well.

        "open" also means "create", and a rename matches by either path. A failing "write" writes
        `partial` bytes first. A failing "fdatasync" leaves the bytes readable and clean, as Linux
        does: they become durable only if they are written and synced again.
        """
        self._faults.append(Fault(operation, error, path_contains, after, partial, times))

    @contextmanager
    def passing(
        self,
        operation: Operation,
        path: str,
        *,
        data: bytes = b"",
        size: int = 0,
        target: str = "",
        damage: Callable[[Fault], None] | None = None,
    ) -> Iterator[None]:
        """Announce a call, then let its body run alone. `damage` is what an injected error does."""
        numbered = operation not in READS or self.observe_reads
        if numbered:
            self.calls += 1
        call = Call(self.calls, operation, path, data, size, target)
        if numbered and self.observer is not None:
            self.observer(call)
        # Not `with naming(...)`: reads are many, and a second context doubles what they cost.
        try:
            with self._mutex:
                if self._faults:
                    self._strike(call, damage)
                yield
        except OSError as cause:
            raise DiskError(_error_name(call), path, cause) from cause

    def _strike(self, call: Call, damage: Callable[[Fault], None] | None) -> None:
        # Every rule has to see the call, to count it.
        struck = [fault for fault in self._faults if fault.strikes(call)]
        if struck:
            if damage is not None:
                damage(struck[0])
            raise os_error(struck[0].error)


def _error_name(call: Call) -> str:
    if call.operation == "rename":
        return f"rename to {call.target}"
    return "open" if call.operation == "create" else call.operation


@contextmanager
def naming(operation: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as cause:
        raise DiskError(operation, path, cause) from cause
