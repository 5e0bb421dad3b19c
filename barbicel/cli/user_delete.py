"""`barbicel user delete`: a user cannot log in any more."""

from __future__ import annotations

import click

from barbicel.cli.connecting import connected_users, user_options
from barbicel.cli.options import json_option
from barbicel.cli.page import Page, render_json

__all__ = ["delete_user"]


@click.command("delete")
@click.argument("name")
@user_options
@json_option
def delete_user(
    name: str, bootstrap: str | None, path: str | None, directory: str | None, as_json: bool
) -> None:
    """Take the password of the user NAME away.

    Connections that it has stay until they have to log in again, see connections.max.reauth.ms.

    \b
    Example:
      barbicel user delete alice --client-config admin.properties

    \b
    Exit codes:
      0  deleted
      2  wrong usage, a refusal, or the server does not answer
    """
    with connected_users(bootstrap, path, directory) as users:
        users.delete(name)
    if as_json:
        render_json({"deleted": name})
    else:
        Page().line(f"{name} cannot log in any more.")
