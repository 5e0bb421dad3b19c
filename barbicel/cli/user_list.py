"""`barbicel user list`: who has a password."""

from __future__ import annotations

import click

from barbicel.cli.connecting import connected_users, user_options
from barbicel.cli.options import json_option
from barbicel.cli.page import Page, number_table, render_json

__all__ = ["list_users"]


@click.command("list")
@user_options
@json_option
def list_users(bootstrap: str | None, path: str | None, directory: str | None, as_json: bool) -> None:
    """Tell which users have a password, and how they may log in.

    \b
    Example:
      barbicel user list --client-config admin.properties

    \b
    Exit codes:
      0  told
      2  wrong usage, a refusal, or the server does not answer
    """
    with connected_users(bootstrap, path, directory) as users:
        found = users.users()
    if as_json:
        render_json({"users": [known._asdict() for known in found]})
    elif found:
        Page().table("Users", number_table(("user", "mechanism", "iterations"), found, ("user", "mechanism")))
    else:
        Page().line("No user has a password.")
