"""What all of Kestrel's connections have in common, whatever their protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barbicel.clock import Clock
from barbicel.config.settings import Config
from barbicel.gateway.kestrel.status import ServerStatus
from barbicel.kestrel_compat.stats import Counters

if TYPE_CHECKING:
    from barbicel.gateway.kestrel.queues import Queues

__all__ = ["Controls", "Done", "Shared"]

# Called with why something could not be done, or with None.
Done = Callable[[Exception | None], None]


@dataclass(frozen=True, slots=True)
class Controls:
    """What operators may ask of the whole server, where the settings allow it."""

    # Read the settings of the queues again.
    reload: Callable[[Done], None]
    shutdown: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Shared:
    """The parts that serve every client. `clock` tells the time of day, `seconds` is for time-outs."""

    queues: Queues
    config: Config
    status: ServerStatus
    counters: Counters
    controls: Controls
    clock: Clock
    seconds: Callable[[], float]
    started_s: float
