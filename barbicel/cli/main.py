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
        "produce": lambda: import_module("barbicel.cli.produce").produce,
        "consume": lambda: import_module("barbicel.cli.consume").consume,
        "top": lambda: import_module("barbicel.cli.top").top,
        "doctor": lambda: import_module("barbicel.cli.doctor").doctor,
        "bundle": lambda: import_module("barbicel.cli.bundle").bundle,
        "completion": lambda: import_module("barbicel.cli.completion").completion,
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
    "topic": {
        "list": lambda: import_module("barbicel.cli.topic_list").list_topics,
        "describe": lambda: import_module("barbicel.cli.topic_describe").describe_topic,
        "create": lambda: import_module("barbicel.cli.topic_create").create_topic,
        "alter": lambda: import_module("barbicel.cli.topic_alter").alter_topic,
        "delete": lambda: import_module("barbicel.cli.topic_delete").delete_topics,
    },
    "queue": {
        "list": lambda: import_module("barbicel.cli.queue_list").list_queues,
        "describe": lambda: import_module("barbicel.cli.queue_describe").describe_queue,
        "put": lambda: import_module("barbicel.cli.queue_put").put_items,
        "get": lambda: import_module("barbicel.cli.queue_get").get_items,
        "peek": lambda: import_module("barbicel.cli.queue_peek").peek_item,
        "flush": lambda: import_module("barbicel.cli.queue_flush").flush_queue,
        "delete": lambda: import_module("barbicel.cli.queue_delete").delete_queue,
    },
    "group": {
        "list": lambda: import_module("barbicel.cli.group_list").list_groups,
        "describe": lambda: import_module("barbicel.cli.group_describe").describe_group,
        "reset": lambda: import_module("barbicel.cli.group_reset").reset_group,
        "delete": lambda: import_module("barbicel.cli.group_delete").delete_groups,
        "inspect": lambda: import_module("barbicel.cli.group_inspect").inspect,
        "verify": lambda: import_module("barbicel.cli.group_verify").verify,
        "repair": lambda: import_module("barbicel.cli.group_repair").repair,
    },
    "tier": {
        "status": lambda: import_module("barbicel.cli.tier_status").status,
        "flush": lambda: import_module("barbicel.cli.tier_flush").flush,
        "restore": lambda: import_module("barbicel.cli.tier_restore").restore_command,
    },
    "manifest": {
        "inspect": lambda: import_module("barbicel.cli.manifest_inspect").inspect_command,
        "verify": lambda: import_module("barbicel.cli.manifest_verify").verify_command,
    },
    "user": {
        "set": lambda: import_module("barbicel.cli.user_set").set_user,
        "delete": lambda: import_module("barbicel.cli.user_delete").delete_user,
        "list": lambda: import_module("barbicel.cli.user_list").list_users,
    },
    "acl": {
        "create": lambda: import_module("barbicel.cli.acl_create").create_acl,
        "delete": lambda: import_module("barbicel.cli.acl_delete").delete_acls,
        "list": lambda: import_module("barbicel.cli.acl_list").list_acls,
    },
    "pipeline": {
        "jars": lambda: import_module("barbicel.cli.pipeline_jars").jars,
        "import-journals": lambda: import_module("barbicel.cli.pipeline_import_journals").import_journals,
        "to-lake": lambda: import_module("barbicel.cli.pipeline_to_lake").to_lake,
        "verify": lambda: import_module("barbicel.cli.pipeline_verify").verify,
        "replay": lambda: import_module("barbicel.cli.pipeline_replay").replay,
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
    """Consumer groups of a running server; and a directory of groups: look at it, and mend it."""


@cli.group(cls=_Verbs)
def topic() -> None:
    """Topics of a running server."""


@cli.group(cls=_Verbs)
def queue() -> None:
    """Kestrel's queues of a running server."""


@cli.group(cls=_Verbs)
def tier() -> None:
    """What is in the object store, and what is not."""


@cli.group(cls=_Verbs)
def manifest() -> None:
    """Look at the logs that say where segments are."""


@cli.group(cls=_Verbs)
def user() -> None:
    """Who may log in, with which password."""


@cli.group(cls=_Verbs)
def acl() -> None:
    """What users may do on a running server."""


@cli.group(cls=_Verbs)
def pipeline() -> None:
    """Work on topics and journals with Spark."""


def main() -> None:
    try:
        cli(prog_name="barbicel")
    except OSError as error:
        sys.exit(unwritable_exit_code(error))
    finally:
        settle_output()


if __name__ == "__main__":
    main()
