"""`barbicel completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

__all__ = ["completion"]

PROGRAM = "barbicel"
# Click looks for this variable whenever the program starts.
VARIABLE = "_BARBICEL_COMPLETE"
SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script with which SHELL completes commands and options.

    \b
    Examples:
      barbicel completion bash > ~/.local/share/bash-completion/completions/barbicel
      barbicel completion zsh > ~/.zfunc/_barbicel
      barbicel completion fish > ~/.config/fish/completions/barbicel.fish
    """
    known = get_completion_class(shell)
    assert known is not None, shell
    click.echo(known(ctx.find_root().command, {}, PROGRAM, VARIABLE).source())
