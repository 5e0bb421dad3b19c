"""A cache of what takes long to load, bounded in bytes; the longest unused goes first. Any thread may use it.

The invariant: of any number of threads that want one key, one loads and the others wait for what it gets, its
error too. An error is never kept, so the next who asks tries again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["ByteCache"]

V = TypeVar("V")


class _Flight(Generic[V]):
    """A load that is under way, and how it ended."""

    __slots__ = ("done", "error", "is_dropped", "value")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.value: V
        self.error: BaseException | None = None
        self.is_dropped = False

    def result(self) -> V:
        self.done.wait()
        if self.error is not None:
            raise self.error
        return self.value


class ByteCache(Generic[V]):
    """`size_of` says what a value counts for; one that is not kept goes only to those who wait for it."""

    def __init__(
        self, max_bytes: int, size_of: Callable[[V], int], *, is_kept: Callable[[V], bool] = lambda _: True
    ) -> None:
        self.max_bytes = max_bytes
        self.held_bytes = 0
        # Answered from memory; loaded; waited for another's load; loads that failed; thrown out for room.
        self.hits = self.misses = self.joins = self.failures = self.evictions = 0
        self._size_of = size_of
        self._is_kept = is_kept
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()
        self._flights: dict[Hashable, _Flight[V]] = {}

    def get(self, key: Hashable, load: Callable[[], V]) -> V:
        """The value of the key, loaded if it is not here. Raises what `load` raises."""
        with self._lock:
            found = self._values.get(key)
            if found is not None:
                self._values.move_to_end(key)
                self.hits += 1
                return found[0]
            flight = self._flights.get(key)
            if flight is not None:
                self.joins += 1
            else:
                self.misses += 1
                mine = self._flights[key] = _Flight[V]()
        return flight.result() if flight is not None else self._fly(key, mine, load)

    def _fly(self, key: Hashable, flight: _Flight[V], load: Callable[[], V]) -> V:
        try:
            flight.value = load()
        except BaseException as error:
            flight.error = error
            raise
        finally:
            self._land(key, flight)
        return flight.value

    def _land(self, key: Hashable, flight: _Flight[V]) -> None:
        with self._lock:
            del self._flights[key]
            if flight.error is not None:
                self.failures += 1
            elif not flight.is_dropped:
                self._keep(key, flight.value)
        flight.done.set()

    def find(self, key: Hashable) -> V | None:
        """The value if it is here, and then it counts as used."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            self.hits += 1
            return found[0]

    def put(self, key: Hashable, value: V) -> None:
        """Keep a value that was come by without a load."""
        with self._lock:
            self._remove(key)
            self._keep(key, value)

    def peek(self, key: Hashable) -> V | None:
        """The value if it is here; it does not count as used."""
        with self._lock:
            found = self._values.get(key)
        return None if found is None else found[0]

    def is_coming(self, key: Hashable) -> bool:
        """Whether the value is here or being loaded."""
        with self._lock:
            return key in self._values or key in self._flights

    def drop(self, key: Hashable) -> None:
        """Forget the value; one that is being loaded goes only to those who wait for it."""
        with self._lock:
            self._remove(key)
            if key in self._flights:
                self._flights[key].is_dropped = True

    def _keep(self, key: Hashable, value: V) -> None:
        size = self._size_of(value)
        if size > self.max_bytes or not self._is_kept(value):
            return
        self._values[key] = (value, size)
        self.held_bytes += size
        while self.held_bytes > self.max_bytes:
            _, (_, freed) = self._values.popitem(last=False)
            self.held_bytes -= freed
            self.evictions += 1

    def _remove(self, key: Hashable) -> None:
        found = self._values.pop(key, None)
        if found is not None:
            self.held_bytes -= found[1]
