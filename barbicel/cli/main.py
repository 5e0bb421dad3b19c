"""The command `barbicel`: its verbs, and the one place where what went wrong becomes an exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import click

from barbicel import __version__
from barbicel.cli.endings import settle_output, translated, unwritable_exit_code

__all__ = ["cli", "main"]


# Group of verbs → its verbs, each with what imports it.
VERBS: Mapping[str, Mapping[str, Callable[[], click.Command]]] = {
    "cli": {
        "serve": lambda: import_module("barbicel.cli.serve").serve,
        "import-journals": lambda: import_module("barbicel.cli.import_journals").import_journals,
        "export-journals": lambda: import_module("barbicel.cli.export_journals").export_journals,
        "verify-import": lambda: import_module("barbicel.cli.verify_import").verify_import,
    },
    "log": {
        "inspect": lambda: import_module("barbicel.cli.log_inspect").inspect,
        "verify": lambda: import_module("barbicel.cli.log_verify").verify,
        "repair": lambda: import_module("barbicel.cli.log_repair").repair,
        "recover": lambda: import_module("barbicel.cli.log_recover").recover,
    },
    "group": {
        "inspect": lambda: import_module("barbicel.cli.group_inspect").inspect,
        "verify": lambda: import_module("barbicel.cli.group_verify").verify,
        "repair": lambda: import_module("barbicel.cli.group_repair").repair,
    },
}


class _Verbs(click.Group):
    """Only the verb that is used is imported: a server starts faster without what draws tables."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self._verbs})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self._verbs and cmd_name not in self.commands:
            self.add_command(self._verbs[cmd_name]())
        return super().get_command(ctx, cmd_name)

    @property
    def _verbs(self) -> Mapping[str, Callable[[], click.Command]]:
        return VERBS[self.name or ""]


class _Translating(_Verbs):
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


@cli.group(cls=_Verbs)
def log() -> None:
    """Look at the directory of a log, and mend it."""


@cli.group(cls=_Verbs)
def group() -> None:
    """Look at a directory of groups, and mend it."""


def main() -> None:
    try:
        cli(prog_name="barbicel")
    except OSError as error:
        sys.exit(unwritable_exit_code(error))
    finally:
        settle_output()


if __name__ == "__main__":
    main()
