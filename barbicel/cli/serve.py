"""`barbicel serve`: the gateway, once there is one."""

from __future__ import annotations

import click

__all__ = ["serve"]


@click.command()
@click.pass_context
def serve(ctx: click.Context) -> None:
    """Serve Kafka and Kestrel clients (not in this release)."""
    click.echo("This release has the storage engine and its tools only: see 'barbicel log --help'.", err=True)
    click.echo("The Kafka and Kestrel front ends are not there yet, so there is nothing to serve.", err=True)
    ctx.exit(1)
