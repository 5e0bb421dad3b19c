"""What a partition's tier goes by: what its topic wants, and what all partitions share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from barbicel.clock import Clock
from barbicel.codecs.kafka.compression import Codec
from barbicel.disk import Disk
from barbicel.tier.cold_reader import ColdReader
from barbicel.tier.keys import Keys
from barbicel.tier.object_store import ObjectStore
from barbicel.tier.pace import Foreground
from barbicel.tier.retention import Limits

__all__ = ["Policy", "Tier"]


class Policy(NamedTuple):
    """What the settings of a topic want."""

    is_copied: bool
    of_all: Limits = Limits()
    on_disk: Limits = Limits()


@dataclass(frozen=True)
class Tier:
    """What all partitions share."""

    store: ObjectStore
    keys: Keys
    reader: ColdReader
    disk: Disk
    clock: Clock
    codec: Codec
    first_back_off_ms: int
    longest_back_off_ms: int
    # The server's reactor, which uploads give way to; None where there is none.
    foreground: Foreground | None = None
    # Whether somebody waits for uploads, so that they give way to nobody.
    is_hurried: Callable[[], bool] = lambda: False
    # Raises StoreError if what is written there now does not go where everything else is.
    check_store: Callable[[], None] = lambda: None
