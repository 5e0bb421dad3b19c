"""Templates and files of the console, read once. Everything that a template is given is escaped."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from barbicel import __version__
from barbicel.gateway.admin.addresses import render_address
from barbicel.gateway.admin.console import formats

__all__ = ["Rendering", "StaticFile"]

PACKAGE = "barbicel.gateway.admin.console"
# Name → type.
_FILES = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "feather.svg": "image/svg+xml",
}
_FILTERS = {
    "bytes": formats.render_bytes,
    "count": formats.render_count,
    "duration": formats.render_duration,
    "hexdump": formats.render_hex,
    "pretty": formats.render_pretty,
    "rate": formats.render_rate,
    "time": formats.render_time,
}


class StaticFile(NamedTuple):
    content_type: str
    data: bytes


class Rendering:
    """Made in a thread: it reads files, and compiles all templates."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=PackageLoader(PACKAGE, "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters.update(_FILTERS)
        files = PackageLoader(PACKAGE, "static")
        self.files = {
            name: StaticFile(kind, files.get_source(self._environment, name)[0].encode())
            for name, kind in _FILES.items()
        }
        # A part of the files' addresses, so that browsers keep them until they change.
        self.files_hash = sha256(b"".join(file.data for file in self.files.values())).hexdigest()[:16]
        self._environment.globals.update(
            address=render_address, files_hash=self.files_hash, version=__version__
        )
        for name in self._environment.list_templates():
            self._environment.get_template(name)

    def page(self, template: str, context: dict[str, Any]) -> bytes:
        return self._environment.get_template(template).render(context).encode("utf-8", "replace")
