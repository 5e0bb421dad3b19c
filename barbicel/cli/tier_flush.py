"""`barbicel tier flush`: everything into the object store, now. By the running server, or without one."""

from __future__ import annotations

import json
from dataclasses import replace
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import click

from barbicel.cli.import_journals import config_option, data_option, loaded_config
from barbicel.cli.offsets import counted
from barbicel.cli.options import json_option
from barbicel.cli.page import Page, render_json
from barbicel.config.settings import Config
from barbicel.disk import Disk, RealDisk, read_file
from barbicel.errors import BarbicelError
from barbicel.gateway.broker.data_layout import DataLayout

__all__ = ["flush"]

EXIT_INCOMPLETE = 3
TOKEN_MAX_BYTES = 4096
ANSWER_MAX_BYTES = 16 << 20
# Everything is uploaded before the server answers.
PATIENCE_SECONDS = 3600


@click.command()
@data_option
@config_option
@click.option("--admin", metavar="URL", help="The running server's console; default: as its settings say.")
@json_option
@click.pass_context
def flush(ctx: click.Context, data: str | None, path: str | None, admin: str | None, as_json: bool) -> None:
    """Seal the open segments of tiered topics and upload everything that the object store does not have.

    A server that runs on the directory is asked to; without one it is done here.

    \b
    Example:
      barbicel tier flush --data ./data

    \b
    Exit codes:
      0  the store has everything
      2  wrong usage, or nothing could be done
      3  something could not be uploaded
    """
    disk, config = RealDisk(), loaded_config(path)
    layout = DataLayout(disk.resolve(data or config.data_directory))
    if disk.lock_holder(layout.lock) is None:
        problems, partitions = _flush_here(disk, config, layout)
    else:
        problems, partitions = _ask(disk, config, layout, admin)
    if as_json:
        render_json({"partitions": partitions, "problems": problems})
    else:
        page = Page()
        page.section("Problems", problems)
        done = counted(partitions, "tiered partition")
        page.ending(f"{done} flushed{', not all of it' if problems else ''}.")
    ctx.exit(EXIT_INCOMPLETE if problems else 0)


def _flush_here(disk: Disk, config: Config, layout: DataLayout) -> tuple[list[str], int]:
    from barbicel.gateway.broker.tiering.offline import flush_directory

    flushed = flush_directory(disk, replace(config, data_directory=layout.root))
    return flushed.problems, flushed.partitions


def _ask(disk: Disk, config: Config, layout: DataLayout, admin: str | None) -> tuple[list[str], int]:
    path = config.admin_token_file
    token = read_file(disk, path if path.startswith("/") else f"{layout.root}/{path}", TOKEN_MAX_BYTES)
    url = (admin or f"http://{config.admin_host}:{config.admin_port}").rstrip("/")
    return _post(f"{url}/api/tier/flush", token.decode("ascii", "replace").strip())


def _post(url: str, token: str) -> tuple[list[str], int]:
    if not url.startswith(("http://", "https://")):
        raise click.UsageError("--admin is a URL that begins with http:// or https://")
    request = Request(url, data=b"", method="POST", headers={"Authorization": f"Bearer {token}"})
    try:
        with urlopen(request, timeout=PATIENCE_SECONDS) as response:
            answer = json.loads(response.read(ANSWER_MAX_BYTES))
            return list(map(str, answer["problems"])), int(answer["partitions"])
    except HTTPError as error:
        error.close()
        hint = "is tiering switched on there?" if error.code == 404 else None
        raise BarbicelError(
            f"the server answered {error.code} {error.reason}", path=url, hint=hint
        ) from error
    except (OSError, HTTPException) as error:  # a URLError is one; also if the server ends meanwhile
        raise BarbicelError(f"the server cannot be asked: {error}", path=url, hint="see --admin") from error
    except (ValueError, KeyError, TypeError) as error:
        raise BarbicelError("that is no server of ours", path=url, hint="see --admin") from error
