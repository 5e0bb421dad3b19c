"""What groups have consumed: Stroma's groups for the broker, written in turns by one thread.

Commits that arrive while a turn is being written are the next turn: one write a group, and one hand-over
back into the reactor for all of them. Which group has positions in which partitions is kept in memory, so
that nobody has to look through the directory; the positions themselves are in Stroma's files.

Whatever changes positions is done in the order in which it was asked for. So the commits of a deleted topic
that are still on their way are deleted with it, and the next topic of that name starts without them. All
positions in a topic are many, so they go a few in a turn, and others' commits in between: nobody commits for
a topic any more that is being deleted, and its name is free only when the last one is gone. Those of a group
that is deleted may be as many, and go the same way: what is asked of that group meanwhile waits.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

from twisted.internet.defer import Deferred, fail

from barbicel.clock import Clock
from barbicel.codecs.stroma_events import Commit
from barbicel.disk import Disk
from barbicel.errors import BarbicelError, CorruptGroup, LogClosed
from barbicel.gateway.twisted_types import Reactor
from barbicel.kestrel_compat.names import is_reserved_group
from barbicel.stroma import Flusher, GroupKey, GroupStore, StoreSettings

__all__ = ["Committed", "Errors", "GroupOffsets", "Outcomes", "Place", "Position"]

_log = logging.getLogger(__name__)

# Positions that share the syncs of their deletion, and of a topic or a group those that go in one turn.
DELETED_AT_ONCE = 100
DELETED_IN_A_TURN = 50
# The reactor's thread answers those of one turn in one go.
JOBS_IN_A_TURN = 500
# Groups that a crash has set back and that the log names.
MAX_NAMED = 20

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


Errors: TypeAlias = dict[GroupKey, BarbicelError]


class _Job(NamedTuple):
    """Work for the thread, answered after its turn's write.

    `settle` makes the answer out of what `run` returned and of what could not be written.
    """

    run: Callable[[], Any]
    settle: Callable[[Any, Errors], Any]
    answer: Deferred[Any] | Future[Any]


class _Failed(NamedTuple):
    error: Exception


class GroupOffsets:
    """Committed offsets. Methods that return a Deferred are for the reactor's thread."""

    def __init__(
        self, disk: Disk, path: str, reactor: Reactor, clock: Clock, settings: StoreSettings | None = None
    ) -> None:
        """Waits for the disk. Raises BarbicelError."""
        self._reactor = reactor
        self.store = GroupStore.open(path, disk=disk, clock=clock, settings=settings)
        self._places: dict[str, set[Place]] = {}
        # Only the thread changes the places; the lock is for those who look.
        self._places_lock = threading.Lock()
        # The same the other way round.
        self._groups_of: dict[Place, set[str]] = {}
        for key in self.store.groups():
            self.remember(key.group, (key.topic, key.partition))
        # Whoever was set back and is not told of yet: the groups with their partitions.
        self._set_back: dict[str, list[str]] = {}
        self._told: set[str] = set()
        # Groups whose positions are being deleted, and who waits for that. For the reactor's thread.
        self._deleting: dict[str, list[Deferred[None]]] = {}
        self._wakes = threading.Condition()
        self._jobs: deque[_Job] = deque()
        self._is_closing = False
        self._flusher = Flusher(self.store)
        self._thread = threading.Thread(target=self._work, name="group-offsets", daemon=True)
        self._thread.start()

    # --- for whoever opens and deletes logs: any thread but the reactor's ---------------------------

    def log_opened(self, topic: str, partition: int, end_offset: int) -> None:
        """After a crash: a group that had consumed beyond the log's end goes back to it."""
        clamped = self.store.clamp(topic, partition, end_offset, self.groups_of((topic, partition)))
        with self._places_lock:
            for key in clamped:
                self._set_back.setdefault(key.group, []).append(f"{topic}-{partition}")

    def tell_set_back(self) -> None:
        """Behind the opening of many logs: a crash may have shortened each, for each of its groups."""
        with self._places_lock:
            set_back, self._set_back = self._set_back, {}
        for group in sorted(set_back)[:MAX_NAMED]:
            first, *others = sorted(set_back[group])
            of = f"{first} and of {len(others)} more partitions" if others else first
            _log.warning("group %s had consumed beyond the end of %s, and was set back", group, of)
        if len(set_back) > MAX_NAMED:
            _log.warning(
                "%d more groups had consumed beyond the ends of logs, and were set back",
                len(set_back) - MAX_NAMED,
            )

    def positions_in(self, topic: str, partition: int) -> dict[str, int]:
        """How far each group has come in a partition, as far as that can be read."""
        positions: dict[str, int] = {}
        for group in self.groups_of((topic, partition)):
            with suppress(BarbicelError):
                positions[group] = self.store.state(GroupKey(topic, partition, group)).acked_until
        return positions

    def topic_deleted(self, topic: str) -> None:
        """On return no group has a position in it, durably. Raises the first error, after the rest."""
        positions = self._wait_for(partial(self._positions_in, topic))
        errors: list[BarbicelError] = []
        for first in range(0, len(positions), DELETED_IN_A_TURN):
            few = positions[first : first + DELETED_IN_A_TURN]
            errors += self._wait_for(partial(self._delete, few)).values()
        for error in errors:
            raise error

    def _wait_for(self, run: Callable[[], T]) -> T:
        """What `run` returns in the thread, behind all that was asked for before."""
        done: Future[T] = Future()
        self._put(_Job(run, _as_it_is, done))
        return done.result()

    def _positions_in(self, topic: str) -> list[GroupKey]:
        with self._places_lock:
            return sorted(
                GroupKey(*place, group)
                for place, groups in self._groups_of.items()
                if place[0] == topic
                for group in groups
            )

    # --- for protocols ------------------------------------------------------------------------------

    def groups(self) -> list[str]:
        """Every group that has a position somewhere."""
        with self._places_lock:
            return sorted(self._places)

    def places(self, group: str) -> list[Place]:
        """The partitions in which a group has a position."""
        with self._places_lock:
            return sorted(self._places.get(group, ()))

    def commit(self, group: str, positions: Sequence[Position]) -> Deferred[Outcomes]:
        """Answered when they are written; synced within 100 ms."""
        return self._change(group, lambda: {at.place: self._record(group, at) for at in positions})

    def fetch(
        self, group: str, places: Iterable[Place] | None
    ) -> Deferred[dict[Place, Committed | BarbicelError]]:
        """The positions that were committed, of these partitions or of all; others are left out."""

        def run() -> dict[Place, Committed | BarbicelError]:
            found = {place: self._read(GroupKey(*place, group)) for place in self._known(group, places)}
            return {place: position for place, position in found.items() if position is not None}

        return self._change(group, run)

    def delete(self, group: str, places: Iterable[Place] | None = None) -> Deferred[Outcomes]:
        """Forget the positions, durably: those in these partitions or all. What there is not, is left out."""
        return self._after_deletion(
            group, lambda: Deferred.fromCoroutine(self._delete_by_turns(group, places))
        )

    async def _delete_by_turns(self, group: str, places: Iterable[Place] | None) -> Outcomes:
        waiting = self._deleting[group] = []
        outcomes: Outcomes = {}
        try:
            known = await self.submit(partial(self._known, group, places), _as_it_is)
            for first in range(0, len(known), DELETED_IN_A_TURN):
                few = known[first : first + DELETED_IN_A_TURN]
                outcomes |= await self._submit_change(group, partial(self._delete_places, group, few))
        finally:
            del self._deleting[group]
            for turn in waiting:
                turn.callback(None)
        return outcomes

    def _after_deletion(self, group: str, change: Callable[[], Deferred[T]]) -> Deferred[T]:
        waiting = self._deleting.get(group)
        if waiting is None:
            return change()
        turn: Deferred[None] = Deferred()
        waiting.append(turn)
        return turn.addCallback(lambda _: self._after_deletion(group, change))

    def submit(self, run: Callable[[], T], settle: Callable[[T, Errors], T]) -> Deferred[T]:
        """Call `run` in the thread. It may record events in `store`: they are written before `settle`, which
        is given those that could not be, and makes the answer."""
        answer: Deferred[T] = Deferred()
        try:
            self._put(_Job(run, settle, answer))
        except LogClosed as error:
            return fail(error)
        return answer

    def reserved_places(self) -> list[tuple[str, str, int]]:
        """(group, topic, partition) of every queue's readers."""
        with self._places_lock:
            return [
                (group, *place)
                for group, places in self._places.items()
                if is_reserved_group(group)
                for place in places
            ]

    @property
    def damaged_groups(self) -> int:
        """How many were found since the start."""
        return len(self._told)

    def groups_of(self, place: Place) -> list[str]:
        """The groups that have a position in a partition."""
        with self._places_lock:
            return sorted(self._groups_of.get(place, ()))

    # --- what jobs do: the thread -------------------------------------------------------------------

    def _record(self, group: str, position: Position) -> BarbicelError | None:
        try:
            metadata = None if position.metadata is None else position.metadata.encode()
            event = Commit(position.offset, position.leader_epoch, metadata)
            self.store.record(GroupKey(*position.place, group), [event])
        except BarbicelError as error:
            self._tell_once(error)
            return error
        except ValueError as error:  # the format cannot hold it
            return BarbicelError(str(error))
        # A write that fails leaves the place here: its files may have come to be, and may hold something.
        self.remember(group, position.place)
        return None

    def _read(self, key: GroupKey) -> Committed | BarbicelError | None:
        try:
            state = self.store.state(key)
        except BarbicelError as error:
            self._tell_once(error)
            return error
        if not state.is_committed and not is_reserved_group(key.group):
            return None  # a queue's position is not committed by anybody, and shown all the same
        metadata = None if state.metadata is None else state.metadata.decode("utf-8", "replace")
        return Committed(
            state.acked_until, -1 if state.leader_epoch is None else state.leader_epoch, metadata
        )

    def _tell_once(self, error: BarbicelError) -> None:
        """A damaged group's consumers ask again and again; to tell the operator once is enough."""
        if isinstance(error, CorruptGroup) and str(error) not in self._told:
            self._told.add(str(error))
            _log.error("%s; its consumers wait until it is mended: see 'barbicel group repair'", error)

    def _known(self, group: str, places: Iterable[Place] | None) -> list[Place]:
        """Where the group has positions, of these partitions or of all."""
        known = self.places(group)
        return known if places is None else sorted(set(places).intersection(known))

    def _delete_places(self, group: str, places: Sequence[Place]) -> Outcomes:
        errors = self._delete([GroupKey(*place, group) for place in places])
        return {place: errors.get(GroupKey(*place, group)) for place in places}

    def _delete(self, keys: Sequence[GroupKey]) -> Errors:
        """Forget them, durably, but for those that are returned."""
        errors: Errors = {}
        for first in range(0, len(keys), DELETED_AT_ONCE):
            errors |= self.store.delete_all(keys[first : first + DELETED_AT_ONCE])
        for key in keys:
            if key not in errors:
                self.forget(key.group, key[:2])
        return errors

    def remember(self, group: str, place: Place) -> None:
        with self._places_lock:
            self._places.setdefault(group, set()).add(place)
            self._groups_of.setdefault(place, set()).add(group)

    def forget(self, group: str, place: Place) -> None:
        with self._places_lock:
            groups, known = self._groups_of.get(place, set()), self._places.get(group, set())
            groups.discard(group)
            known.discard(place)
            if not groups:
                self._groups_of.pop(place, None)
            if not known:
                self._places.pop(group, None)

    # --- the turns ----------------------------------------------------------------------------------

    def _change(self, group: str, run: Callable[[], dict[Place, Any]]) -> Deferred[dict[Place, Any]]:
        return self._after_deletion(group, lambda: self._submit_change(group, run))

    def _submit_change(self, group: str, run: Callable[[], dict[Place, Any]]) -> Deferred[dict[Place, Any]]:
        """What could not be written stands in place of what would have been, for fetches too: they have seen
        what was recorded."""

        def settle(outcomes: dict[Place, Any], errors: Errors) -> dict[Place, Any]:
            failed = {key[:2]: error for key, error in errors.items() if key.group == group}
            return {place: failed.get(place, outcome) for place, outcome in outcomes.items()}

        return self.submit(run, settle)

    def _put(self, job: _Job) -> None:
        with self._wakes:
            if self._is_closing:
                raise LogClosed("the offsets of groups were closed")
            self._jobs.append(job)
            self._wakes.notify()

    def _work(self) -> None:
        while jobs := self._take():
            results = self._write(jobs, [_run(job.run) for job in jobs])
            deferred: list[tuple[Deferred[Any], Any]] = []
            for job, result in zip(jobs, results, strict=True):
                if isinstance(job.answer, Future):
                    _settle(job.answer, result)
                else:
                    deferred.append((job.answer, result))
            self._reactor.callFromThread(_answer_all, deferred)

    def _take(self) -> list[_Job]:
        with self._wakes:
            while not self._jobs and not self._is_closing:
                self._wakes.wait()
            return [self._jobs.popleft() for _ in range(min(len(self._jobs), JOBS_IN_A_TURN))]

    def _write(self, jobs: list[_Job], results: list[Any]) -> list[Any]:
        errors = _run(self.store.commit)
        if isinstance(errors, _Failed):
            return [errors] * len(jobs)
        for error in errors.values():
            _log.error("%s", error)
        return [
            result if isinstance(result, _Failed) else _run(partial(job.settle, result, errors))
            for job, result in zip(jobs, results, strict=True)
        ]

    def close(self) -> None:
        """Write and sync everything. Waits for the disk. Raises the first error, after the rest."""
        with self._wakes:
            self._is_closing = True
            self._wakes.notify()
        self._thread.join()
        self._flusher.close()
        self.store.close()


def _run(function: Callable[[], Any]) -> Any:
    """No error ends the thread: everybody behind it would wait forever."""
    try:
        return function()
    except Exception as error:
        return _Failed(error)


def _as_it_is(result: T, errors: Errors) -> T:
    return result


def _settle(answer: Future[Any], result: Any) -> None:
    if isinstance(result, _Failed):
        answer.set_exception(result.error)
    else:
        answer.set_result(result)


def _answer_all(answers: list[tuple[Deferred[Any], Any]]) -> None:
    for answer, result in answers:
        if isinstance(result, _Failed):
            answer.errback(result.error)
        else:
            answer.callback(result)
