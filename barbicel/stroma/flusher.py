"""The threads that keep a store's promises in time: syncs within the interval, compaction, eviction.

There are several because a sync is mostly waiting: for the disk, and then for the interpreter.
"""

from __future__ import annotations

import logging
import threading

from barbicel.closing import Closing
from barbicel.errors import LogClosed
from barbicel.stroma.store import GroupStore

__all__ = ["Flusher"]

_log = logging.getLogger(__name__)


class Flusher(Closing):
    """Calls `maintain` twice in every interval until it, or the store, is closed. No error ends it.

    A group that fails is listed in the store's `failures`, and a later round recovers it. What `maintain`
    raises is logged once, and again when it is something else.
    """

    def __init__(self, store: GroupStore, interval_ms: int = 100, threads: int = 4) -> None:
        self._store = store
        self._pause_seconds = interval_ms / 2000
        self._closing = threading.Event()
        self._last_logged = ""
        self._logging = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, name=f"stroma-flusher-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        while not self._closing.wait(self._pause_seconds):
            try:
                self._store.maintain()
            except LogClosed:
                return
            except Exception as error:
                self._log_once(error)

    def _log_once(self, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        with self._logging:
            is_new, self._last_logged = text != self._last_logged, text
        if is_new:
            _log.error("groups are not maintained as they should be: %s", text, exc_info=error)

    def close(self) -> None:
        self._closing.set()
        for thread in self._threads:
            thread.join()
