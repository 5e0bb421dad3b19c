"""Who may use a store: the process that opened it, until it is closed."""

from __future__ import annotations

import os

from barbicel.errors import LogClosed

__all__ = ["Ownership"]


class Ownership:
    def __init__(self, root: str) -> None:
        self._root = root
        self._pid = os.getpid()
        self.is_closed = False

    @property
    def is_forked(self) -> bool:
        """Whether this is a copy in a child of the process that opened the store."""
        return os.getpid() != self._pid

    def check(self) -> None:
        """Raises LogClosed."""
        if self.is_forked:
            raise LogClosed(
                f"opened by process {self._pid}, which forked this one",
                path=self._root,
                hint="open the groups in the process that uses them",
            )
        if self.is_closed:
            raise LogClosed("the store was closed", path=self._root)
