"""How many files the server may have open, and who may have them: storage first, clients last.

Every partition, the groups that are open and the segments that are read have their share before a client is
let in, and a topic is created only if there is enough for it and for some clients. So no append and no
restart after a kill fails because of the clients or the topics that were taken on before. Decisions only:
whoever opens something asks first.
"""

from __future__ import annotations

import logging

from barbicel.clock import Clock, steady_clock_ms
from barbicel.errors import BarbicelError
from barbicel.gateway.broker.topic_errors import TooManyPartitions
from barbicel.gateway.log_pace import LogPace

__all__ = ["Descriptors"]

_log = logging.getLogger(__name__)

# Of a partition: its lock, the segment that is written, and one that is read.
OF_A_PARTITION = 3
# And of its tier: the chunk of the manifest that is written, which Python opens once more to map it.
OF_A_TIER = 2
# Listeners, locks, the event loop, and what is open for a moment: a manifest, a snapshot, a log in recovery.
OF_THE_SERVER = 64
# Partitions leave room for so many clients, and without that much the server does not start.
LEAST_CLIENTS = 16
MOST_GROUPS = 1000
MOST_READERS = 4096
# Without a limit in sight.
UNLIMITED = 1 << 30


class Descriptors:
    """Partitions are counted by whoever opens logs, clients in the reactor's thread."""

    def __init__(
        self, limit: int = UNLIMITED, clock: Clock = steady_clock_ms, *, is_tiered: bool = False
    ) -> None:
        """`is_tiered`: any partition may have a tier."""
        self.limit = limit
        self._of_a_partition = OF_A_PARTITION + (OF_A_TIER if is_tiered else 0)
        # Groups that stay open, and segments beyond a log's first that stay open for reading.
        self.groups = max(1, min(MOST_GROUPS, limit // 4))
        self.readers = max(1, min(MOST_READERS, limit // 8))
        self.partitions = 0
        self.clients = 0
        self._pace = LogPace(clock)

    def start_with(self, partitions: int) -> None:
        """Raises BarbicelError if the server cannot serve as many as it finds."""
        needed = self._needed(partitions) + LEAST_CLIENTS
        if needed > self.limit:
            raise BarbicelError(
                f"{partitions} partitions need {needed} open files, and the limit is {self.limit}",
                hint="raise it (ulimit -n, LimitNOFILE of systemd)",
            )
        self.partitions = partitions

    def add_partitions(self, count: int) -> None:
        """Raises TooManyPartitions: then nothing may be created."""
        needed = self._needed(self.partitions + count) + max(self.clients, LEAST_CLIENTS)
        if needed > self.limit:
            raise TooManyPartitions(
                f"{count} more partitions need {needed} open files in all, and the limit is {self.limit}",
                hint="raise it (ulimit -n, LimitNOFILE of systemd)",
            )
        self.partitions += count

    def remove_partitions(self, count: int) -> None:
        self.partitions -= count

    def refuses_client(self) -> bool:
        """Whether one more would take what storage needs. Tells the log of it now and then."""
        if self._needed(self.partitions) + self.clients < self.limit:
            return False
        if self._pace.is_due():
            _log.warning(
                "refusing clients: %d are connected and %d partitions are open, which is all that"
                " the limit of %d open files allows; raise it (ulimit -n)",
                self.clients,
                self.partitions,
                self.limit,
            )
        return True

    def _needed(self, partitions: int) -> int:
        return OF_THE_SERVER + self.groups + self.readers + partitions * self._of_a_partition
