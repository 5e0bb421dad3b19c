"""Where the files of access control are, and how one is read and replaced.

Each is replaced as a whole: a crash leaves it as it was before or after. Nobody but the server's user may
read them: who has SCRAM's keys can try passwords on them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from barbicel.codecs.access_file import MAX_ACCESS_FILE_BYTES
from barbicel.config.settings import Config
from barbicel.disk import Disk, read_file, replace_file
from barbicel.errors import CorruptFile
from barbicel.gateway.broker.topic_errors import InvalidRequest

__all__ = ["AccessLayout", "keep", "needs_access", "restore"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AccessLayout:
    """The paths, in the data directory `root`."""

    root: str

    @property
    def directory(self) -> str:
        return f"{self.root}/access"

    @property
    def users(self) -> str:
        return f"{self.directory}/users.json"

    @property
    def acls(self) -> str:
        return f"{self.directory}/acls.json"

    @property
    def quotas(self) -> str:
        return f"{self.directory}/quotas.json"

    @property
    def temporary(self) -> str:
        return f"{self.root}/tmp/access.json.new"


def needs_access(disk: Disk, root: str, config: Config) -> bool:
    """Whether anything is set, or was, for which clients have to be told apart."""
    return (
        any(listener.has_tls or listener.has_sasl for listener in config.listeners)
        or config.has_authorizer
        or config.kestrel_ssl_enable
        or config.kestrel_auth_enable
        or disk.exists(AccessLayout(root).directory)
    )


def restore(disk: Disk, path: str, max_bytes: int, decode: Callable[[bytes], T]) -> T | None:
    """What the file says; None if there is none. Raises CorruptFile, naming it."""
    if not disk.exists(path):
        return None
    try:
        return decode(read_file(disk, path, max_bytes + 1))
    except CorruptFile as error:
        error.path = path
        error.hint = "restore this file, or move it away to go on without what it says"
        raise


def keep(disk: Disk, layout: AccessLayout, path: str, data: bytes) -> None:
    """On return it survives a power cut.

    Raises InvalidRequest for more than the next start would read; nothing has changed then. Raises DiskError:
    then it may be the old file or the new one.
    """
    if len(data) > MAX_ACCESS_FILE_BYTES:
        raise InvalidRequest(f"with this {path} would be larger than {MAX_ACCESS_FILE_BYTES} bytes")
    disk.make_directory(layout.directory)
    replace_file(disk, layout.temporary, path, [data], "create_private")
