"""`barbicel acl list`: which ACLs there are."""

from __future__ import annotations

import click

from barbicel.cli.acl_options import acl_rows, filter_options, tell_acls
from barbicel.cli.connecting import connected_server, server_options
from barbicel.cli.options import json_option
from barbicel.cli.page import Page, render_json
from barbicel.gateway.access.acl_filter import AclFilter

__all__ = ["list_acls"]


@click.command("list")
@server_options
@json_option
@filter_options
def list_acls(wanted: AclFilter, bootstrap: str | None, path: str | None, as_json: bool) -> None:
    """Tell which ACLs a running server has, all or those that are named.

    \b
    Example:
      barbicel acl list --principal User:alice

    \b
    Exit codes:
      0  told
      2  wrong usage, a refusal, or the server does not answer
    """
    with connected_server(bootstrap, path) as server:
        found = server.acls(wanted)
    if as_json:
        render_json({"acls": acl_rows(found)})
    elif found:
        tell_acls("ACLs", found)
    else:
        Page().line("There are no such ACLs.")
