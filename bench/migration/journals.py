"""Journals as Kestrel's users have them, with items of 1 KB."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from barbicel.codecs.kestrel_journal import (
    encode_addx,
    encode_confirm_remove,
    encode_remove,
    encode_remove_tentative,
)
from barbicel.kestrel_compat.journals.queue import JournalFile

__all__ = ["ITEM_BYTES", "JOURNALS", "Journal", "write_journal"]

ITEM_BYTES = 1024
FIRST_MS = 1_300_000_000_000
# Items that wait in a queue that is neither empty nor full.
DEPTH = 1000


class Journal(NamedTuple):
    """A kind of journal: the operations that `items` items make, each as bytes."""

    name: str
    reading: str
    operations: Callable[[int], Iterator[bytes]]


def _adds(count: int) -> Iterator[bytes]:
    data = os.urandom(ITEM_BYTES)
    return (encode_addx(data, FIRST_MS + number, None) for number in range(count))


def _backlog(items: int) -> Iterator[bytes]:
    return _adds(items)


def _gets(items: int) -> Iterator[bytes]:
    for number, add in enumerate(_adds(items)):
        yield add
        if number >= DEPTH:
            yield encode_remove()


def _open_reads(items: int) -> Iterator[bytes]:
    for number, add in enumerate(_adds(items)):
        yield add
        if number >= DEPTH:
            yield encode_remove_tentative(number)
            yield encode_confirm_remove(number)


def _mixed(items: int) -> Iterator[bytes]:
    """Every other read is a plain get."""
    for number, add in enumerate(_adds(items)):
        yield add
        if number < DEPTH:
            continue
        if number % 2:
            yield encode_remove()
        else:
            yield encode_remove_tentative(number)
            yield encode_confirm_remove(number)


JOURNALS = (
    Journal(
        "adds, gets, open reads", "half of the items are read by plain gets, half opened, closed", _mixed
    ),
    Journal(
        "adds and open reads", "every item is opened and closed, some time after it was added", _open_reads
    ),
    Journal("adds and gets", "every item is read by a plain get, some time after it was added", _gets),
    Journal("a backlog", "nothing was read: every operation is an item", _backlog),
)


def write_journal(journal: Journal, directory: str, items: int) -> tuple[JournalFile, int]:
    """The file, and how many operations it has."""
    name = journal.name.replace(" ", "-").replace(",", "")
    operations = list(journal.operations(items))
    Path(directory, name).write_bytes(b"".join(operations))
    return JournalFile(name, Path(directory, name).stat().st_size, FIRST_MS), len(operations)
