"""Asking again while a gateway is gone: it may be restarted in the middle of an import.

Only for what can be asked twice. What the gateway does answer, refusals too, is the answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from kafka.errors import (
    Cancelled,
    KafkaConnectionError,
    NodeNotReadyError,
)

from barbicel.gateway.client.connecting import NoServer
from barbicel.gateway.migration.target import TargetGone

__all__ = ["GONE", "RETRY_S", "Patient", "patiently"]

# For how long a gateway that is gone is tried again.
RETRY_S = 30.0
RETRY_PAUSE_S = 0.5
# What kafka-python, sockets and our own connections raise if nobody is there.
GONE = (OSError, NoServer, TargetGone, KafkaConnectionError, NodeNotReadyError, Cancelled)

T = TypeVar("T")


def patiently(ask: Callable[[], T], retry_s: float = RETRY_S, hang_up: Callable[[], None] | None = None) -> T:
    """The answer. Raises what came last if there is none for too long; `hang_up` comes before each try but
    the first."""
    deadline = time.monotonic() + retry_s
    while True:
        try:
            return ask()
        except GONE:
            if hang_up is not None:
                hang_up()
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_PAUSE_S)


class Patient:
    """A client of kafka-python whose methods wait for a gateway that is restarted."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(*arguments: Any, **named: Any) -> Any:
            return patiently(partial(method, *arguments, **named))

        return call

    def close(self, **named: Any) -> None:
        self._client.close(**named)
