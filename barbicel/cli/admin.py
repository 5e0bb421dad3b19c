"""The operators' HTTP port of a running server: what it tells as JSON or text. Nothing is changed by it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

import click

from barbicel.cli.settings import reachable_host
from barbicel.config.settings import Config
from barbicel.gateway.client.connecting import NoServer, ServerRefused, address_text

__all__ = ["Admin", "admin_at", "admin_option"]

PATIENCE_SECONDS = 15
MAX_ANSWER_BYTES = 64 << 20
_HINT = "does the server run, and is admin.enable on? --admin URL says where"

# A proxy for the web knows nothing of this machine's own ports.
_DIRECTLY = build_opener(ProxyHandler({}))

admin_option = click.option(
    "--admin", metavar="URL", help="The running server's console; default: as its settings say."
)


class Admin(NamedTuple):
    url: str

    def json(self, path: str) -> dict[str, Any]:
        """Raises NoServer, ServerRefused."""
        try:
            told = json.loads(self.text(path))
        except ValueError:
            told = None
        if not isinstance(told, dict):
            raise ServerRefused(
                "this is no console of barbicel", path=f"{self.url}{path}", hint="see --admin"
            )
        return told

    def text(self, path: str) -> str:
        request = Request(f"{self.url}{path}", headers={"Accept": "application/json, text/plain"})
        try:
            with _DIRECTLY.open(request, timeout=PATIENCE_SECONDS) as answer:
                data: bytes = answer.read(MAX_ANSWER_BYTES)
        except HTTPError as error:
            raise ServerRefused(
                f"the server answered {error.code} {error.reason}", path=request.full_url
            ) from error
        except (URLError, OSError) as error:
            reason = getattr(error, "reason", error)
            raise NoServer(f"no server answers: {reason}", path=self.url, hint=_HINT) from error
        return data.decode("utf-8", "replace")


def admin_at(url: str | None, config: Config) -> Admin:
    if url is None:
        return Admin(f"http://{address_text(reachable_host(config.admin_host), config.admin_port)}")
    if not url.startswith(("http://", "https://")):
        raise click.UsageError("--admin is a URL that begins with http:// or https://")
    return Admin(url.rstrip("/"))
