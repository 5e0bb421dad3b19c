"""`barbicel acl create`: allow or deny a principal something."""

from __future__ import annotations

from collections.abc import Sequence

import click

from barbicel.cli.acl_options import (
    OPERATIONS,
    OperationName,
    acl_rows,
    resource_of,
    resource_options,
    tell_acls,
)
from barbicel.cli.connecting import connected_server, server_options
from barbicel.cli.options import json_option
from barbicel.cli.page import render_json
from barbicel.codecs.kafka.acls import Acl, Pattern, Permission
from barbicel.gateway.access.acl_filter import check_acl

__all__ = ["create_acl"]


@click.command("create")
@server_options
@click.option("--principal", metavar="User:NAME", required=True, help="Who; User:* is everybody.")
@click.option("--host", default="*", metavar="ADDRESS", help="From where; * is everywhere.")
@click.option(
    "--operation",
    "operations",
    type=OperationName(list(OPERATIONS), case_sensitive=False),
    multiple=True,
    required=True,
    metavar="OPERATION",
    help=f"What, one of {', '.join(OPERATIONS)}; may be given several times.",
)
@click.option("--deny", is_flag=True, help="Deny it; without this it is allowed.")
@resource_options
@json_option
def create_acl(
    bootstrap: str | None,
    path: str | None,
    principal: str,
    host: str,
    operations: Sequence[str],
    deny: bool,
    topic: str | None,
    group: str | None,
    cluster: bool,
    prefixed: bool,
    as_json: bool,
) -> None:
    """Create ACLs on a running server. They hold at once.

    \b
    Example:
      barbicel acl create --client-config admin.properties \\
        --principal User:alice --operation read --topic orders

    \b
    Exit codes:
      0  created
      2  wrong usage, a refusal, or the server does not answer
    """
    resource, name = resource_of(topic, group, cluster)
    if name is None:
        raise click.UsageError("give --topic, --group or --cluster")
    pattern = Pattern.PREFIXED if prefixed else Pattern.LITERAL
    permission = Permission.DENY if deny else Permission.ALLOW
    acls = [
        check_acl(Acl(resource, name, pattern, principal, host, OPERATIONS[text], permission))
        for text in dict.fromkeys(operations)
    ]
    with connected_server(bootstrap, path) as server:
        server.create_acls(acls)
    if as_json:
        render_json({"created": acl_rows(acls)})
    else:
        tell_acls("Created", acls)
