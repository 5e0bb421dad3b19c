"""One queue of a running gateway: its topic by Kafka's protocol, its lines by Kestrel's.

Whoever else uses the queue meanwhile goes on: what they append lies between the batches of an import.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.new_batch import NewRecord, build_batch
from barbicel.codecs.kafka.produce_client import ProduceAnswer
from barbicel.codecs.kafka.wire import MalformedRequest
from barbicel.gateway.client.connecting import NoServer, ServerRefused
from barbicel.gateway.migration.marks import StoredItem, stored_item
from barbicel.gateway.migration.patience import GONE
from barbicel.gateway.migration.target import (
    NOT_NUMBERED,
    Begun,
    Numbers,
    Reading,
    TargetGone,
    TargetQueue,
    TargetRefused,
    parse_begun,
    render_begun,
)
from barbicel.kestrel_compat.names import (
    QueueName,
    child_of,
    guard_group,
    parse_queue_name,
    queue_of,
    topic_of,
)

if TYPE_CHECKING:
    from barbicel.gateway.migration.gateway_target import GatewayTarget

__all__ = ["GatewayQueue", "error_name", "refusing"]

PARTITION = 0
# Beside an item's data.
MESSAGE_ROOM_BYTES = 64 << 10
# No batch of several items is larger than this: one that is has a single item.
LARGE_BATCH_BYTES = 1 << 20
ANY_TIME = str((1 << 63) - 1)
POLL_MS = 1000
# How long nothing may come of what there is to read.
SILENCE_S = 60.0
# The gateway counts what a Kafka producer has appended in the background.
COUNT_DEADLINE_S = 5.0
COUNT_PAUSE_S = 0.1
# kafka-python's words. An answer that was lost has made it ask twice.
OK, NOT_THERE = "OK", "GroupIdNotFoundError"

_ANOTHER = (
    "another import of these journals is storing the same items at this moment, or has done so: nothing was"
    " stored twice; look at it with verify-import"
)


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """The clients' errors as ours."""
    try:
        yield
    except NoServer as error:
        raise TargetGone(error.message, path=error.path, hint=error.hint) from error
    except ServerRefused as error:
        raise TargetRefused(error.message, path=error.path, hint=error.hint) from error
    except TargetRefused:
        raise
    except GONE as error:
        raise TargetGone("no Kafka server answers", hint=f"{_kind_and_text(error)}; does it run?") from error
    except (KafkaError, MalformedRequest) as error:
        raise TargetRefused(f"{what}: {_kind_and_text(error)}") from error


def _kind_and_text(error: Exception) -> str:
    """kafka-python's errors say themselves of which kind they are."""
    kind, text = type(error).__name__, str(error)
    return text if kind in text else f"{kind}: {text}"


class GatewayQueue(TargetQueue):
    def __init__(self, target: GatewayTarget, topic: str) -> None:
        self.topic = topic
        self._target = target
        self._partition = TopicPartition(topic, PARTITION)

    def close(self) -> None:
        """The connections are the target's."""

    @property
    def start_offset(self) -> int:
        with refusing(self.topic):
            return int(self._target.consumer.beginning_offsets([self._partition])[self._partition])

    @property
    def end_offset(self) -> int:
        with refusing(self.topic):
            return int(self._target.consumer.end_offsets([self._partition])[self._partition])

    # --- lines --------------------------------------------------------------------------------------

    @property
    def groups(self) -> frozenset[str]:
        with refusing(self.topic):
            master = queue_of(self.topic)
            # There may be a hundred thousand: most are put aside unparsed.
            near = (name for name in self._target.kestrel.queue_names() if name.startswith(master))
            names = map(parse_queue_name, near)
            return frozenset(name.group for name in names if topic_of(name.master) == self.topic)

    def reading(self, group: str) -> Reading | None:
        """All below a queue's position is done with; of what lies behind it only the number is known."""
        if group not in self.groups:
            return None
        position = self._committed(group)
        acked_until = self.start_offset if position is None else position.offset

        def count_taken(expected: int, end_offset: int) -> int:
            return self._count_taken(group, expected, end_offset)

        return Reading(acked_until, lambda offset: offset < acked_until, count_taken)

    def _count_taken(self, group: str, expected: int, end_offset: int) -> int:
        """How many are missing of those that a line has up to an offset.

        What others append meanwhile is counted too, and must not stand in for what is missing: so a number
        counts only if nothing was appended until it was known.
        """
        name = QueueName(queue_of(self.topic), child_of(group)).text
        deadline = time.monotonic() + COUNT_DEADLINE_S
        while True:
            with refusing(self.topic):
                items = self._target.kestrel.count_items(name)
            before, end_offset = end_offset, self.end_offset
            expected += sum(item.is_for(group) for item in self.scan(before, end_offset))
            if (items >= expected and before == end_offset) or time.monotonic() > deadline:
                return max(0, expected - items)
            time.sleep(COUNT_PAUSE_S)

    def keep_open(self, group: str, offsets: Sequence[int], deadline_ms: int) -> None:
        raise TargetRefused("an open read is a connection's in a running gateway: nothing can be kept open")

    # --- an import ----------------------------------------------------------------------------------

    def begun(self) -> Begun | None:
        found = self._committed(guard_group(self.topic))
        return None if found is None else parse_begun(found.metadata, found.offset)

    def _committed(self, group: str) -> Any:
        with refusing(self.topic):
            found = self._target.admin.list_group_offsets({group: [self._partition]})
        position = found.get(group, {}).get(self._partition)
        return None if position is None or position.offset < 0 else position

    def begin(self, import_id: str, *, is_again: bool = False) -> Begun:
        begun = Begun(import_id, self.end_offset, is_again)
        position = OffsetAndMetadata(begun.first_offset, render_begun(begun), -1)
        group = guard_group(self.topic)
        with refusing(self.topic):
            answers = self._target.admin.alter_group_offsets(group, {self._partition: position})
        for error in answers.values():
            if error.errno:
                raise TargetRefused(f"{self.topic}: the group {group!r} cannot be made: {error.__name__}")
        return begun

    def end(self) -> None:
        group = guard_group(self.topic)
        with refusing(self.topic):
            outcomes = self._target.admin.delete_groups([group])
        if outcomes.get(group) not in (OK, NOT_THERE):
            raise TargetRefused(f"{self.topic}: the group {group!r} cannot be deleted: {outcomes.get(group)}")

    # --- records ------------------------------------------------------------------------------------

    def append(self, batch: Sequence[NewRecord], numbers: Numbers = NOT_NUMBERED) -> None:
        """Waits for the answer: the next batch is sent when this one is durable."""
        data = build_batch(
            batch,
            producer_id=numbers.producer_id,
            producer_epoch=numbers.producer_epoch,
            base_sequence=numbers.base_sequence,
        )
        answer = self._ask(data)
        if answer.error_code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_TIMESTAMP):
            self._allow(answer.error_code, len(data))
            answer = self._ask(data)
        if answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            raise TargetRefused(f"{self.topic}: {_ANOTHER}")
        if answer.error_code:
            raise TargetRefused(
                f"{self.topic}: {error_name(answer.error_code)}: {answer.message or 'refused'}"
            )
        if answer.base_offset < numbers.first_offset:
            # It was there before this import has begun: of whoever has begun at the same time.
            raise TargetRefused(f"{self.topic}: {_ANOTHER}")

    def _ask(self, data: bytes) -> ProduceAnswer:
        with refusing(self.topic):
            if len(data) > LARGE_BATCH_BYTES:
                self._check_fits(len(data))
            return self._target.appends.append(self.topic, PARTITION, data)

    def _check_fits(self, batch_bytes: int) -> None:
        request_bytes, limit_bytes = batch_bytes + MESSAGE_ROOM_BYTES, self._target.request_limit_bytes()
        if request_bytes > limit_bytes:
            raise TargetRefused(
                f"{self.topic}: an item needs a request of {request_bytes:,} bytes, and the gateway takes"
                f" {limit_bytes:,}",
                hint="raise its socket.request.max.bytes, or stop it and use --data; then run this again",
            )

    def _allow(self, error_code: int, batch_bytes: int) -> None:
        """Kestrel's items may be larger than what a Kafka producer may send, and of any time. These limits
        are only raised, and stay so."""
        settings: dict[str, str] = {
            "message.timestamp.before.max.ms": ANY_TIME,
            "message.timestamp.after.max.ms": ANY_TIME,
        }
        if error_code == ErrorCode.MESSAGE_TOO_LARGE:
            settings = {"max.message.bytes": str(batch_bytes + MESSAGE_ROOM_BYTES)}
        resource = ConfigResource(ConfigResourceType.TOPIC, self.topic, settings)
        with refusing(self.topic):
            # Without it kafka-python would look first what there is, and take a refusal for an answer.
            outcomes = self._target.admin.alter_configs([resource], raise_on_unknown=False)
        if outcomes["topic"].get(self.topic) != OK:
            refusal = outcomes["topic"].get(self.topic)
            raise TargetRefused(f"{self.topic}: {', '.join(settings)} cannot be raised: {refusal}")

    def settle(self) -> None:
        """Each append has waited."""

    def scan(self, from_offset: int, end_offset: int | None = None) -> Iterator[StoredItem]:
        offset = max(from_offset, self.start_offset)
        end_offset = self.end_offset if end_offset is None else end_offset
        if offset >= end_offset:
            return
        consumer = self._target.consumer
        consumer.assign([self._partition])
        consumer.seek(self._partition, offset)
        deadline = time.monotonic() + SILENCE_S
        while offset < end_offset:
            with refusing(self.topic):
                found = consumer.poll(timeout_ms=POLL_MS).get(self._partition, ())
                before, offset = offset, int(consumer.position(self._partition))
            if offset > before:
                deadline = time.monotonic() + SILENCE_S
            elif time.monotonic() > deadline:
                raise TargetGone(f"{self.topic}: the gateway does not answer any more")
            for record in found:
                if record.value is not None and record.offset < end_offset:
                    headers = tuple((key.encode(), value) for key, value in record.headers)
                    yield stored_item(record.offset, record.timestamp, record.value, headers)


def error_name(error_code: int) -> str:
    known = {code.value: code.name for code in ErrorCode}
    return known.get(error_code, f"error {error_code}")
