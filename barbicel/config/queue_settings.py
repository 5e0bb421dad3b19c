"""The settings of one Kestrel queue: one table, under Kestrel's own names and with its defaults.

A field of `QueueSettings` is a row. None is no limit. A file has these rows in [kestrel.default] and in
[kestrel.queues."name"]; kestrel_compat/queue_settings.py decides which of them holds for a queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, NamedTuple

from barbicel.config.queue_rules import SIZES, TIMES, Measure, OrNone, QueueText
from barbicel.config.values import INT_MAX, LONG_MAX, Rule, Switch, Whole

__all__ = ["QUEUE_SETTINGS", "QueueSetting", "QueueSettings"]

MIB = 1 << 20
GIB = 1 << 30

_COUNT = OrNone(Whole(1, LONG_MAX))
_TIME = OrNone(Measure(TIMES))
_SIZE = OrNone(Measure(SIZES))

_ALWAYS_KEPT = "No effect: every queue is kept on disk, as the server's durability says."
_ALWAYS_SYNCED = "No effect: when items are synced is the server's durability."
_NO_REWRITES = "No effect: nothing is rewritten, segments go as soon as every reader is past them."


class QueueSetting(NamedTuple):
    """One row: Kestrel's name, the field, and what may be written."""

    name: str
    attribute: str
    rule: Rule
    default: Any
    doc: str

    @property
    def has_effect(self) -> bool:
        return not self.doc.startswith("No effect")


def _row(name: str, default: Any, rule: Rule, doc: str) -> Any:
    return field(default=default, metadata={"row": (name, rule, default, doc)})


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """What holds for one queue."""

    max_items: int | None = _row(
        "maxItems",
        None,
        _COUNT,
        "A queue with so many items is full: a set is answered NOT_STORED, but see discardOldWhenFull.",
    )
    max_size_bytes: int | None = _row(
        "maxSize",
        None,
        _SIZE,
        "The same, by the bytes of all items together.",
    )
    max_item_size_bytes: int | None = _row(
        "maxItemSize",
        None,
        _SIZE,
        "A larger item is answered NOT_STORED. kestrel.max.item.bytes holds beside it.",
    )
    discard_old_when_full: bool = _row(
        "discardOldWhenFull",
        False,
        Switch(),
        "A full queue drops its oldest items to make room for new ones.",
    )
    max_age_ms: int | None = _row(
        "maxAge",
        None,
        _TIME,
        "An item that waits for so long expires, or earlier if its set said so.",
    )
    expire_to_queue: str | None = _row(
        "expireToQueue",
        None,
        OrNone(QueueText()),
        "Expired items are put into this queue, where they do not expire by their own time again.",
    )
    max_expire_sweep: int | None = _row(
        "maxExpireSweep",
        None,
        _COUNT,
        "How many items expire at most each time that expired ones are looked for.",
    )
    max_queue_age_ms: int | None = _row(
        "maxQueueAge",
        None,
        _TIME,
        "A queue that is empty and so old is deleted.",
    )
    open_transaction_timeout_ms: int | None = _row(
        "openTransactionTimeout",
        None,
        _TIME,
        "An open read that is neither closed nor aborted within this time is given to another reader.",
    )
    delivery_limit: int = _row(
        "deliveryLimit",
        0,
        Whole(0, INT_MAX),
        "An item that was opened so often and never closed moves to the queue <name>_errors instead of going"
        " round for ever; 0 sets no limit. Kestrel has no such setting.",
    )
    fanout_only: bool = _row(
        "fanoutOnly",
        False,
        Switch(),
        "Sets are for the fanout queues (name+child) alone, the queue itself keeps nothing.",
    )
    default_journal_size_bytes: int = _row(
        "defaultJournalSize",
        16 * MIB,
        Measure(SIZES, MIB, INT_MAX),
        "Storage is given back in segments of this size. It holds for a queue from its creation.",
    )
    max_memory_size_bytes: int = _row(
        "maxMemorySize",
        8 * MIB,
        Measure(SIZES),
        "Items that are read ahead for a queue stay below this size in memory. Kestrel's default is 128 MiB,"
        " because it reads one file from its beginning to its end; here a smaller one costs nothing.",
    )
    keep_journal: bool = _row("keepJournal", True, Switch(), _ALWAYS_KEPT)
    sync_journal_ms: int | None = _row("syncJournal", None, OrNone(Measure(TIMES, 0)), _ALWAYS_SYNCED)
    max_journal_size_bytes: int = _row("maxJournalSize", GIB, Measure(SIZES), _NO_REWRITES)


def _table() -> Mapping[str, QueueSetting]:
    rows = {}
    for one in fields(QueueSettings):
        name, rule, default, doc = one.metadata["row"]
        rows[name] = QueueSetting(name, one.name, rule, default, doc)
    return MappingProxyType(rows)


QUEUE_SETTINGS = _table()
