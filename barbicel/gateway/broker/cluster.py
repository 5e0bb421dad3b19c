"""The identity of a data directory: cluster.json.

Its invariant: a producer id is given out once, ever. A block of ids is durably taken before its first id is
used, so a restart skips what may have been given out. A repeated id would make a new producer's first batch
look like one that was stored long ago.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from uuid import UUID

from barbicel.clock import Clock
from barbicel.codecs.topic_file import (
    MAX_FILE_BYTES,
    ClusterFile,
    decode_cluster,
    encode_cluster,
    render_id,
)
from barbicel.disk import Disk, read_file, replace_file
from barbicel.errors import CorruptFile

__all__ = ["PRODUCER_ID_BLOCK", "Cluster", "RandomBytes", "random_id"]

# So many bytes that nobody can foresee.
RandomBytes = Callable[[int], bytes]

PRODUCER_ID_BLOCK = 1000


class Cluster:
    """`open` reads the file, or writes it in a new directory. Calls wait for the disk."""

    def __init__(self, disk: Disk, path: str, temporary: str, content: ClusterFile) -> None:
        self._disk = disk
        self._path = path
        self._temporary = temporary
        self._content = content
        self._mutex = threading.Lock()
        self._next_id = self._block_end = content.next_producer_id

    @classmethod
    def create(
        cls, disk: Disk, path: str, temporary: str, *, clock: Clock, random: RandomBytes = os.urandom
    ) -> Cluster:
        """A new identity; on return it survives a power cut."""
        content = ClusterFile(random_id(random), clock(), next_producer_id=0)
        replace_file(disk, temporary, path, [encode_cluster(content)])
        return cls(disk, path, temporary, content)

    @classmethod
    def open(cls, disk: Disk, path: str, temporary: str) -> Cluster:
        """Raises CorruptFile, naming the file."""
        try:
            content = decode_cluster(read_file(disk, path, MAX_FILE_BYTES + 1))
        except CorruptFile as error:
            error.path = path
            error.hint = "restore this file: without it producer ids could be given out twice"
            raise
        return cls(disk, path, temporary, content)

    @property
    def content(self) -> ClusterFile:
        return self._content

    @property
    def id(self) -> str:
        """As Kafka's tools print it."""
        return render_id(self._content.cluster_id)

    def new_producer_id(self) -> int:
        """An id that was never given out before. Waits for the disk once a block."""
        with self._mutex:
            if self._next_id == self._block_end:
                self._take_block()
            self._next_id += 1
            return self._next_id - 1

    def _take_block(self) -> None:
        # If this fails no id of the block is used, whatever the disk has: trying again is safe.
        end = self._block_end + PRODUCER_ID_BLOCK
        content = self._content._replace(next_producer_id=end)
        replace_file(self._disk, self._temporary, self._path, [encode_cluster(content)])
        self._content, self._block_end = content, end


def random_id(random: RandomBytes) -> UUID:
    """As Kafka makes them: never with a '-' in front, which tools would take for a flag."""
    while True:
        identity = UUID(bytes=random(16), version=4)
        if not render_id(identity).startswith("-"):
            return identity
