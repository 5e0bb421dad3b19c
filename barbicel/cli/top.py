"""`barbicel top`: what a running server does, again and again."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from io import StringIO

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from barbicel.cli.admin import Admin, admin_at, admin_option
from barbicel.cli.options import json_option
from barbicel.cli.page import Page, render_json
from barbicel.cli.plain import plain
from barbicel.cli.server import NoServer
from barbicel.cli.settings import config_option, loaded_config
from barbicel.cli.top_screen import Snapshot, render, take_snapshot

__all__ = ["top"]

# The head and the frames of three tables.
FRAME_ROWS = 5 + 3 * 4
# Where the output is no terminal: rows enough for a report, in columns enough for a name.
PLAIN_ROWS = 60
PLAIN_COLUMNS = 110


@click.command()
@click.option("--once", is_flag=True, help="Print it once and end. So it is if the output is no terminal.")
@click.option(
    "--interval", metavar="SECONDS", type=click.FloatRange(0.2, 3600), default=2.0, show_default=True
)
@admin_option
@config_option
@json_option
def top(once: bool, interval: float, admin: str | None, path: str | None, as_json: bool) -> None:
    """Show what the server does: rates of topics and queues, lags of groups, disk, memory.

    The busiest topics, the fullest queues and the slowest groups come first. Rates are those of the last 15
    seconds. It ends with Ctrl-C.

    \b
    Examples:
      barbicel top
      barbicel top --once --json --admin http://localhost:8080

    \b
    Exit codes:
      0  shown
      2  wrong usage, or the server does not answer
    """
    server = admin_at(admin, loaded_config(path))
    snapshot = take_snapshot(server)
    if as_json:
        render_json(snapshot._asdict())
    elif once or not sys.stdout.isatty():
        _print(snapshot)
    else:
        with suppress(KeyboardInterrupt):
            _watch(server, snapshot, interval)


def _print(snapshot: Snapshot) -> None:
    console = Console(width=PLAIN_COLUMNS, record=True, file=StringIO())
    console.print(render(snapshot, PLAIN_ROWS))
    page = Page()
    for line in console.export_text().splitlines():
        page.line(line)


def _watch(server: Admin, snapshot: Snapshot, interval: float) -> None:
    """Until it is interrupted. A server that is away for a while comes back on the same screen."""
    console = Console()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(render(snapshot, max(3, console.height - FRAME_ROWS)), refresh=True)
            time.sleep(interval)
            try:
                snapshot = take_snapshot(server)
            except NoServer as error:
                live.update(Text(plain(str(error)), style="bold red"), refresh=True)
