"""`barbicel user set`: give a user a password."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from barbicel.cli.connecting import connected_users, user_options
from barbicel.cli.options import json_option
from barbicel.cli.page import Page, render_json
from barbicel.gateway.access.scram import MECHANISMS

__all__ = ["set_user"]

MIN_CHARS = 8
MAX_CHARS = 1024


@click.command("set")
@click.argument("name")
@user_options
@click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice(list(MECHANISMS)),
    multiple=True,
    help="How the user may log in; both if it is not given. PLAIN takes either.",
)
@json_option
def set_user(
    name: str,
    bootstrap: str | None,
    path: str | None,
    directory: str | None,
    mechanisms: Sequence[str],
    as_json: bool,
) -> None:
    """Give the user NAME a password, or another one.

    The password is asked for, or is the first line of the standard input: what stands on a command line
    others can see. It is not kept, neither here nor by the server.

    \b
    Example, for the first user of a server that does not run:
      barbicel user set admin --data /var/lib/barbicel/data

    \b
    Exit codes:
      0  set
      2  wrong usage, a refusal, or the server does not answer
    """
    if not name.strip() or not name.isprintable():
        raise click.UsageError("the name is empty, or cannot be printed")
    chosen = list(dict.fromkeys(mechanisms)) or list(MECHANISMS)
    password = _password()
    with connected_users(bootstrap, path, directory, is_made=True) as users:
        users.set_password(name, password, chosen)
    if as_json:
        render_json({"user": name, "mechanisms": chosen})
    else:
        Page().line(f"{name} can log in with {' and '.join(chosen)}.")


def _password() -> str:
    if sys.stdin.isatty():
        password: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not MIN_CHARS <= len(password) <= MAX_CHARS or "\0" in password:
        raise click.UsageError(f"a password has {MIN_CHARS} to {MAX_CHARS} characters")
    return password
