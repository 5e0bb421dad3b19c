"""Whether the server is alive, and whether it is ready for all that clients may ask.

Alive is who answers. Not ready is a server that starts or stops, whose disk is full, or that has a log or a
group which takes no writes: each reason is a line of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from barbicel.gateway.admin.exchange import Answer, Asked
from barbicel.gateway.admin.pulse import Pulse
from barbicel.gateway.broker.broker import Broker

__all__ = ["Health"]

_log = logging.getLogger(__name__)

TEXT = "text/plain; charset=utf-8"
# Of a kind of reasons so many are told.
MAX_NAMED = 5


class Health:
    def __init__(self, broker: Broker, pulse: Pulse, min_free_bytes: int) -> None:
        self._broker = broker
        self._pulse = pulse
        self._min_free_bytes = min_free_bytes
        # From the start of serving to its end.
        self.is_serving = False
        self._told: set[str] = set()

    async def live(self, asked: Asked) -> Answer:
        return Answer(200, TEXT, b"ok\n")

    async def ready(self, asked: Asked) -> Answer:
        problems = self.problems()
        if problems:
            return Answer(503, TEXT, "".join(f"{problem}\n" for problem in problems).encode())
        return Answer(200, TEXT, b"ok\n")

    def problems(self) -> list[str]:
        """Why the server is not ready; nothing if it is."""
        return [*self._phase(), *self._disk(), *self._logs(), *self._groups()]

    def tell_changes(self) -> None:
        """Log why the server is not ready, or that it is again; call it every now and then."""
        if not self.is_serving:
            return
        # By what stands before the details: how much of a disk is free changes all the time.
        found = {problem.partition(":")[0]: problem for problem in self.problems()}
        for kind, problem in found.items():
            if kind not in self._told:
                _log.warning("not ready: %s", problem)
        if self._told and not found:
            _log.info("ready again")
        self._told = set(found)

    def _phase(self) -> Iterator[str]:
        if not self.is_serving:
            yield "the server is starting or stopping"

    def _disk(self) -> Iterator[str]:
        space = self._pulse.looked.space
        if space is not None and space.usable_bytes < self._min_free_bytes:
            yield (
                f"the disk is full: {space.usable_bytes} bytes are free, of which"
                f" {self._min_free_bytes} are wanted (admin.min.free.bytes)"
            )

    def _logs(self) -> Iterator[str]:
        stopped = [
            f"{topic.name}-{partition.number}"
            for topic in self._broker.topics
            for partition in topic.partitions
            if not partition.is_writable
        ]
        yield from _named(stopped, "takes no writes")

    def _groups(self) -> Iterator[str]:
        yield from _named(
            self._pulse.looked.failed_groups, "could not be written: what it has consumed may not be kept"
        )


def _named(names: Sequence[str], what: str) -> Iterator[str]:
    yield from (f"{name} {what}" for name in names[:MAX_NAMED])
    if len(names) > MAX_NAMED:
        yield f"{len(names) - MAX_NAMED} more: {what}"
