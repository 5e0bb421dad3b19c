"""The command `barbicel`: its verbs, and the one place where an error becomes a line and an exit code."""

from __future__ import annotations

from typing import Any

import click

from barbicel import __version__
from barbicel.cli import group_inspect, group_repair, group_verify
from barbicel.cli.log_inspect import inspect
from barbicel.cli.log_recover import recover
from barbicel.cli.log_repair import repair
from barbicel.cli.log_report import plain
from barbicel.cli.log_verify import verify
from barbicel.cli.serve import serve
from barbicel.errors import BarbicelError

__all__ = ["cli", "main"]


class _Refusal(click.ClickException):
    """What could not be done, in one line. The same exit code as for wrong usage."""

    exit_code = 2


class _Translating(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BarbicelError as error:
            raise _Refusal(plain(str(error))) from error


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
    cli(prog_name="barbicel")


if __name__ == "__main__":
    main()
