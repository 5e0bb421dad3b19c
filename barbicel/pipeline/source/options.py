"""The options of the data source: one table, under the names that Spark's Kafka connector has.

Options that begin with `kafka.` are for a connection, which there is none of; they are passed over, so that a
query can change its format and nothing else. Any other unknown option is refused: it is a typing error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from barbicel.errors import BarbicelError

__all__ = ["BadOption", "OffsetSpec", "Options", "ReadUpTo", "parse_options"]

KIB, MIB = 1 << 10, 1 << 20

EARLIEST, LATEST = -2, -1
_WORDS = {"earliest": EARLIEST, "latest": LATEST}
_DURATION = re.compile(r"\s*(\d+)\s*(ms|milliseconds?|s|seconds?|m|min|minutes?|h|hours?|d|days?)\s*")
_UNIT_MS = {"ms": 1, "mi": 60_000, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class BadOption(BarbicelError):
    """An option of the data source that cannot be used."""


@dataclass(frozen=True)
class OffsetSpec:
    """Where to begin or to end: the same for all partitions, or of each. Offsets or timestamps in ms.

    -2 is the earliest offset, -1 the latest.
    """

    everywhere: int | None = None
    of_partition: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    is_time: bool = False

    def of(self, topic: str, partition: int) -> int | None:
        if self.everywhere is not None:
            return self.everywhere
        return self.of_partition.get(topic, {}).get(partition)


class ReadUpTo:
    """How far the active segment is read, see docs/data_source.md."""

    SYNCED = "synced"
    VOUCHED = "vouched"
    SEALED = "sealed"


@dataclass(frozen=True)
class Options:
    path: str
    topics: tuple[str, ...] = ()
    topic_pattern: str | None = None
    assigned: Mapping[str, tuple[int, ...]] | None = None
    # Of a single log directory or file that does not say it.
    partition: int | None = None
    starting: OffsetSpec | None = None
    ending: OffsetSpec | None = None
    # What a time means that is later than all records: an error, or the end.
    is_late_start_an_error: bool = True
    fail_on_data_loss: bool = True
    include_headers: bool = False
    push_filters: bool = False
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000
    min_partitions: int | None = None
    split_bytes: int = 64 * MIB
    max_batch_bytes: int = 256 * MIB
    read_committed: bool = True
    read_up_to: str = ReadUpTo.SYNCED
    # Where tiered segments are; None is the store in the data directory.
    store: str | None = None
    store_options: Mapping[str, str] = field(default_factory=dict)


def parse_options(given: Mapping[str, str]) -> Options:
    """Raises BadOption, which names the option and says what it may be."""
    values: dict[str, Any] = {}
    store: dict[str, str] = {}
    for name, text in given.items():
        key = name.lower()
        if key.startswith("kafka.") and key != "kafka.isolation.level":
            continue
        if key.startswith("store."):
            store[name[len("store.") :]] = text
            continue
        row = _TABLE.get(key)
        if row is None:
            known = ", ".join(sorted(row[0] for row in _TABLE.values()))
            raise BadOption(f"the option {name!r} is not known", hint=f"known are {known}")
        shown, attribute, parse = row
        if attribute in values:
            raise BadOption(f"{shown} and another option say the same thing twice", hint="give one of them")
        values[attribute] = _parse(shown, text, parse)
    if "path" not in values:
        raise BadOption(
            "there is no path", hint="load('/data') reads a data directory, a log directory or a .kfs file"
        )
    return _checked(Options(**values, store_options=store))


def _checked(options: Options) -> Options:
    chosen = [bool(options.topics), options.topic_pattern is not None, options.assigned is not None]
    if sum(chosen) > 1:
        raise BadOption(
            "topics are chosen in two ways", hint="give one of subscribe, subscribePattern, assign"
        )
    low, high = options.min_offsets_per_trigger, options.max_offsets_per_trigger
    if low is not None and high is not None and low > high:
        raise BadOption(f"minOffsetsPerTrigger {low} is more than maxOffsetsPerTrigger {high}")
    return options


def _parse(name: str, text: str, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(text)
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        raise BadOption(f"{name} cannot be {text!r}: {problem}") from None


def _word(words: Mapping[str, Any]) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        if text.strip().lower() not in words:
            raise ValueError(f"it is one of {', '.join(words)}")
        return words[text.strip().lower()]

    return parse


def _count(text: str) -> int:
    if int(text) < 1:
        raise ValueError("it is 1 or more")
    return int(text)


def _partition(text: str) -> int:
    if int(text) < 0:
        raise ValueError("it is 0 or more")
    return int(text)


def _size(text: str) -> int:
    number = text.strip().lower().removesuffix("b")
    factor = {"k": KIB, "m": MIB, "g": MIB * KIB}.get(number[-1:], 1)
    return _count(number.rstrip("kmg")) * factor


def _duration_ms(text: str) -> int:
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError("it is a number and a unit, such as 15m or 500ms")
    unit = found[2] if found[2] == "ms" else "ms" if found[2].startswith("milli") else found[2][0]
    return int(found[1]) * _UNIT_MS[unit]


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise ValueError("it names no topic")
    return names


def _pattern(text: str) -> str:
    re.compile(text)
    return text


def _assigned(text: str) -> dict[str, tuple[int, ...]]:
    content = json.loads(text)
    return {topic: tuple(sorted({int(number) for number in numbers})) for topic, numbers in content.items()}


def _offsets(text: str) -> OffsetSpec:
    if text.strip().lower() in _WORDS:
        return OffsetSpec(_WORDS[text.strip().lower()])
    return OffsetSpec(of_partition=_by_partition(text, lowest=EARLIEST))


def _time(text: str) -> OffsetSpec:
    if int(text) < 0:
        raise ValueError("it is a time in milliseconds since 1970, 0 or more")
    return OffsetSpec(int(text), is_time=True)


def _times(text: str) -> OffsetSpec:
    return OffsetSpec(of_partition=_by_partition(text, lowest=0), is_time=True)


def _by_partition(text: str, lowest: int) -> dict[str, dict[int, int]]:
    """As the connector takes it: {"topic": {"0": 23, "1": -2}}."""
    content = json.loads(text)
    found = {
        topic: {int(number): int(value) for number, value in offsets.items()}
        for topic, offsets in content.items()
    }
    if any(value < lowest for offsets in found.values() for value in offsets.values()):
        raise ValueError(f"no number below {lowest} means anything")
    return found


READ_UP_TO = (ReadUpTo.SYNCED, ReadUpTo.VOUCHED, ReadUpTo.SEALED)
_BOOL = _word({"true": True, "false": False})

# The name in lower case → the name, the field of Options, how it is read.
_TABLE: Mapping[str, tuple[str, str, Callable[[str], Any]]] = {
    name.lower(): (name, attribute, parse)
    for name, attribute, parse in (
        ("path", "path", str),
        ("subscribe", "topics", _names),
        ("topic", "topics", _names),
        ("subscribePattern", "topic_pattern", _pattern),
        ("assign", "assigned", _assigned),
        ("partition", "partition", _partition),
        ("startingOffsets", "starting", _offsets),
        ("startingTimestamp", "starting", _time),
        ("startingOffsetsByTimestamp", "starting", _times),
        ("endingOffsets", "ending", _offsets),
        ("endingTimestamp", "ending", _time),
        ("endingOffsetsByTimestamp", "ending", _times),
        (
            "startingOffsetsByTimestampStrategy",
            "is_late_start_an_error",
            _word({"error": True, "latest": False}),
        ),
        ("failOnDataLoss", "fail_on_data_loss", _BOOL),
        ("includeHeaders", "include_headers", _BOOL),
        ("pushFilters", "push_filters", _BOOL),
        ("maxOffsetsPerTrigger", "max_offsets_per_trigger", _count),
        ("minOffsetsPerTrigger", "min_offsets_per_trigger", _count),
        ("maxTriggerDelay", "max_trigger_delay_ms", _duration_ms),
        ("minPartitions", "min_partitions", _count),
        ("splitBytes", "split_bytes", _size),
        ("maxBatchBytes", "max_batch_bytes", _size),
        (
            "kafka.isolation.level",
            "read_committed",
            _word({"read_committed": True, "read_uncommitted": False}),
        ),
        ("store", "store", str),
        ("readUpTo", "read_up_to", _word({one: one for one in READ_UP_TO})),
    )
}
