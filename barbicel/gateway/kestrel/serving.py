"""One request under way, and the place of its answer in the order of a connection.

A request is an object from when it is served until its answer is written, and its methods are what the
queues call back: nothing else is made for it. How a protocol spells an answer is for its subclasses.
"""

from __future__ import annotations

from abc import abstractmethod
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from barbicel.gateway.kestrel.shared import Shared
from barbicel.kestrel_compat.items import Item

if TYPE_CHECKING:
    from barbicel.gateway.kestrel.session import Session

__all__ = ["Awaiting", "Client", "Kind", "Monitoring", "Plan", "Serving"]


class Kind(Enum):
    """Requests of one kind may be under way beside each other; any other waits for their answers."""

    SETS = auto()
    TAKES = auto()
    OPENS = auto()
    CLOSES = auto()
    ALONE = auto()


class Plan(NamedTuple):
    """How a request is served."""

    kind: Kind
    serving: type[Serving]


class Waiting(Protocol):
    """A place in the queue's line of those who wait."""

    def cancel(self) -> None:
        """No item may go there, unless one has already."""


class Client(Protocol):
    """A connection, as its requests see it."""

    shared: Shared
    session: Session

    @property
    def is_reading(self) -> bool:
        """Whether the client takes what it is sent, and all of that is sent."""

    def answered(self, serving: Serving) -> None:
        """`serving.answer` is there."""

    def send_part(self, data: bytes) -> None:
        """For a request that is alone: a part of its answer."""

    def report(self, error: BaseException) -> None:
        """For the log: something could not be done."""


class Serving:
    """See the module. `answer` is None until it is known; it may be empty."""

    __slots__ = ("answer", "client", "is_last")

    # What is held in memory for it, beside a few hundred bytes.
    size_bytes: int = 0
    # Of those that wait for an item.
    waiting: Waiting | None = None

    def __init__(self, client: Client) -> None:
        self.client = client
        self.answer: bytes | None = None
        self.is_last = False

    @staticmethod
    def size_of(request: Any) -> int:
        """How large a request is that was read and is not served yet."""
        return 0

    @abstractmethod
    def serve(self, request: Any) -> None:
        """Begin. Raises what the queues raise."""

    def finish(self, answer: bytes) -> None:
        self.answer = answer
        self.client.answered(self)

    def finish_and_close(self, answer: bytes) -> None:
        """The connection ends with this answer."""
        self.is_last = True
        self.finish(answer)

    # --- what cannot be done ------------------------------------------------------------------------

    @abstractmethod
    def refuse_name(self, error: BaseException) -> None:
        """No queue can have this name."""

    @abstractmethod
    def refuse_for_status(self, operation: str) -> None:
        """The server's status does not allow it."""

    @abstractmethod
    def fail(self, error: BaseException) -> None:
        """It was tried in vain."""

    # --- what happens meanwhile ---------------------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        """Nothing is under way for it but the wait for an item."""
        return self.waiting is not None and self.answer is None

    def lose(self) -> None:
        """Nobody is there any more to take the answer."""
        if self.waiting is not None:
            self.waiting.cancel()

    def evict(self) -> None:
        """The server stops: whoever waits has waited long enough."""

    def resume(self) -> None:
        """What it had to send is sent, and the client may read again."""


class Awaiting(Serving):
    """A request that may wait for an item."""

    __slots__ = ("waiting",)

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.waiting: Waiting | None = None

    @abstractmethod
    def taken(self, result: Item | Exception | None) -> None:
        """For the queues to call: an item, or None if there is none."""

    def evict(self) -> None:
        """It may have got an item already, of which it hears when that is recorded: so that comes first."""
        if self.waiting is not None:
            self.waiting.cancel()
            self.client.shared.queues.settled(self._evicted)

    def _evicted(self, error: Exception | None) -> None:
        if self.answer is None:
            self.taken(error)


class Monitoring(Awaiting):
    """Items as they come, each an open read, until the time is over or there are enough of them.

    A client that does not read gets no more items meanwhile: others may want them.
    """

    __slots__ = ("_ends_at_s", "_is_evicted", "_is_going_on", "_is_taking", "_left", "_queue")

    def start(self, queue: str, seconds: float, max_items: int) -> None:
        shared = self.client.shared
        self._queue = queue
        self._ends_at_s = shared.seconds() + seconds
        self._left = max_items
        self._is_going_on = self._is_taking = self._is_evicted = False
        if shared.status.level.blocks_reads:
            self.refuse_for_status("monitorUntil")
        else:
            self.resume()

    @abstractmethod
    def render_item(self, item: Item) -> bytes: ...

    @abstractmethod
    def render_end(self) -> bytes: ...

    def resume(self) -> None:
        if self._is_going_on:  # an item that came at once: the loop sees it
            return
        self._is_going_on = True
        try:
            while self.answer is None and not self._is_taking and self.client.is_reading:
                self._take_next()
        finally:
            self._is_going_on = False

    def _take_next(self) -> None:
        client, shared = self.client, self.client.shared
        left_ms = int((self._ends_at_s - shared.seconds()) * 1000)
        if left_ms <= 0 or self._is_over():
            self.finish(self.render_end())
            return
        self._is_taking = True
        waiting = shared.queues.take(
            client.session, self._queue, is_open=True, timeout_ms=left_ms, done=self.taken
        )
        self.waiting = waiting if self._is_taking else None

    def _is_over(self) -> bool:
        client, shared = self.client, self.client.shared
        return (
            self._left <= 0
            or self._is_evicted
            or shared.status.level.blocks_reads
            or client.session.open_count(self._queue) >= shared.config.kestrel_max_open_transactions
        )

    def taken(self, result: Item | Exception | None) -> None:
        self._is_taking = False
        self.waiting = None
        if isinstance(result, Exception):
            self.fail(result)
        elif result is None:
            self.client.shared.counters.get_misses += 1
            self.finish(self.render_end())
        else:
            self.client.shared.counters.get_hits += 1
            self._left -= 1
            # When that is sent, the connection lets it resume.
            self.client.send_part(self.render_item(result))

    def evict(self) -> None:
        self._is_evicted = True
        if self.waiting is not None:
            super().evict()
        else:
            self.resume()
