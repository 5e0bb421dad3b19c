"""Quotas: how much a client may send, receive and keep busy, and how long it waits when that was too much.

As in Kafka (KIP-13, KIP-55, KIP-124): the most specific quota of a user, a client id or both counts; what is
measured is the rate over some windows of time; whoever is above it waits until it would be below. No I/O.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import NamedTuple

from barbicel.codecs.access_file import Entity, Quotas

__all__ = ["CLIENT_ID", "CONSUMED", "KEYS", "PRODUCED", "REQUESTS", "USER", "QuotaBook", "entity_of"]

PRODUCED, CONSUMED, REQUESTS = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
KEYS = (PRODUCED, CONSUMED, REQUESTS)
USER, CLIENT_ID = "user", "client-id"
# The name that stands for everybody who has no quota of its own.
DEFAULT = None
MAX_METERS = 10_000


def entity_of(**names: str | None) -> Entity:
    """entity_of(user="alice", client_id=None): alice's, with whatever client id."""
    return tuple(sorted(((kind.replace("_", "-"), name) for kind, name in names.items()), key=_kind))


def _kind(part: tuple[str, str | None]) -> str:
    return part[0]


class Applied(NamedTuple):
    """A quota, and who shares it."""

    limit: float
    shared_by: Entity


class QuotaBook:
    """Who may do how much, and what was done. One thread only."""

    def __init__(self, quotas: Quotas, window_ms: int, windows: int) -> None:
        self._window_ms = window_ms
        self._windows = windows
        self._meters: OrderedDict[tuple[str, Entity], _Meter] = OrderedDict()
        self.replace(quotas)

    def replace(self, quotas: Quotas) -> None:
        """These hold from now on, and no others."""
        self.quotas = quotas

    def throttle_ms(self, key: str, user: str, client_id: str, amount: float, now_ms: int) -> int:
        """Count it, and say how long the client has to wait for that."""
        applied = self._applied(key, user, client_id)
        if applied is None:
            return 0
        meter = self._meter(key, applied.shared_by)
        return meter.record(amount, applied.limit, now_ms)

    def _applied(self, key: str, user: str, client_id: str) -> Applied | None:
        for entity, shared_by in _candidates(user, client_id):
            limits = self.quotas.get(entity)
            if limits is not None and key in limits:
                return Applied(limits[key], shared_by)
        return None

    def _meter(self, key: str, shared_by: Entity) -> _Meter:
        meter = self._meters.get((key, shared_by))
        if meter is None:
            meter = self._meters[key, shared_by] = _Meter(self._window_ms, self._windows)
            if len(self._meters) > MAX_METERS:
                self._meters.popitem(last=False)
        self._meters.move_to_end((key, shared_by))
        return meter


def _candidates(user: str, client_id: str) -> Iterator[tuple[Entity, Entity]]:
    """Whose quota counts, the first that there is; and who shares it."""
    both = entity_of(user=user, client_id=client_id)
    yield both, both
    yield entity_of(user=user, client_id=DEFAULT), both
    yield entity_of(user=user), entity_of(user=user)
    yield entity_of(user=DEFAULT, client_id=client_id), both
    yield entity_of(user=DEFAULT, client_id=DEFAULT), both
    yield entity_of(user=DEFAULT), entity_of(user=user)
    yield entity_of(client_id=client_id), entity_of(client_id=client_id)
    yield entity_of(client_id=DEFAULT), entity_of(client_id=client_id)


class _Meter:
    """What was done in the last windows."""

    __slots__ = ("_begun", "_total", "_window_ms", "_windows")

    def __init__(self, window_ms: int, windows: int) -> None:
        self._window_ms = window_ms
        self._windows = windows
        # (number of the window, what was done in it), the oldest first.
        self._begun: deque[list[float]] = deque()
        self._total = 0.0

    def record(self, amount: float, limit_a_second: float, now_ms: int) -> int:
        """How many ms to wait until the rate is at the limit; never longer than all windows."""
        self._forget(now_ms)
        window = now_ms // self._window_ms
        if not self._begun or self._begun[-1][0] != window:
            self._begun.append([window, 0.0])
        self._begun[-1][1] += amount
        self._total += amount
        # Windows that were never seen count as empty ones, so that a beginner may send at once.
        elapsed_ms = (self._windows - 1) * self._window_ms + now_ms % self._window_ms
        allowed = limit_a_second * elapsed_ms / 1000
        if self._total <= allowed:
            return 0
        # Of a tiny limit this is too much for a whole number.
        over_ms = min((self._total - allowed) / limit_a_second * 1000, self._windows * self._window_ms)
        return max(1, round(over_ms))

    def _forget(self, now_ms: int) -> None:
        newest = now_ms // self._window_ms
        if self._begun and self._begun[-1][0] > newest:
            # The clock was set back: what was counted then would stay until it is that late again.
            self._begun.clear()
            self._total = 0.0
        while self._begun and self._begun[0][0] <= newest - self._windows:
            self._total -= self._begun.popleft()[1]
        if not self._begun:
            self._total = 0.0  # what rounding has left
