"""What groups have consumed: Stroma's groups for the broker, written in turns by one thread.

Commits that arrive while a turn is being written are the next turn: one write a group, and one hand-over
back into the reactor for all of them. Which group has positions in which partitions is kept in memory, so
that nobody has to look through the directory; the positions themselves are in Stroma's files.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from twisted.internet.defer import Deferred

from barbicel.clock import Clock
from barbicel.codecs.stroma_events import Commit
from barbicel.disk import Disk
from barbicel.errors import BarbicelError
from barbicel.gateway.twisted_types import Reactor
from barbicel.stroma import Flusher, GroupKey, GroupStore

__all__ = ["Committed", "GroupOffsets", "Place", "Position"]

_log = logging.getLogger(__name__)

# (topic, partition)
Place: TypeAlias = tuple[str, int]
T = TypeVar("T")


class Position(NamedTuple):
    """Where a group is to go on in a partition."""

    place: Place
    offset: int
    leader_epoch: int | None
    metadata: str | None


class Committed(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str | None


# What became of each partition of a request; None is success.
Outcomes: TypeAlias = dict[Place, BarbicelError | None]


class _Job(NamedTuple):
    """Work for the thread. A commit records events and is answered after the turn's write."""

    run: Callable[[], Any]
    answer: Deferred[Any]
    # For commits: the groups whose write the answer waits for.
    keys: tuple[GroupKey, ...] = ()


class _Failed(NamedTuple):
    error: Exception


class GroupOffsets:
    """Committed offsets. Methods that return a Deferred are for the reactor's thread."""

    def __init__(self, disk: Disk, path: str, reactor: Reactor, clock: Clock) -> None:
        self._reactor = reactor
        self.store = GroupStore.open(path, disk=disk, clock=clock)
        self._flusher = Flusher(self.store)
        self._places: dict[str, set[Place]] = {}
        for key in self.store.groups():
            self._places.setdefault(key.group, set()).add((key.topic, key.partition))
        self._wakes = threading.Condition()
        self._jobs: deque[_Job] = deque()
        self._is_closing = False
        self._thread = threading.Thread(target=self._work, name="group-offsets", daemon=True)
        self._thread.start()

    # --- for whoever opens and deletes logs: any thread ---------------------------------------------

    def log_opened(self, topic: str, partition: int, end_offset: int) -> None:
        """After a crash: a group that had consumed beyond the log's end goes back to it."""
        for key in self.store.clamp(topic, partition, end_offset):
            _log.warning(
                "group %s had consumed beyond the end of %s-%d, and was set back", key.group, topic, partition
            )

    def topic_deleted(self, topic: str) -> None:
        for group in list(self._places):
            for place in [place for place in self._places.get(group, ()) if place[0] == topic]:
                self._delete(group, place)

    # --- for protocols ------------------------------------------------------------------------------

    def groups(self) -> list[str]:
        """Every group that has a position somewhere."""
        return sorted(self._places)

    def places(self, group: str) -> list[Place]:
        return sorted(self._places.get(group, ()))

    def commit(self, group: str, positions: Sequence[Position]) -> Deferred[Outcomes]:
        """Answered when they are written; synced within 100 ms."""
        keys = tuple(GroupKey(*position.place, group) for position in positions)

        def run() -> Outcomes:
            outcomes: Outcomes = {}
            for key, position in zip(keys, positions, strict=True):
                metadata = None if position.metadata is None else position.metadata.encode()
                try:
                    self.store.record(key, [Commit(position.offset, position.leader_epoch, metadata)])
                    self._places.setdefault(group, set()).add(position.place)
                    outcomes[position.place] = None
                except (BarbicelError, ValueError) as error:
                    outcomes[position.place] = _as_error(error)
            return outcomes

        return self._submit(run, keys)

    def fetch(
        self, group: str, places: Iterable[Place] | None
    ) -> Deferred[dict[Place, Committed | BarbicelError]]:
        """The positions that were committed, of these partitions or of all; others are left out."""

        def run() -> dict[Place, Committed | BarbicelError]:
            known = self._places.get(group, set())
            wanted = sorted(known) if places is None else [place for place in places if place in known]
            found: dict[Place, Committed | BarbicelError] = {}
            for place in wanted:
                try:
                    state = self.store.state(GroupKey(*place, group))
                except BarbicelError as error:
                    found[place] = error
                    continue
                if state.is_committed:
                    metadata = None if state.metadata is None else state.metadata.decode("utf-8", "replace")
                    epoch = -1 if state.leader_epoch is None else state.leader_epoch
                    found[place] = Committed(state.acked_until, epoch, metadata)
            return found

        return self._submit(run)

    def delete(self, group: str, places: Iterable[Place] | None = None) -> Deferred[None]:
        """Forget the positions, durably: those in these partitions or all."""

        def run() -> None:
            for place in list(self._places.get(group, ())) if places is None else places:
                self._delete(group, place)

        return self._submit(run)

    def _delete(self, group: str, place: Place) -> None:
        self.store.delete(GroupKey(*place, group))
        known = self._places.get(group, set())
        known.discard(place)
        if not known:
            self._places.pop(group, None)

    # --- the thread ---------------------------------------------------------------------------------

    def _submit(self, run: Callable[[], T], keys: tuple[GroupKey, ...] = ()) -> Deferred[T]:
        answer: Deferred[T] = Deferred()
        with self._wakes:
            self._jobs.append(_Job(run, answer, keys))
            self._wakes.notify()
        return answer

    def _work(self) -> None:
        while jobs := self._take():
            results = [self._run(job) for job in jobs]
            errors = self._write() if any(job.keys for job in jobs) else {}
            for job, result in zip(jobs, results, strict=True):
                for key in job.keys:
                    if key in errors and isinstance(result, dict):
                        result[key.topic, key.partition] = errors[key]
            self._reactor.callFromThread(_answer, jobs, results)

    def _take(self) -> list[_Job]:
        with self._wakes:
            while not self._jobs and not self._is_closing:
                self._wakes.wait()
            jobs = list(self._jobs)
            self._jobs.clear()
            return jobs

    def _run(self, job: _Job) -> Any:
        try:
            return job.run()
        except Exception as error:
            return _Failed(error)

    def _write(self) -> dict[GroupKey, BarbicelError]:
        errors = self.store.commit()
        for error in errors.values():
            _log.error("%s", error)
        return errors

    def close(self) -> None:
        """Write and sync everything. Waits for the disk."""
        with self._wakes:
            self._is_closing = True
            self._wakes.notify()
        self._thread.join()
        self._flusher.close()
        self.store.close()


def _answer(jobs: list[_Job], results: list[Any]) -> None:
    for job, result in zip(jobs, results, strict=True):
        if isinstance(result, _Failed):
            job.answer.errback(result.error)
        else:
            job.answer.callback(result)


def _as_error(error: BarbicelError | ValueError) -> BarbicelError:
    return error if isinstance(error, BarbicelError) else BarbicelError(str(error))
