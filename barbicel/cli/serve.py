"""`barbicel serve`: the gateway, until it is told to stop."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from barbicel.config.setting import ConfigError
from barbicel.config.settings import SETTINGS
from barbicel.config.sources import load_config
from barbicel.disk import RealDisk
from barbicel.gateway.admin.timed_disk import TimedDisk
from barbicel.gateway.log_lines import FORMATTERS
from barbicel.gateway.service import run

__all__ = ["serve"]


def _setting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """A flag for every setting, so that what the file can say a command line can say too."""
    for setting in reversed(list(SETTINGS.values())):
        option = click.option(
            setting.flag,
            setting.attribute,
            metavar=setting.rule.type.name,
            help=f"{setting.doc} Default: {setting.rule.render(setting.default) or 'none'}.",
        )
        command = option(command)
    return command


@click.command()
@click.option("--config", "path", metavar="FILE", help="The settings; barbicel.toml if there is one.")
@_setting_options
@click.pass_context
def serve(ctx: click.Context, /, path: str | None, **flags: str | None) -> None:
    """Serve Kafka and Kestrel clients.

    Settings come from the file, then from the environment (BARBICEL_LISTENERS, ...), then from flags; what
    comes later wins. barbicel.toml.example has all of them with their meaning.

    \b
    Example:
      barbicel serve --data-directory ./data --durability write

    \b
    Exit codes:
      0  stopped in order, by a signal or a client that may
      2  wrong settings, or it cannot start: the last line says why
    """
    given = {
        setting.name: text for setting in SETTINGS.values() if (text := flags[setting.attribute]) is not None
    }
    load = partial(load_config, RealDisk(), path=path, environment=os.environ, flags=given)
    try:
        config = load()
    except ConfigError as error:
        for problem in error.problems:
            click.echo(f"barbicel serve: {problem}", err=True)
        ctx.exit(2)
    lines = logging.StreamHandler()
    lines.setFormatter(FORMATTERS[config.log_format])
    logging.basicConfig(level=logging.INFO, handlers=[lines])
    run(TimedDisk(), config, load)
