"""`barbicel tier restore`: a data directory from the object store alone."""

from __future__ import annotations

import click

from barbicel.cli.offsets import counted
from barbicel.cli.options import directory_name, json_option
from barbicel.cli.page import Page, number_table, render_json
from barbicel.cli.stores import namespace_option, opened_store, store_options
from barbicel.disk import RealDisk
from barbicel.errors import StoreRefused
from barbicel.gateway.broker.tiering.restore import RestoredPartition, find_namespaces, restore
from barbicel.tier.keys import Keys
from barbicel.tier.object_store import ObjectStore

__all__ = ["restore_command"]

EXIT_INCOMPLETE = 3
COLUMNS = ("partition", "start", "end", "segments", "bytes", "adopted")


@click.command("restore")
@store_options
@click.argument("target", metavar="DIR", callback=directory_name)
@namespace_option
@json_option
@click.pass_context
def restore_command(
    ctx: click.Context,
    url: str,
    target: str,
    namespace: str | None,
    endpoint: str | None,
    region: str | None,
    as_json: bool,
) -> None:
    """Make the data directory DIR from what the object store at URL has.

    Records stay in the store and are read from there. What was never uploaded is lost, and so are the
    positions of consumers.

    \b
    Examples:
      barbicel tier restore s3://bucket/prefix ./data
      barbicel tier restore ./old/object-store ./data

    \b
    Exit codes:
      0  restored
      2  wrong usage, or nothing was restored
      3  restored, and something is missing or damaged
    """
    disk = RealDisk()
    with opened_store(disk, url, endpoint, region) as store:
        keys = Keys(namespace or _only_namespace(store))
        restored = list(restore(store, keys, disk, disk.resolve(target)))
    if as_json:
        render_json(
            {
                "target": target,
                "namespace": keys.namespace,
                "partitions": [one._asdict() for one in restored],
            }
        )
    else:
        _tell(Page(), target, restored)
    ctx.exit(EXIT_INCOMPLETE if any(one.problems for one in restored) else 0)


def _only_namespace(store: ObjectStore) -> str:
    found = find_namespaces(store)
    if len(found) != 1:
        what = f"there are {len(found)}: {', '.join(found)}" if found else "there is none"
        raise StoreRefused(
            f"which namespace? {what}", path=store.url, hint="--namespace, or another URL: see tier.store"
        )
    return found[0]


def _tell(page: Page, target: str, restored: list[RestoredPartition]) -> None:
    page.line(f"Data {target}")
    rows = [(f"{one.topic}-{one.partition}", one.start_offset, one.end_offset, *one[4:7]) for one in restored]
    if rows:
        page.table("Partitions", number_table(COLUMNS, rows, words=("partition",)))
    page.section(
        "Problems",
        [f"{one.topic}-{one.partition}: {problem}" for one in restored for problem in one.problems],
    )
    segments = sum(one.segments for one in restored)
    page.ending(f"Restored {counted(len(restored), 'partition')} of {counted(segments, 'segment')}.")
