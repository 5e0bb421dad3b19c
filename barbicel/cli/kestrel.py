"""What every queue command takes: a running server by its Kestrel port, and a queue's name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from barbicel.cli.client_file import client_config_option, client_settings
from barbicel.cli.settings import config_option, loaded_config, parse_address, reachable_host
from barbicel.gateway.client.connecting import ServerRefused
from barbicel.gateway.client.kestrel_queues import KestrelServer, Queues
from barbicel.kestrel_compat.names import BadQueueName, parse_queue_name

__all__ = ["KestrelServer", "Queues", "kestrel_options", "known_queue", "queue_argument"]


def _queue_name(ctx: click.Context, param: click.Parameter, value: str) -> str:
    try:
        return parse_queue_name(value).text
    except BadQueueName as error:
        raise click.BadParameter(str(error), ctx, param) from error


queue_argument = click.argument("name", metavar="QUEUE", callback=_queue_name)
_KESTREL_OPTIONS = (
    click.option(
        "--kestrel",
        metavar="HOST:PORT",
        help="The running server, by its Kestrel port; default: as its settings say.",
    ),
    client_config_option,
    config_option,
)


def kestrel_options(command: Callable[..., None]) -> Callable[..., None]:
    """What every queue command takes; they become its `server`."""

    @functools.wraps(command)
    def serving(
        *arguments: Any, kestrel: str | None, client_file: str | None, path: str | None, **rest: Any
    ) -> None:
        server = KestrelServer(*_kestrel_address(kestrel, path), client_settings(client_file))
        command(*arguments, server=server, **rest)

    for option in reversed(_KESTREL_OPTIONS):
        serving = option(serving)
    return serving


def _kestrel_address(kestrel: str | None, path: str | None) -> tuple[str, int]:
    if kestrel is not None:
        return parse_address("--kestrel", kestrel)
    config = loaded_config(path)
    return reachable_host(config.kestrel_host), config.kestrel_port


def known_queue(queues: Queues, name: str) -> str:
    """Raises ServerRefused. To ask a queue anything else than its numbers would make it."""
    if name not in queues.names():
        raise ServerRefused(f"there is no queue {name}", hint="see 'barbicel queue list'")
    return name
