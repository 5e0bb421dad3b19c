"""The token that changes need: read from its file, or made at the first start.

The file is its owner's alone. What a request sends is compared in a time that says nothing about the token.
"""

from __future__ import annotations

import hmac
import logging
import re
import secrets

from barbicel.config.admin_settings import AdminSettings
from barbicel.disk import Disk, parent, read_file
from barbicel.errors import BarbicelError

__all__ = ["is_bearer_of", "provide_token", "read_token", "token_path"]

_log = logging.getLogger(__name__)

TOKEN_BYTES = 32
MAX_FILE_BYTES = 4096
# What HTTP allows as a bearer token (RFC 6750), and not so short that somebody would try them all.
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{16,512}=*", re.ASCII)


def token_path(config: AdminSettings, data_directory: str) -> str:
    path = config.admin_token_file
    return path if path.startswith("/") else f"{data_directory}/{path}"


def provide_token(disk: Disk, path: str) -> str:
    """Waits for the disk. Raises BarbicelError if the file holds no token, or cannot be read or made."""
    if not disk.exists(path):
        _make(disk, path)
    return read_token(disk, path)


def read_token(disk: Disk, path: str) -> str:
    """The same of a file that is there."""
    text = read_file(disk, path, MAX_FILE_BYTES).decode("ascii", "replace").strip()
    if not _TOKEN.fullmatch(text):
        raise BarbicelError(
            "this is no token: 16 or more letters, digits and any of . _ ~ + / -",
            path=path,
            hint="remove the file, and the next start makes one",
        )
    return text


def _make(disk: Disk, path: str) -> None:
    """Under another name first: a crash must not leave half a token."""
    temporary = f"{path}.new"
    if disk.exists(temporary):
        disk.unlink(temporary)
    file = disk.open(temporary, "create_private")
    try:
        file.append([f"{secrets.token_urlsafe(TOKEN_BYTES)}\n".encode("ascii")])
        file.fdatasync()
    finally:
        file.close()
    disk.rename(temporary, path)
    disk.sync_directory(parent(path))
    _log.info("the token for changes in the console is in %s", path)


def is_bearer_of(token: str, authorization: str | None) -> bool:
    """Whether the header of a request carries the token."""
    scheme, _, given = (authorization or "").partition(" ")
    is_same = hmac.compare_digest(given.strip().encode("utf-8", "replace"), token.encode())
    return scheme.lower() == "bearer" and is_same
