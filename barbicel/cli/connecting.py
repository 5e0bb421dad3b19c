"""How commands reach a server: its address, and a file of client settings as Kafka's own tools take it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from barbicel.cli.client_file import client_settings
from barbicel.cli.options import directory_name
from barbicel.cli.server import Server, configured_address
from barbicel.cli.settings import loaded_config, parse_address
from barbicel.disk import RealDisk
from barbicel.gateway.access.administration import RunningServer, StoppedDirectory, UserAdministration

__all__ = ["connected_server", "connected_users", "server_options", "user_options"]

_bootstrap = click.option(
    "--bootstrap",
    "--bootstrap-server",
    "bootstrap",
    metavar="HOST:PORT",
    help="The running server, by its Kafka port; default: as its settings say.",
)
_command_config = click.option(
    "--client-config",
    "--command-config",
    "path",
    metavar="FILE",
    help="How to log in there, as Kafka's tools take it: security.protocol, sasl.mechanism, sasl.username and"
    " sasl.password or sasl.jaas.config, ssl.truststore.location and ssl.keystore.location as PEM files.",
)
_data_directory = click.option(
    "--data",
    "--data-directory",
    "directory",
    metavar="DIR",
    callback=directory_name,
    help="The data directory of a server that does not run; for the first user.",
)


def server_options(command: Callable[..., None]) -> Callable[..., None]:
    """`bootstrap` and `path`."""
    return _bootstrap(_command_config(command))


def user_options(command: Callable[..., None]) -> Callable[..., None]:
    """`bootstrap`, `path` and `directory`."""
    return server_options(_data_directory(command))


@contextmanager
def connected_users(
    bootstrap: str | None, path: str | None, directory: str | None, *, is_made: bool = False
) -> Iterator[UserAdministration]:
    """`is_made`: a data directory, if there is none. Who only looks takes a wrong name for an empty one."""
    if bootstrap is not None and directory is not None:
        raise click.UsageError("give --bootstrap or --data, one of them")
    if directory is not None:
        with StoppedDirectory.open(RealDisk(), directory, is_made=is_made) as files:
            yield files
    else:
        with connected_server(bootstrap, path) as server:
            yield server


@contextmanager
def connected_server(bootstrap: str | None, path: str | None) -> Iterator[RunningServer]:
    """Where the settings say, if nobody says where."""
    if bootstrap is None:
        host, port = configured_address(loaded_config(None))
    else:
        host, port = parse_address("--bootstrap", bootstrap)
    with Server(host, port, client_settings(path)).admin() as admin:
        yield RunningServer(admin)
