"""A partition whose log could not be opened: it is there, and refuses everything until a restart.

To whoever asks, its log begins at 0 and never ends: it may have every offset, none can be read, and no
consumer is sent elsewhere. Groups keep their positions in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, cast

from barbicel.clock import Clock
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.record_batch import Batch
from barbicel.codecs.topic_file import Topic
from barbicel.disk import Disk
from barbicel.errors import LogStopped
from barbicel.gateway.broker.partition import Appends, Partition, Produced, ProduceDone, Waiter
from barbicel.gateway.broker.producer_file import ProducerFile
from barbicel.gateway.broker.producers import ProducerStates
from barbicel.gateway.broker.tail import TailBudget
from barbicel.gateway.broker.topic_settings import TopicValues
from barbicel.keratin import Log

__all__ = ["OfflinePartition"]

NO_END = (1 << 63) - 1


class OfflineLog:
    """Where a log would be. What it does not have here it refuses to do."""

    start_offset = 0
    end_offset = NO_END
    is_writable = False
    failures = 0
    size_bytes = 0
    segments = ()

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self._reason = reason

    def refuse(self, *_: object, **__: object) -> NoReturn:
        raise LogStopped(f"offline since the start: {self._reason}")

    def __getattr__(self, name: str) -> Callable[..., NoReturn]:
        return self.refuse

    def resize(self, *_: object) -> None: ...

    def close(self) -> None: ...


class _NobodyWaits(set[Waiter]):
    """Nothing ever comes, so whoever wants to wait for it is told."""

    def __init__(self, log: OfflineLog) -> None:
        super().__init__()
        self._log = log

    def add(self, _: Waiter) -> None:
        self._log.refuse()


class OfflinePartition(Partition):
    """Made by Topics, at a start."""

    def __init__(
        self,
        topic: Topic,
        number: int,
        values: TopicValues,
        disk: Disk,
        path: str,
        reason: str,
        clock: Clock,
    ) -> None:
        log: Any = OfflineLog(path, reason)
        super().__init__(
            topic,
            number,
            cast(Log, log),
            ProducerStates(),
            ProducerFile(disk, path),
            values,
            TailBudget(0),
            0,
            clock,
            set(),
        )
        self.is_offline = True
        self.waiters = _NobodyWaits(log)
        self._reason = reason

    def produce(self, batch: Batch, appends: Appends, done: ProduceDone) -> None:
        done(Produced(ErrorCode.KAFKA_STORAGE_ERROR, message=f"offline since the start: {self._reason}"))
