"""Which segments are being read back from the object store, told to the manifest.

Told once for as long as a segment is among those that were read lately, and never synced for its own sake:
a lost record of this kind costs nothing.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from barbicel.codecs.aof2_manifest import ManifestRecord
from barbicel.errors import BarbicelError, CorruptObject, StoreError
from barbicel.tier import transitions
from barbicel.tier.manifest_log.stream import ManifestStream
from barbicel.tier.transitions import Reason

__all__ = ["Hydrations"]

# Segments of one partition that may be read at the same time, more or less.
REMEMBERED = 64


class Hydrations:
    """Any thread."""

    def __init__(self, stream: ManifestStream) -> None:
        self._stream = stream
        self._mutex = threading.Lock()
        self._lately: OrderedDict[int, None] = OrderedDict()
        self.begun = self.failed = 0

    @contextmanager
    def of(self, segment_id: int, resident_bytes: int) -> Iterator[None]:
        """While a segment is read."""
        is_first = self._begin(segment_id)
        if is_first:
            self._tell(transitions.hydrating(segment_id))
        try:
            yield
        except BarbicelError as error:
            self._forget(segment_id)
            self._tell(transitions.hydration_failed(segment_id, _reason(error)))
            raise
        if is_first:
            self._tell(transitions.hydrated(segment_id, resident_bytes))

    def _tell(self, record: ManifestRecord) -> None:
        # A full disk, or a manifest that has stopped, keeps nobody from reading.
        with suppress(BarbicelError):
            self._stream.append(record)

    def _begin(self, segment_id: int) -> bool:
        with self._mutex:
            is_first = segment_id not in self._lately
            self._lately[segment_id] = None
            self._lately.move_to_end(segment_id)
            if len(self._lately) > REMEMBERED:
                self._lately.popitem(last=False)
            self.begun += is_first
            return is_first

    def _forget(self, segment_id: int) -> None:
        with self._mutex:
            self._lately.pop(segment_id, None)
            self.failed += 1


def _reason(error: BarbicelError) -> Reason:
    if isinstance(error, CorruptObject):
        return Reason.DAMAGED
    return Reason.STORE_AWAY if isinstance(error, StoreError) and error.is_passing else Reason.STORE_REFUSED
