"""A client under test: a thread of its own, stopped by an event, whose end by an error is an anomaly."""

from __future__ import annotations

from abc import abstractmethod
from threading import Event, Thread
from typing import NamedTuple

from tests.chaos.history import History

__all__ = ["ClientThread", "Target"]


class Target(NamedTuple):
    """What all clients work on."""

    topic: str
    bootstrap: str
    partitions: int


class ClientThread(Thread):
    """`work` goes on until `stopping` is set."""

    def __init__(self, name: str, target: Target, history: History) -> None:
        super().__init__(name=name, daemon=True)
        self.target = target
        self.history = history
        self.stopping = Event()

    @abstractmethod
    def work(self) -> None: ...

    @property
    @abstractmethod
    def has_worked(self) -> bool:
        """Whether the gateway has done for it what it is for."""

    def stop(self) -> None:
        self.stopping.set()

    def run(self) -> None:
        try:
            self.work()
        except Exception as error:
            self.history.note_end(self.name, error)
