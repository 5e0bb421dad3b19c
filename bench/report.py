"""What was measured, and its three forms: a table on the terminal, JSON, a page of documentation."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple

from rich.console import Console
from rich.table import Table

__all__ = ["Measurement", "Target", "compare", "print_table", "render_markdown", "write_json"]


class Target(NamedTuple):
    """What a ratio should be."""

    relation: Literal[">=", "<="]
    bound: float

    def is_met(self, ratio: float) -> bool:
        return ratio >= self.bound if self.relation == ">=" else ratio <= self.bound

    def __str__(self) -> str:
        return f"{self.relation} {self.bound:g}"


@dataclass(frozen=True, slots=True)
class Measurement:
    """One row. A ratio is ours divided by the peer's, whichever of the two is the better one."""

    name: str
    value: float
    unit: str
    # What the row compares or counts, in a sentence.
    reading: str
    ratio: float | None = None
    # The smallest and the largest ratio of a single round.
    spread: tuple[float, float] | None = None
    against: str | None = None
    target: Target | None = None

    @property
    def ok(self) -> bool | None:
        if self.target is None or self.ratio is None:
            return None
        return self.target.is_met(self.ratio)


def compare(
    name: str,
    unit: str,
    ours: Sequence[float],
    peer: Sequence[float],
    *,
    against: str,
    reading: str,
    target: Target | None = None,
) -> Measurement:
    """The medians of ours and of the peer, and how they relate; both were measured in the same rounds."""
    by_round = [one / other for one, other in zip(ours, peer, strict=True)]
    return Measurement(
        name,
        median(ours),
        unit,
        reading,
        ratio=median(ours) / median(peer),
        spread=(min(by_round), max(by_round)),
        against=f"{against}: {_number(median(peer))} {unit}",
        target=target,
    )


def write_json(path: Path, measurements: Sequence[Measurement]) -> None:
    rows = [
        {
            "name": row.name,
            "value": row.value,
            "unit": row.unit,
            "ratio": row.ratio,
            "against": row.against,
            "target": None if row.target is None else str(row.target),
            "ok": row.ok,
        }
        for row in measurements
    ]
    path.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


COLUMNS = ("what", "value", "ratio", "rounds", "target", "met", "against")
RIGHT_ALIGNED = {"value", "ratio"}
MIN_WIDTH = 150


def print_table(part: str, measurements: Sequence[Measurement]) -> None:
    table = Table(title=part)
    for column in COLUMNS:
        table.add_column(column, justify="right" if column in RIGHT_ALIGNED else "left")
    for row in measurements:
        table.add_row(*_cells(row), style="bold red" if row.ok is False else None)
    console = Console()
    console.width = max(console.width, MIN_WIDTH)  # a pipe has no width of its own
    console.print(table)


def _cells(row: Measurement) -> tuple[str, ...]:
    return (
        row.name,
        f"{_number(row.value)} {row.unit}",
        "" if row.ratio is None else _ratio(row.ratio),
        "" if row.spread is None else f"{_ratio(row.spread[0])} to {_ratio(row.spread[1])}",
        "" if row.target is None else str(row.target),
        {None: "", True: "yes", False: "NO"}[row.ok],
        row.against or "",
    )


def _number(value: float) -> str:
    """Three digits that mean something."""
    digits = 0 if value >= 100 or value == int(value) else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}"


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


PAGE_HEAD = """\
# Performance

Written by `python -m bench --markdown docs/performance.md`; do not edit by hand.

Absolute figures say more about this machine than about Barbicel, so whatever can be is a ratio against a
bare loop over the same bytes, measured in the same run: the rounds alternate between ours and the peer,
and both columns are medians. `rounds` is the smallest and the largest ratio of a single round: how much
the machine's noise weighs. Nothing keeps other processes off the machine meanwhile; where they were busy,
`rounds` is wide.
"""


SECTION = re.compile(r"^## (.+)\n", re.MULTILINE)


def render_markdown(
    machine: dict[str, str], results: dict[str, list[Measurement]], page: str = "", parts: Sequence[str] = ()
) -> str:
    """The page with these results. What was not measured now is kept from the page as it was, if it is one of
    the parts, whose order is the page's."""
    names_and_texts = iter(SECTION.split(page)[1:])
    sections = {name: text.strip("\n") for name, text in zip(names_and_texts, names_and_texts, strict=True)}
    sections["Machine"] = "\n".join(f"- {name}: {fact}" for name, fact in machine.items())
    sections |= {part: _render_part(measurements) for part, measurements in results.items()}
    shown = [name for name in dict.fromkeys(("Machine", *parts, *results)) if name in sections]
    return "\n".join([PAGE_HEAD, *(f"## {name}\n\n{sections[name]}\n" for name in shown)])


def _render_part(measurements: Sequence[Measurement]) -> str:
    lines = [_markdown_row(COLUMNS), _markdown_row([_rule(column) for column in COLUMNS])]
    lines += [_markdown_row(_cells(row)) for row in measurements]
    lines += ["", "What the rows compare:", ""]
    return "\n".join(lines + [f"- {row.name}: {row.reading}" for row in measurements])


def _rule(column: str) -> str:
    return "---:" if column in RIGHT_ALIGNED else "---"


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
