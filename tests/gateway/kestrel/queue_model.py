"""Queues as plain lists, which do what is promised of the real ones."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from barbicel.config.queue_settings import QueueSettings

__all__ = ["Entry", "LineModel", "Model", "OpenEntry", "Waiting"]

DEFAULTS = QueueSettings()


class Entry(NamedTuple):
    """An item in a line. The same item has the same number in all lines of a queue."""

    number: int
    data: bytes
    flags: int = 0
    expiry_ms: int | None = None
    added_ms: int = 0


class OpenEntry(NamedTuple):
    session: int
    entry: Entry
    deadline_ms: int | None


class Waiting(NamedTuple):
    """Somebody who waits; what is put into `got` is the answer."""

    session: int
    is_open: bool
    got: list[Entry | None]


@dataclass
class LineModel:
    waiting: list[Entry] = field(default_factory=list)
    open: list[OpenEntry] = field(default_factory=list)
    readers: list[Waiting] = field(default_factory=list)
    # By the number of the entry.
    deliveries: dict[int, int] = field(default_factory=dict)
    expired = discarded = transactions = canceled = 0


class Model:
    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.lines: dict[str, LineModel] = {}
        self.settings: dict[str, QueueSettings] = {}
        # Topics that Kafka made: all that was ever put into them, with whom it is for.
        self.logs: dict[str, list[tuple[Entry, set[str] | None]]] = {}
        self.topics: set[str] = set()
        self._next_number = 0

    # --- settings and lines -------------------------------------------------------------------------

    def settings_of(self, name: str) -> QueueSettings:
        if name in self.settings or name == master_of(name):
            return self.settings.get(name, DEFAULTS)
        return replace(self.settings_of(master_of(name)), fanout_only=False)

    def lines_of(self, master: str) -> dict[str, LineModel]:
        return {name: line for name, line in self.lines.items() if master_of(name) == master}

    def create(self, name: str) -> None:
        """A queue starts empty, and that of a topic which Kafka made with all that is in it."""
        self.topics.add(master_of(name))
        if name in self.lines or (name == master_of(name) and self.settings_of(name).fanout_only):
            return
        line = self.lines[name] = LineModel()
        if name in self.logs:
            line.waiting = [entry for entry, only in self.logs[name] if only is None or name in only]

    def new_entry(self, data: bytes, flags: int = 0, expiry_ms: int | None = None) -> Entry:
        self._next_number += 1
        return Entry(self._next_number, data, flags, expiry_ms, self.now_ms)

    # --- putting ------------------------------------------------------------------------------------

    def put(self, name: str, data: bytes, flags: int = 0, expiry_ms: int | None = None) -> bool:
        self.create(name)
        master = master_of(name)
        asked = list(self.lines_of(master)) if name == master else [name]
        takers = {one for one in asked if self.accepts(one)}
        refused = [one for one in asked if one not in takers]
        is_stored = not any(one == name and not self.settings_of(one).fanout_only for one in refused)
        if is_stored or takers:
            only = takers if refused or name != master else None
            self.append(master, self.new_entry(data, flags, expiry_ms), takers, only)
        return is_stored

    def accepts(self, name: str) -> bool:
        settings = self.settings_of(name)
        if settings.fanout_only and name == master_of(name):
            return False
        if settings.discard_old_when_full or settings.max_items is None:
            return True
        return len(self.lines[name].waiting) < settings.max_items

    def append(self, master: str, entry: Entry, takers: set[str], only: set[str] | None) -> None:
        if master in self.logs:
            self.logs[master].append((entry, only))
        for name in takers:
            self.lines[name].waiting.append(entry)
        self.serve_all(master)

    def produce(self, master: str, values: list[bytes | None]) -> None:
        for value in values:
            entry = self.new_entry(value or b"")
            if value is not None:
                if master in self.logs:
                    self.logs[master].append((entry, None))
                for line in self.lines_of(master).values():
                    line.waiting.append(entry)
        self.serve_all(master)

    # --- getting ------------------------------------------------------------------------------------

    def head(self, name: str) -> Entry | None:
        """After whatever is in the way was got rid of."""
        line, settings = self.lines[name], self.settings_of(name)
        while line.waiting:
            entry = line.waiting[0]
            if self.is_expired(name, entry):
                self.expire(name)
            elif settings.delivery_limit and line.deliveries.get(entry.number, 0) >= settings.delivery_limit:
                line.waiting.pop(0)
                self.put(f"{name.replace('+', '_')}_errors", entry.data, entry.flags)
            else:
                return entry
        return None

    def is_expired(self, name: str, entry: Entry) -> bool:
        max_age_ms = self.settings_of(name).max_age_ms
        ends = [entry.expiry_ms] if entry.expiry_ms is not None else []
        if max_age_ms is not None:
            ends.append(entry.added_ms + max_age_ms)
        return any(end_ms < self.now_ms for end_ms in ends)

    def expire(self, name: str) -> None:
        entry = self.lines[name].waiting.pop(0)
        self.lines[name].expired += 1
        to_queue = self.settings_of(name).expire_to_queue
        if to_queue is not None:
            self.put(to_queue, entry.data, entry.flags)

    def get(self, name: str, session: int, *, is_open: bool) -> Entry | None:
        self.create(name)
        if name not in self.lines:
            return None
        entry = self.head(name)
        if entry is not None:
            self.give(name, session, is_open)
        self.discard(name)
        return entry

    def peek(self, name: str) -> Entry | None:
        self.create(name)
        if name not in self.lines:
            return None
        entry = self.head(name)
        self.discard(name)
        return entry

    def give(self, name: str, session: int, is_open: bool) -> Entry:
        line = self.lines[name]
        entry = line.waiting.pop(0)
        if is_open:
            timeout_ms = self.settings_of(name).open_transaction_timeout_ms
            deadline_ms = None if timeout_ms is None else self.now_ms + timeout_ms
            line.open.append(OpenEntry(session, entry, deadline_ms))
            line.deliveries[entry.number] = line.deliveries.get(entry.number, 0) + 1
            line.transactions += 1
        return entry

    def wait(self, name: str, session: int, *, is_open: bool) -> Waiting:
        """For as long as it takes."""
        waiting = Waiting(session, is_open, [])
        self.create(name)
        if name in self.lines:
            self.lines[name].readers.append(waiting)
            self.serve(name)
        return waiting

    # --- what is open -------------------------------------------------------------------------------

    def opened(self, name: str, session: int) -> list[OpenEntry]:
        line = self.lines.get(name)
        return [] if line is None else [one for one in line.open if one.session == session]

    def close(self, name: str, session: int, count: int) -> int:
        opened = self.opened(name, session)
        if len(opened) < count:
            return 0
        for one in opened[:count]:
            self.lines[name].open.remove(one)
        return count

    def abort(self, name: str, one: OpenEntry) -> None:
        line = self.lines[name]
        line.open.remove(one)
        insort(line.waiting, one.entry)
        line.canceled += 1
        self.serve(name)

    def disconnect(self, session: int) -> None:
        for name, line in list(self.lines.items()):
            line.readers = [one for one in line.readers if one.session != session]
            for one in self.opened(name, session):
                self.abort(name, one)

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        for name, line in list(self.lines.items()):
            while due := sorted(
                (one.deadline_ms, one.entry.number, one)
                for one in line.open
                if one.deadline_ms is not None and one.deadline_ms <= self.now_ms
            ):
                self.abort(name, due[0][2])

    # --- what follows -------------------------------------------------------------------------------

    def serve_all(self, master: str) -> None:
        for name in self.lines_of(master):
            self.serve(name)

    def serve(self, name: str) -> None:
        line = self.lines[name]
        while line.readers and self.head(name) is not None:
            session, is_open, got = line.readers.pop(0)
            got.append(self.give(name, session, is_open))
        self.discard(name)

    def discard(self, name: str) -> None:
        line, settings = self.lines[name], self.settings_of(name)
        if settings.discard_old_when_full and settings.max_items is not None:
            while len(line.waiting) > settings.max_items:
                if self.is_expired(name, line.waiting[0]):
                    self.expire(name)
                else:
                    line.waiting.pop(0)
                    line.discarded += 1

    def sweep(self) -> None:
        for name in list(self.lines):
            self.flush_expired(name)
            self.serve(name)

    def flush_expired(self, name: str) -> int:
        if name not in self.lines:
            return 0
        line = self.lines[name]
        before = line.expired
        while line.waiting and self.is_expired(name, line.waiting[0]):
            self.expire(name)
        return line.expired - before

    # --- ends ---------------------------------------------------------------------------------------

    def flush(self, name: str) -> None:
        if name in self.lines:
            self.lines[name].waiting.clear()

    def delete(self, name: str) -> None:
        """Of a topic that Kafka made only the children can go."""
        if name in self.logs:
            self.flush(name)
        elif name in self.lines:
            for reader in self.lines.pop(name).readers:
                reader.got.append(None)
            master = master_of(name)
            if not self.lines_of(master) and master not in self.logs:
                self.topics.discard(master)

    def restart(self) -> None:
        for name, line in self.lines.items():
            entries = sorted([*line.waiting, *(one.entry for one in line.open)])
            self.lines[name] = LineModel(entries, deliveries=line.deliveries)
            self.discard(name)

    def stats(self, name: str) -> dict[str, Any]:
        line = self.lines[name]
        return {
            "items": len(line.waiting),
            "bytes": sum(len(entry.data) for entry in line.waiting),
            "expired_items": line.expired,
            "discarded": line.discarded,
            "waiters": len(line.readers),
            "open_transactions": len(line.open),
            "transactions": line.transactions,
            "canceled_transactions": line.canceled,
        }


def master_of(name: str) -> str:
    return name.partition("+")[0]
