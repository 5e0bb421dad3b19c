"""Files and directories that keep written and synced state apart, and what a crash leaves of them.

Owns the decision "what is on the disk afterwards" (`Fate`), and knows no paths, handles or errors.
Its invariant: what was synced, and not changed since, survives every fate.

A sector that was written twice since the last sync is old or new afterwards. What the first write
made of it is not tried; a crash before the second write shows that, with later sectors still old.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from itertools import count
from random import Random
from typing import TypeAlias

__all__ = ["SECTOR_BYTES", "Directory", "Fate", "Inode", "Node", "Patch", "survivor"]

# The unit that a drive writes as a whole.
SECTOR_BYTES = 512
# Stands for the time: no two changes have the same.
_ticks = count(1)


class Fate(Enum):
    """What becomes of everything that is written and not synced."""

    DROP = "drop"  # a power cut with an idle kernel: nothing of it is there
    KEEP = "keep"  # kill -9: all of it is there
    TEAR = "tear"  # a power cut in the middle of write-back: any part of it is there


class Inode:
    """A file's content, as programs read it and as the disk has it.

    `current` is the very object `synced` while they are equal, so that a copy costs nothing.
    """

    __slots__ = ("current", "dirty", "locked", "size_dirty", "synced", "written_at")

    def __init__(self, content: bytes = b"") -> None:
        self.current: bytes | bytearray = content
        self.synced = content
        self.dirty: set[int] = set()
        self.size_dirty = False
        self.locked = False
        self.written_at = next(_ticks)

    def write(self, position: int, data: bytes) -> None:
        if not data:
            return
        if position > len(self.current):
            self.resize(position)
        self._own()[position : position + len(data)] = data
        self._touch(position, position + len(data))

    def resize(self, size: int) -> None:
        """Cut the content, or put zeros behind it."""
        before, content = len(self.current), self._own()
        if size < before:
            del content[size:]
            self._touch(size, before)
        else:
            content.extend(bytes(size - before))
            # Zeros where the disk has nothing need no write-back: they come with the size.
            self._touch(before, min(size, len(self.synced)))

    def is_dirty(self) -> bool:
        return self.size_dirty or bool(self.dirty)

    def sync(self) -> None:
        """Make durable what is dirty; what a failed sync forgot is not dirty any more."""
        if not self.is_dirty():
            return
        self.synced = self._merge(self.dirty, len(self.current))
        self.forget()
        if self.current == self.synced:
            self.current = self.synced

    def forget(self) -> None:
        """What Linux does when write-back fails: the pages stay readable and count as clean."""
        self.dirty.clear()
        self.size_dirty = False

    def replace(self, content: bytes) -> None:
        """Make `content` all that there is, durably."""
        self.forget()
        self.current = self.synced = content
        self.written_at = next(_ticks)

    def with_write(self, position: int, data: bytes) -> Inode:
        """A copy in which `data` is written and not synced."""
        copy = Inode(self.synced)
        copy.current = bytes(self.current)
        copy.dirty = self.dirty.copy()
        copy.size_dirty = self.size_dirty
        copy.write(position, data)
        return copy

    def content_after(self, fate: Fate, rng: Random) -> bytes:
        if fate is Fate.DROP or self.current is self.synced:
            return self.synced
        if fate is Fate.KEEP:
            return bytes(self.current)
        sectors = sorted(self.dirty)
        coins = rng.getrandbits(len(sectors)) if sectors else 0
        reached = [sector for toss, sector in enumerate(sectors) if coins >> toss & 1]
        return self._merge(reached, self._torn_size(rng))

    def _torn_size(self, rng: Random) -> int:
        old, new = len(self.synced), len(self.current)
        if not self.size_dirty or old == new:
            return old
        first_between, last_between = old // SECTOR_BYTES + 1, (new - 1) // SECTOR_BYTES
        choice = rng.randrange(3 if first_between <= last_between else 2)
        if choice == 2:
            return rng.randint(first_between, last_between) * SECTOR_BYTES
        return (old, new)[choice]

    def _merge(self, sectors: Iterable[int], size: int) -> bytes:
        """The synced content with `sectors` from the current one; zeros where both have nothing."""
        image = bytearray(self.synced[:size])
        image.extend(bytes(size - len(image)))
        for sector in sectors:
            start = sector * SECTOR_BYTES
            end = min(start + SECTOR_BYTES, size)
            if start < end:
                image[start:end] = self.current[start:end].ljust(end - start, b"\0")
        return bytes(image)

    def _own(self) -> bytearray:
        if isinstance(self.current, bytes):
            self.current = bytearray(self.current)
        return self.current

    def _touch(self, start: int, end: int) -> None:
        self.written_at = next(_ticks)
        if start < end:
            self.dirty.update(range(start // SECTOR_BYTES, (end - 1) // SECTOR_BYTES + 1))
        if len(self.current) != len(self.synced):
            self.size_dirty = True


class Directory:
    """Names, as programs see them and as the disk has them, and the changes in between in order."""

    __slots__ = ("changed_at", "changes", "entries", "synced")

    def __init__(self, entries: dict[str, Node] | None = None) -> None:
        self.entries: dict[str, Node] = entries or {}
        self.synced = self.entries.copy()
        self.changes: list[Patch] = []
        self.changed_at = next(_ticks)

    def change(self, patch: Patch) -> None:
        """Change names; all of the patch survives a crash or none of it."""
        _apply(self.entries, patch)
        self.changes.append(patch)
        self.changed_at = next(_ticks)

    def sync(self) -> None:
        self.synced = self.entries.copy()
        self.changes = []

    def link_durably(self, name: str, node: Node) -> None:
        """Add one name for good. No contract says that other names gain by it, so they do not."""
        if any(name in patch for patch in self.changes):
            self.sync()  # changes are durable in order, and this name's history comes before
        if self.entries.get(name) is not node:
            self.changed_at = next(_ticks)
        self.entries[name] = self.synced[name] = node

    def entries_after(self, fate: Fate, rng: Random) -> dict[str, Node]:
        if fate is Fate.KEEP or not self.changes:
            return self.entries
        if fate is Fate.DROP:
            return self.synced
        entries = self.synced.copy()
        for patch in self.changes[: rng.randint(0, len(self.changes))]:
            _apply(entries, patch)
        return entries


Node: TypeAlias = Inode | Directory
# Names and what they stand for from now on; None for a name that goes away.
Patch: TypeAlias = dict[str, Node | None]


def _apply(entries: dict[str, Node], patch: Patch) -> None:
    for name, node in patch.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


def survivor(node: Node, fate: Fate, rng: Random, known: dict[Node, Node]) -> Node:
    """An independent, wholly synced copy of what a crash leaves of a node.

    `known` keeps an inode one inode when it has two names: a rename between two directories of
    which only the link was durable.
    """
    copy = known.get(node)
    if copy is None:
        if isinstance(node, Inode):
            copy = Inode(node.content_after(fate, rng))
            copy.written_at = node.written_at
        else:
            names = node.entries_after(fate, rng)
            copy = Directory({name: survivor(child, fate, rng, known) for name, child in names.items()})
            copy.changed_at = node.changed_at
        known[node] = copy
    return copy
