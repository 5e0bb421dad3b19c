"""What the gateway needs of Twisted's reactor and transports, as types that a type checker can read.

Twisted says it with zope's interfaces, which are no types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["BoundAddress", "BoundPort", "Reactor", "Timer", "Transport"]


class Timer(Protocol):
    def active(self) -> bool: ...

    def cancel(self) -> None: ...


class BoundAddress(Protocol):
    host: str
    port: int


class BoundPort(Protocol):
    def getHost(self) -> BoundAddress: ...

    def stopListening(self) -> Any: ...


class Transport(Protocol):
    """A TCP connection. The two numbers are how much one read and one write may move."""

    bufferSize: int
    SEND_LIMIT: int

    def write(self, data: bytes) -> None: ...

    def getHost(self) -> BoundAddress: ...

    def setTcpNoDelay(self, enabled: bool) -> None: ...

    def registerProducer(self, producer: object, streaming: bool) -> None: ...

    def unregisterProducer(self) -> None: ...

    def pauseProducing(self) -> None: ...

    def resumeProducing(self) -> None: ...

    def loseConnection(self) -> None: ...

    def abortConnection(self) -> None: ...


class Reactor(Protocol):
    def run(self) -> None: ...

    def stop(self) -> None: ...

    def seconds(self) -> float: ...

    def callLater(self, delay: float, function: Callable[[], Any]) -> Timer: ...

    def callInThread(self, function: Callable[[], Any]) -> None: ...

    def callFromThread(self, function: Callable[..., Any], *arguments: Any) -> None: ...

    def callWhenRunning(self, function: Callable[[], Any]) -> Any: ...

    def addSystemEventTrigger(self, phase: str, event: str, function: Callable[[], Any]) -> Any: ...
