"""What two servers said in the same conversation, compared field by field. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from tests.differential.plain import Names, plain
from tests.differential.talk import Said

__all__ = ["ABSENT", "Difference", "compare"]

ABSENT = "(absent)"


class Difference(NamedTuple):
    """One field. `path` names list elements by their key, or by their number."""

    conversation: str
    label: str
    api: str
    version: int
    path: str
    kafka: Any
    ours: Any

    def __str__(self) -> str:
        where = f"{self.conversation} / {self.label}: {self.api} v{self.version}"
        return f"{where}\n    {self.path}: Kafka {self.kafka!r}, ours {self.ours!r}"


def compare(conversation: str, kafka: Sequence[Said], ours: Sequence[Said]) -> list[Difference]:
    """Every difference, in the order of the conversation."""
    assert [said[:3] for said in kafka] == [said[:3] for said in ours], "the conversations went apart"
    names, our_names = Names(), Names()
    return [
        Difference(conversation, *theirs[:3], path, *values)
        for theirs, mine in zip(kafka, ours, strict=True)
        for path, *values in _differences("", plain(theirs, names), plain(mine, our_names))
    ]


def _differences(path: str, kafka: Any, ours: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(kafka, dict) and isinstance(ours, dict):
        for key in dict.fromkeys((*kafka, *ours)):
            yield from _differences(
                f"{path}.{key}".lstrip("."), kafka.get(key, ABSENT), ours.get(key, ABSENT)
            )
    elif isinstance(kafka, list) and isinstance(ours, list):
        for number, pair in enumerate(zip_longest(kafka, ours, fillvalue=ABSENT)):
            yield from _differences(f"{path}[{number}]", *pair)
    elif kafka != ours:
        yield path, kafka, ours
