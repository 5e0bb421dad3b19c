"""The standard output: one JSON document, or text for people.

A terminal gets lines that are broken between words. Anything else gets every statement on one line, however
long, so that it can be searched. No line ends with spaces.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from textwrap import wrap

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from barbicel.cli.plain import plain

__all__ = ["Page", "number_table", "pair_table", "render_json", "terminal_width", "time_text"]

INDENT = "  "
# No table is that wide: it is not broken.
UNBOUNDED_COLUMNS = 1 << 20


def time_text(timestamp_ms: int | None) -> str:
    """A timestamp for people, in UTC."""
    if timestamp_ms is None:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"  # any 64-bit number is allowed, a calendar ends earlier
    return f"{moment:%Y-%m-%d %H:%M:%S}.{timestamp_ms % 1000:03d}"


def render_json(document: dict[str, object]) -> None:
    click.echo(json.dumps(document, indent=2))


def terminal_width() -> int | None:
    """In columns; None if the standard output is no terminal."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return Console().width


class Page:
    """Text for people."""

    def __init__(self) -> None:
        self._width = terminal_width()
        self._console = Console(
            width=self._width or UNBOUNDED_COLUMNS, markup=False, emoji=False, highlight=False
        )

    def line(self, text: str) -> None:
        """A line that is never broken, so that a long path in it can be copied."""
        self._write(plain(text))

    def paragraph(self, text: str) -> None:
        for line in self._broken(text, indent=""):
            self._write(line)

    def section(self, title: str, lines: Iterable[str]) -> None:
        """Nothing if there are no lines."""
        broken = [part for line in lines for part in self._broken(line, INDENT)]
        if broken:
            self._show(title, broken)

    def table(self, title: str, table: Table) -> None:
        options = self._console.options.update(width=self._console.width - len(INDENT))
        rows = self._console.render_lines(table, options, pad=False)
        self._show(title, (INDENT + "".join(segment.text for segment in row) for row in rows))

    def ending(self, text: str) -> None:
        """What it all comes to, behind an empty line."""
        self._write("")
        self.paragraph(text)

    def _show(self, title: str, lines: Iterable[str]) -> None:
        self._write("")
        self._write(click.style(plain(title), bold=True))
        for line in lines:
            self._write(line)

    def _broken(self, text: str, indent: str) -> Sequence[str]:
        """A word is left whole even if it is wider than the terminal: it may be a path."""
        if self._width is None:
            return [indent + plain(text)]
        return wrap(
            plain(text),
            self._width,
            initial_indent=indent,
            subsequent_indent=indent * 2,
            break_long_words=False,
            break_on_hyphens=False,
        )

    def _write(self, line: str) -> None:
        """A character that the terminal does not know is escaped."""
        encoding = self._console.encoding
        click.echo(line.rstrip().encode(encoding, "backslashreplace").decode(encoding))


def number_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], words: Sequence[str] = ()
) -> Table:
    """Numbers stand right; the columns named in `words` stand left. A value of None is a dash.

    Names of groups and members may hold anything, also what a terminal would obey.
    """
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in columns:
        table.add_column(name, justify="left" if name in words else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text("-" if value is None else plain(str(value))) for value in row))
    return table


def pair_table(rows: Iterable[tuple[str, object]]) -> Table:
    """Names on the left, their values on the right."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(justify="right")
    for name, value in rows:
        table.add_row(plain(name), Text(plain(str(value))))
    return table
