"""The load: threads that write with the clients of `writers` until they are told to stop."""

from __future__ import annotations

from itertools import count
from time import monotonic

from tests.chaos.client_thread import ClientThread, Target
from tests.chaos.history import History, Stream, Value
from tests.chaos.writers import MakeWriter, Notes

__all__ = ["WriterThread"]

# All of them together write as much as the slowest consumer can read on a small machine. In bursts, so that
# several batches are on their way at a time.
BURST = 4
PAUSE_S = 0.04
FOR_EVER = float("inf")


class WriterThread(ClientThread):
    """Writes round and round over the partitions; told to stop, it waits for the answers first.

    With a life shorter than for ever a new producer, with a name and an id of its own, follows each one.
    """

    def __init__(
        self, name: str, make: MakeWriter, target: Target, history: History, life_s: float = FOR_EVER
    ) -> None:
        super().__init__(name, target, history)
        self._make = make
        self._life_s = life_s

    @property
    def has_worked(self) -> bool:
        acked = list(self.history.acked.items())
        return any(answers and stream.producer.startswith(self.name) for stream, answers in acked)

    def work(self) -> None:
        names = (self.name if self._life_s == FOR_EVER else f"{self.name}-{number}" for number in count())
        while not self.stopping.is_set():
            self._write(next(names))

    def _write(self, name: str) -> None:
        notes = Notes(self.history)
        writer = self._make(self.target, notes)
        streams = [Stream(name, partition) for partition in range(self.target.partitions)]
        end = monotonic() + self._life_s
        for sequence in count():
            for stream in streams:
                value = Value(stream, sequence)
                notes.sending(value)
                writer.send(value)
            is_pause = sequence % BURST == BURST - 1
            if is_pause and (self.stopping.wait(PAUSE_S) or monotonic() > end):
                break
        writer.finish()
