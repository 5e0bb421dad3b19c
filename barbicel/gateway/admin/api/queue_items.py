"""What is in a queue, what of it is open, and how it is put back: /api/queues/<name>/items, /open, /move.

- items: what can be had and what is open, in the order of the log. Nothing is taken by looking.
- open: what was handed out and not confirmed. It can be given back by hand, as if its reader had aborted it.
- move: items of one queue into another, the oldest first: a queue of errors into the one they came from. Each
  is closed here when it is stored there, so a crash in between leaves it in both and never in neither. Only
  what was there when it began is moved.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Any

from twisted.internet.defer import Deferred

from barbicel.codecs.stroma_format import NO_DEADLINE_MS
from barbicel.gateway.admin.api.fields import MAX_SHOWN_BYTES as MAX_SHOWN_OF_ITEM_BYTES
from barbicel.gateway.admin.api.fields import encode_field
from barbicel.gateway.admin.api.publishing import put_item
from barbicel.gateway.admin.api.queues import is_queue
from barbicel.gateway.admin.exchange import Asked, Refusal, parse_body
from barbicel.gateway.broker.partition import Partition
from barbicel.gateway.kestrel.line_reader import LineReader
from barbicel.gateway.kestrel.queues import Queues
from barbicel.gateway.kestrel.session import OpenRead, Session
from barbicel.gateway.kestrel.stretches import read_stretch
from barbicel.kestrel_compat.items import Item, Stretch
from barbicel.kestrel_compat.names import parse_queue_name
from barbicel.stroma import GroupKey

__all__ = ["QueueItemsApi"]

_log = logging.getLogger(__name__)

USUAL_ITEMS = 50
MAX_ITEMS = 500
# Of what is shown of items, of which each is cut.
MAX_SHOWN_BYTES = 1 << 20
# How much of the log is looked through for what is to be had.
READ_BYTES = 1 << 20
MAX_READS = 16
MAX_OPEN = 100
MAX_MOVED = 1000


class QueueItemsApi:
    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self._store = queues.broker.offsets.store

    def _reader(self, asked: Asked) -> LineReader:
        """Raises Refusal: there is no such queue, or it was not opened yet, which happens after a start."""
        name = asked.names["name"]
        if not is_queue(self._queues, name):
            raise Refusal(404, "there is no such queue")
        parsed = parse_queue_name(name)
        queue = self._queues.by_master(parsed.master)
        reader = None if queue is None else queue.readers.get(parsed.group)
        if reader is None:
            raise Refusal(503, "the queue is still being opened: try again")
        return reader

    # --- looking ------------------------------------------------------------------------------------

    async def list_items(self, asked: Asked) -> dict[str, Any]:
        reader = self._reader(asked)
        limit = asked.whole("limit", USUAL_ITEMS, 1, MAX_ITEMS)
        partition = reader.partition
        offset, end_offset = max(asked.whole("offset", 0), reader.line.frontier), partition.end_offset
        items: list[Item] = []
        for _ in range(MAX_READS):
            if offset >= end_offset or len(items) >= limit:
                break
            stretch = await self._queues.broker.work_long(
                partial(read_stretch, partition, offset, end_offset, READ_BYTES)
            )
            items += [item for item in stretch.items if _is_left(reader, item, stretch)]
            offset = stretch.end_offset
        shown = _as_many_as_fit(items[:limit])
        if len(items) > len(shown):
            offset = items[len(shown)].offset
        rows = [_item_row(reader, item) for item in shown]
        return {"name": reader.name, "items": rows, "next_offset": offset if offset < end_offset else None}

    async def list_open(self, asked: Asked) -> dict[str, Any]:
        """With the deadlines, which the reader's group knows."""
        reader = self._reader(asked)
        inflight = await self._inflight(reader.key)
        items = await self._read_items(reader.partition, sorted(inflight))
        rows = [
            {**_item_row(reader, item), "deadline_ms": inflight[item.offset]}
            for item in items
            if _state(reader, item.offset) != "waiting"
        ]
        total = len(reader.line.open) + len(reader.line.lent)
        return {"name": reader.name, "open": rows, "total": total}

    async def _inflight(self, key: GroupKey) -> dict[int, int | None]:
        """Some offsets with their deadlines, if they have one. In the thread that writes groups."""

        def look() -> dict[int, int | None]:
            state = self._store.state(key)
            return {
                offset: None if held.deadline_ts_ms == NO_DEADLINE_MS else held.deadline_ts_ms
                for offset, held in islice(state.inflight.items(), MAX_OPEN)
            }

        return await self._queues.broker.offsets.submit(look, lambda found, _: found)

    async def _read_items(self, partition: Partition, offsets: Sequence[int]) -> list[Item]:
        """`offsets` in their order."""
        return await self._queues.broker.work_long(partial(_read_items, partition, offsets))

    # --- putting back -------------------------------------------------------------------------------

    async def requeue(self, asked: Asked) -> dict[str, Any]:
        """One that is open, by its offset."""
        reader = self._reader(asked)
        text = asked.names["offset"]
        if not (text.isascii() and text.isdigit() and len(text) <= 19):
            raise Refusal(400, "the offset is no number")
        if not await self._give_back(reader, [int(text)]):
            raise Refusal(409, "nothing is open at this offset any more")
        return {"name": reader.name, "requeued": 1}

    async def requeue_all(self, asked: Asked) -> dict[str, Any]:
        """What is open now, or as much of it as is done at a time."""
        reader = self._reader(asked)
        offsets = sorted([*reader.line.open, *reader.line.lent])[:MAX_OPEN]
        return {"name": reader.name, "requeued": await self._give_back(reader, offsets)}

    async def _give_back(self, reader: LineReader, offsets: Sequence[int]) -> int:
        """How many were still open; they can be had again, and that is written."""
        items = await self._read_items(reader.partition, offsets)
        given = [item for item in items if not reader.is_ended and _give_back_one(reader, item)]
        await self._written()
        _log.info("an operator gave %d open items of the queue %s back", len(given), reader.name)
        return len(given)

    async def _written(self) -> None:
        """Raises what kept it from being written."""
        done: Deferred[Exception | None] = Deferred()
        self._queues.settled(done.callback)
        error = await done
        if error is not None:
            raise error

    async def move(self, asked: Asked) -> dict[str, Any]:
        body, reader = parse_body(asked), self._reader(asked)
        to, limit = body.get("to"), body.get("limit", MAX_MOVED)
        if not isinstance(to, str) or to == reader.name:
            raise Refusal(400, "to is no other queue")
        if not is_queue(self._queues, to):
            raise Refusal(404, "there is no such queue to move items to")
        if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MAX_MOVED:
            raise Refusal(400, f"limit is no whole number from 1 to {MAX_MOVED}")
        session = Session()
        try:
            moved = await self._move_some(session, reader, to, limit)
        finally:
            self._queues.end(session)  # what was not stored there stays here
        await self._written()
        _log.info("an operator moved %d items of the queue %s to %s", moved, reader.name, to)
        return {"name": reader.name, "to": to, "moved": moved}

    async def _move_some(self, session: Session, reader: LineReader, to: str, limit: int) -> int:
        """What comes later stays: an item that a fanout gives to its queue comes to the fanout again."""
        name, end_offset = reader.name, reader.partition.end_offset
        count = min(limit, reader.stats().items)
        for moved in range(count):
            item = await self._take(session, name)
            if item is None or item.offset >= end_offset:
                return moved
            if not await put_item(self._queues, to, item.data, item.flags, item.expiry_ms):
                raise Refusal(409, f"{to} takes no more items; {moved} were moved")
            self._queues.close_oldest(session, name)
        return count

    async def _take(self, session: Session, name: str) -> Item | None:
        done: Deferred[Item | Exception | None] = Deferred()
        self._queues.take(session, name, is_open=True, timeout_ms=None, done=done.callback)
        taken = await done
        if isinstance(taken, Exception):
            raise taken
        return taken


def _as_many_as_fit(items: Sequence[Item]) -> Sequence[Item]:
    """One at least: an answer is made in the reactor's thread."""
    left_bytes = MAX_SHOWN_BYTES
    for count, item in enumerate(items, 1):
        left_bytes -= min(len(item.data), MAX_SHOWN_OF_ITEM_BYTES)
        if left_bytes <= 0:
            return items[:count]
    return items


def _is_left(reader: LineReader, item: Item, stretch: Stretch) -> bool:
    """For this line, and not done with."""
    audience = stretch.audiences.get(item.offset)
    if audience is not None and reader.key.group not in audience:
        return False
    return item.offset >= reader.line.frontier and item.offset not in reader.line.acked


def _state(reader: LineReader, offset: int) -> str:
    if offset in reader.line.open:
        return "open"
    return "lent" if offset in reader.line.lent else "waiting"


def _item_row(reader: LineReader, item: Item) -> dict[str, Any]:
    line = reader.line
    return {
        "offset": item.offset,
        "state": _state(reader, item.offset),
        "deliveries": line.open.get(item.offset, line.deliveries.get(item.offset, 0)),
        "added_ms": item.added_ms,
        "expiry_ms": item.deadline_ms(reader.settings.max_age_ms),
        "flags": item.flags,
        "value": encode_field(item.data),
    }


def _read_items(partition: Partition, offsets: Sequence[int]) -> list[Item]:
    """In a thread: the items at some offsets, where there are any.

    A batch is opened once, however many of its items are wanted: thousands may be in one.
    """
    found: list[Item] = []
    wanted, read_to = set(offsets), 0
    for offset in offsets:
        if offset < read_to or not partition.start_offset <= offset < partition.end_offset:
            continue
        stretch = read_stretch(partition, offset, offset + 1, 1)
        found += [item for item in stretch.items if item.offset in wanted]
        read_to = stretch.end_offset
    return found


def _give_back_one(reader: LineReader, item: Item) -> bool:
    """As if its reader had aborted it, who is told when it asks for it the next time."""
    line = reader.line
    count = line.open.get(item.offset)
    if count is not None:
        line.lapses += 1
        reader.abort(OpenRead(reader, item, count))
        return True
    if item.offset in line.lent:
        now_ms = line.lent[item.offset] = reader.queue.clock()
        reader.take_back(now_ms)
        return True
    return False
