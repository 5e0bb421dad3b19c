"""The producers' snapshot beside a partition's log: read at the start, with what the log has since then."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from barbicel.codecs.kafka.record_batch import BadBatch, decode_header
from barbicel.codecs.producer_snapshot import ProducerSnapshot, decode_producers, encode_producers
from barbicel.disk import Disk, parent, read_file, replace_file
from barbicel.errors import CorruptFile, CorruptLog, DiskError
from barbicel.gateway.broker.producers import ProducerStates
from barbicel.keratin import Log

__all__ = ["ProducerFile"]

_log = logging.getLogger(__name__)

FILE = "producers.snap"
MAX_FILE_BYTES = 64 << 20
WORTH_A_SNAPSHOT_BYTES = 16 << 20


class ProducerFile:
    """Waits for the disk: not for the reactor's thread."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self.path = f"{directory}/{FILE}"
        self._temporary = f"{directory}/{FILE}.new"
        self._writing = threading.Lock()
        self._written_end_offset = -1
        # Whether there is one that speaks of offsets which the log does not have.
        self._is_unusable = False

    def write(self, snapshot: ProducerSnapshot) -> None:
        """On return it survives a power cut, or a newer one does. Any thread."""
        with self._writing:
            if snapshot.end_offset >= self._written_end_offset:
                replace_file(self._disk, self._temporary, self.path, [encode_producers(snapshot)])
                self._written_end_offset = snapshot.end_offset

    def reaches(self, offset: int) -> bool:
        """Whether a restart needs nothing that the log has below the offset."""
        return self._written_end_offset >= offset

    def remove(self) -> None:
        """On return there is none, also after a power cut. Any thread."""
        with self._writing:
            if self._disk.exists(self.path):
                self._disk.unlink(self.path)
                self._disk.sync_directory(parent(self.path))
            self._written_end_offset = -1

    def restore(self, log: Log, clock: Callable[[], int]) -> ProducerStates:
        """What was known when the log ended where it ends now.

        A snapshot that cannot be used is replaced before anything is appended: the log could grow beyond
        the offset it speaks of, and it would be believed.
        """
        snapshot = self._read()
        if snapshot is None:
            states = ProducerStates(start_offset=log.start_offset)
        else:
            states = ProducerStates.restored(snapshot, log_start=log.start_offset, log_end=log.end_offset)
        is_unusable = snapshot is not None and snapshot.end_offset > log.end_offset
        if snapshot is not None and not is_unusable:
            self._written_end_offset = snapshot.end_offset
        learned_bytes = self._learn(log, states, clock)
        self._is_unusable = is_unusable
        if not log.is_writable:
            return states
        self.begin_writing(clock())
        # Or a server that is killed again and again would read more at every start.
        if is_unusable or learned_bytes > WORTH_A_SNAPSHOT_BYTES:
            try:
                self.write(states.snapshot())
            except DiskError as error:
                _log.warning("%s; the next start learns the producers from the log again", error)
        return states

    def begin_writing(self, now_ms: int) -> None:
        """Before anything is appended to the log, if it was not writable when this was restored."""
        if self._is_unusable:
            self._take_away(now_ms)
            self._is_unusable = False

    def _take_away(self, now_ms: int) -> None:
        """Raises DiskError: with it there nothing may be appended."""
        try:
            self._disk.unlink(self.path)  # which a full disk allows too
        except DiskError:  # it is a directory
            self._disk.rename(self.path, f"{self.path}.corrupt-{now_ms}")
        self._disk.sync_directory(parent(self.path))

    def _read(self) -> ProducerSnapshot | None:
        if not self._disk.exists(self.path):
            return None
        try:
            return decode_producers(read_file(self._disk, self.path, MAX_FILE_BYTES))
        except (CorruptFile, DiskError) as error:
            error.path = self.path
            _log.warning("%s; the producers are learned from the log", error)
            # Beyond every log: it is not used, and it is replaced.
            return ProducerSnapshot((1 << 63) - 1, ())

    def _learn(self, log: Log, states: ProducerStates, clock: Callable[[], int]) -> int:
        """How many bytes had to be read for that."""
        offset, now_ms = states.exact_until, clock()
        learned_bytes = 0
        while offset < log.end_offset:
            try:
                for record in log.scan(offset):
                    offset = record.end_offset
                    learned_bytes += record.size
                    if not _learn_record(states, record.payload, record.offset, now_ms):
                        states.advance(record.end_offset)
                break
            except CorruptLog as error:
                _log.warning("%s; the producers of these offsets are not known", error)
                offset = error.end_offset
        states.advance(log.end_offset)
        return learned_bytes


def _learn_record(states: ProducerStates, payload: memoryview, offset: int, now_ms: int) -> bool:
    try:
        states.learn(decode_header(payload), offset, now_ms)
    except BadBatch:
        return False  # not a batch: the log was written by other means
    return True
