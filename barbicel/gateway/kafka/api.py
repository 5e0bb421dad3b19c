"""What an API file offers to the dispatch table, and what it is given with each request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from twisted.internet.defer import Deferred

from barbicel.codecs.kafka.messages import Message, decode_request, encode_response
from barbicel.disk import Bytes
from barbicel.gateway.kafka.answer_budget import AnswerBudget

if TYPE_CHECKING:
    from barbicel.gateway.broker.broker import Broker
    from barbicel.gateway.kafka.session import Session

__all__ = ["MAX_ROWS", "Address", "Api", "Call", "Encoded", "Later", "Pieces", "Reply"]

# What one request may name: topics, partitions, groups, settings, all of them together. Reading so many takes
# a tenth of a second in which nobody else is served; no client comes near it.
MAX_ROWS = 30_000

# The body of an answer in pieces.
Pieces: TypeAlias = Sequence[Bytes]


class Later:
    """An answer that comes later, to the request that there are thousands of in a second: for each a Deferred
    would make ten calls."""

    __slots__ = ("then",)

    def __init__(self) -> None:
        # Called when it is there; set by whoever waits for it.
        self.then: Callable[[], None] | None = None

    def outcome(self) -> Any:
        """The answer, once it is there; raises if there can be none."""
        raise NotImplementedError


# An answer now or later; None for a request that gets none (Produce with acks=0).
Reply: TypeAlias = Any | Deferred[Any] | Later | None


class Address(NamedTuple):
    host: str
    port: int


@dataclass(slots=True)
class Call:
    """One request on its way: who asks what of whom."""

    broker: Broker
    version: int
    client_id: str | None
    peer: Address
    # Where the client reached us.
    local: Address
    # For answers that may be as large as there is room.
    answers: AnswerBudget = field(default_factory=AnswerBudget)
    # Who asks; None where nobody is asked and everybody may do everything.
    session: Session | None = None
    # Of the client's answers so far: what it has taken, or the kernel for it.
    sent_bytes: int = 0
    # Called when the connection is lost before the answer is ready; for requests that wait.
    on_lost: Callable[[], None] | None = None

    @property
    def who(self) -> str:
        """For the log."""
        address = f"{self.peer.host}:{self.peer.port}"
        return address if self.session is None else f"{self.session.principal} at {address}"


class Encoded(NamedTuple):
    """An answer that was encoded already, in a thread because it is long."""

    body: bytes


def _encode_message(response: Message | Encoded, version: int) -> Pieces:
    if isinstance(response, Encoded):
        return (response.body,)
    return (encode_response(response, version),)


def _encode_throttled_message(response: Message | Encoded, version: int, throttle_ms: int) -> Pieces:
    # Of one that is encoded already nobody knows where it is said; its client has to wait all the same.
    message: Any = response
    if hasattr(message, "throttle_time_ms"):
        message.throttle_time_ms = throttle_ms
    return _encode_message(response, version)


@dataclass(frozen=True, slots=True)
class Api:
    """A row of the dispatch table. `decode` and `encode` are kafka-python's unless the file has its own."""

    key: int
    name: str
    first_version: int
    last_version: int
    respond: Callable[[Call, Any], Reply]
    decode: Callable[[int, memoryview], Any] | None = None
    encode: Callable[[Any, int], Pieces] = _encode_message
    # While it is under way, nothing after it is served: its answer may be much larger than it is. (Kafka
    # serves every request of a connection like that.)
    is_alone: bool = False
    # The same with the time for which the client has to wait.
    encode_throttled: Callable[[Any, int, int], Pieces] = _encode_throttled_message

    def decode_body(self, version: int, body: memoryview) -> Any:
        """Raises MalformedRequest."""
        if self.decode is not None:
            return self.decode(version, body)
        return decode_request(self.key, version, body, max_rows=MAX_ROWS)
