"""The command `barbicel`: its verbs, and the one place where what went wrong becomes an exit code."""

from __future__ import annotations

import sys
from typing import Any

import click

from barbicel import __version__
from barbicel.cli import group_inspect, group_repair, group_verify
from barbicel.cli.endings import settle_output, translated, unwritable_exit_code
from barbicel.cli.log_inspect import inspect
from barbicel.cli.log_recover import recover
from barbicel.cli.log_repair import repair
from barbicel.cli.log_verify import verify
from barbicel.cli.serve import serve

__all__ = ["cli", "main"]


class _Translating(click.Group):
    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with translated():  # it may already print: --help, --version
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with translated():
            return super().invoke(ctx)


@click.group(cls=_Translating)
@click.version_option(__version__, prog_name="barbicel")
def cli() -> None:
    """One durable log that Kafka and Kestrel clients share."""


@cli.group()
def log() -> None:
    """Look at the directory of a log, and mend it."""


@cli.group()
def group() -> None:
    """Look at a directory of groups, and mend it."""


cli.add_command(serve)
for command in (inspect, verify, repair, recover):
    log.add_command(command)
for command in (group_inspect.inspect, group_verify.verify, group_repair.repair):
    group.add_command(command)


def main() -> None:
    try:
        cli(prog_name="barbicel")
    except OSError as error:
        sys.exit(unwritable_exit_code(error))
    finally:
        settle_output()


if __name__ == "__main__":
    main()
