"""`barbicel export-journals`: queues as journals that Kestrel replays, so that a migration can be undone."""

from __future__ import annotations

from collections.abc import Sequence

import click

from barbicel.cli.import_journals import config_option, data_option, loaded_config, queue_option
from barbicel.cli.offsets import counted
from barbicel.cli.options import directory_name, json_option
from barbicel.cli.page import Page, number_table, render_json
from barbicel.disk import RealDisk
from barbicel.gateway.migration.directory_target import DirectoryTarget, check_apart
from barbicel.gateway.migration.export import Exported, export_queues

__all__ = ["export_journals"]

EXIT_LEFT_OUT = 1


@click.command("export-journals")
@click.argument("destination", metavar="DEST", callback=directory_name)
@queue_option
@data_option
@config_option
@json_option
@click.pass_context
def export_journals(
    ctx: click.Context,
    destination: str,
    queues: Sequence[str],
    data: str | None,
    path: str | None,
    as_json: bool,
) -> None:
    """Write the queues of a data directory into DEST, as journals of Kestrel 2.4. No server may run on it.

    What is unread is written in order, with its time of adding and its expiry, and what is open as an open
    read. The queues stay as they are, and no journal in DEST is overwritten.

    \b
    Example:
      barbicel export-journals /var/spool/kestrel.new --data ./data

    \b
    Exit codes:
      0  written
      1  written, but a name is too long for a file, or items cannot be read: see the list
      2  wrong usage, or something cannot be read or written
    """
    disk, config = RealDisk(), loaded_config(path)
    directory = data or config.data_directory
    check_apart(disk, destination, directory, are_written=True)
    with DirectoryTarget.open(disk, directory, config=config, may_create=False) as target:
        exported = export_queues(disk, target, destination, queues)
    if as_json:
        lines = [line._asdict() for line in exported.lines]
        unreadable = [one._asdict() for one in exported.unreadable]
        report = {"queues": lines, "left_out": exported.left_out, "unreadable": unreadable}
        render_json({"destination": destination, **report})
    else:
        _tell(Page(), destination, exported)
    ctx.exit(EXIT_LEFT_OUT if exported.left_out or exported.unreadable else 0)


def _tell(page: Page, destination: str, exported: Exported) -> None:
    page.line(f"Journals {destination}")
    lines = exported.lines
    if lines:
        page.table("Queues", number_table(("queue", "items", "open", "bytes"), lines, words=("queue",)))
    page.section("Not written, the name is too long for a file", exported.left_out)
    page.section(
        "Cannot be read, by nobody",
        [
            f"{one.queue}, offsets {one.first_offset} to {one.last_offset}: {one.reason}"
            for one in exported.unreadable
        ],
    )
    items = sum(line.items for line in lines)
    page.ending(f"Wrote {counted(len(lines), 'journal')} of {counted(items, 'item')}.")
