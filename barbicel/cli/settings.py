"""The server's settings as a command needs them: where its data is, and where it listens."""

from __future__ import annotations

import os

import click

from barbicel.cli.options import directory_name
from barbicel.config.setting import ConfigError
from barbicel.config.settings import Config
from barbicel.config.sources import load_config
from barbicel.disk import RealDisk

__all__ = ["config_option", "data_option", "loaded_config", "parse_address", "reachable_host"]

# What a server that listens everywhere is reached under from its own machine.
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}

data_option = click.option(
    "--data",
    metavar="DIR",
    callback=directory_name,
    help="The data directory; default: as the server's settings say.",
)
config_option = click.option(
    "--config", "path", metavar="FILE", help="The server's settings; barbicel.toml if there is one."
)


def loaded_config(path: str | None) -> Config:
    try:
        return load_config(RealDisk(), path=path, environment=os.environ)
    except ConfigError as error:
        raise click.UsageError("; ".join(error.problems)) from error


def parse_address(option: str, text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise click.UsageError(f"{option} is HOST:PORT, not {text!r}")
    return host.strip("[]"), int(port)


def reachable_host(host: str) -> str:
    """Where a client on this machine connects to a server that listens on `host`."""
    return _EVERYWHERE.get(host, host)
