"""What commands take that look into an object store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from barbicel.disk import Disk
from barbicel.tier.object_store import ObjectStore
from barbicel.tier.stores import open_store

__all__ = ["namespace_option", "opened_store", "store_options"]

namespace_option = click.option(
    "--namespace", metavar="NAME", help="The cluster's namespace in the store; default: the only one."
)
_STORE_OPTIONS = (
    click.argument("url", metavar="URL"),
    click.option("--endpoint", metavar="URL", help="The S3 server; default: AWS_ENDPOINT_URL, or Amazon's."),
    click.option("--region", metavar="NAME", help="The bucket's region; default: AWS_REGION."),
)


def store_options(command: Callable[..., None]) -> Callable[..., None]:
    """The URL of a store, and where S3 is."""
    for option in reversed(_STORE_OPTIONS):
        command = option(command)
    return command


@contextmanager
def opened_store(disk: Disk, url: str, endpoint: str | None, region: str | None) -> Iterator[ObjectStore]:
    given = {"endpoint": endpoint, "region": region}
    options = {name: value for name, value in given.items() if value is not None}
    store = open_store(url, disk=disk, options=options)
    try:
        yield store
    finally:
        store.close()
