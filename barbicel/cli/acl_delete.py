"""`barbicel acl delete`: ACLs do not hold any more."""

from __future__ import annotations

import click

from barbicel.cli.acl_options import acl_rows, filter_options, tell_acls
from barbicel.cli.connecting import connected_server, server_options
from barbicel.cli.options import apply_option, json_option
from barbicel.cli.page import Page, render_json
from barbicel.gateway.access.acl_filter import AclFilter

__all__ = ["delete_acls"]


@click.command("delete")
@server_options
@apply_option
@json_option
@filter_options
def delete_acls(
    wanted: AclFilter, bootstrap: str | None, path: str | None, apply: bool, as_json: bool
) -> None:
    """Delete ACLs of a running server, all or those that are named. Without --apply they are only shown.

    \b
    Example:
      barbicel acl delete --principal User:alice --topic orders --apply

    \b
    Exit codes:
      0  deleted, or shown
      2  wrong usage, a refusal, or the server does not answer
    """
    with connected_server(bootstrap, path) as server:
        found = server.delete_acls(wanted) if apply else server.acls(wanted)
    if as_json:
        render_json({"deleted" if apply else "would_delete": acl_rows(found)})
    elif found:
        tell_acls("Deleted" if apply else "Would be deleted, with --apply", found)
    else:
        Page().line("There are no such ACLs.")
