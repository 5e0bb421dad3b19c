"""One sync of a file at a time, and none after a failed one: the next would succeed and do nothing."""

from __future__ import annotations

import threading
from types import TracebackType

from barbicel.errors import LogStopped

__all__ = ["OnlySync"]


class OnlySync:
    """`with only_sync:` around a sync. Whoever waits for one that fails, fails with it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._failed: BaseException | None = None

    def __enter__(self) -> None:
        self._lock.acquire()
        if self._failed is not None:
            self._lock.release()
            raise LogStopped(f"a sync has failed: {self._failed}", path=self._path)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._failed = error
        self._lock.release()

    def alone(self) -> threading.Lock:
        """For what must not happen beside a sync, failed or not."""
        return self._lock
