"""What a start has found: a line in the log, and numbers for whoever watches.

Until all logs are open nobody is answered, so a start that takes long tells how far it is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, as_completed
from typing import NamedTuple

from barbicel.gateway.broker.partition import Partition
from barbicel.gateway.log_pace import LogPace

__all__ = ["Recovered", "summarise", "wait_for_all"]

_log = logging.getLogger(__name__)


class Recovered(NamedTuple):
    """`unclean` are the partitions whose last stop was not in order, `offline` those that were not opened."""

    partitions: int = 0
    unclean: int = 0
    offline: int = 0
    seconds: float = 0.0

    def tell(self) -> None:
        _log.info(
            "%d partitions are open after %.1f s: %d had not been stopped in order, %d could not be opened",
            self.partitions - self.offline,
            self.seconds,
            self.unclean,
            self.offline,
        )


def summarise(partitions: Iterable[Partition], took_ms: int) -> Recovered:
    found = list(partitions)
    online = [one.log for one in found if not one.is_offline]
    unclean = sum(not log.was_clean and not log.found.is_fresh for log in online)
    return Recovered(len(found), unclean, len(found) - len(online), took_ms / 1000)


def wait_for_all(jobs: Sequence[Future[Partition]], pace: LogPace) -> None:
    """Whatever becomes of them."""
    pace.is_due()  # not at once: most starts need no such line
    for done, _ in enumerate(as_completed(jobs), 1):
        if pace.is_due():
            _log.info("recovering: %d of %d partitions are open", done, len(jobs))
