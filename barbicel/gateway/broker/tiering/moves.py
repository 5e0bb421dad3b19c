"""What a pass of the tier has moved: a line in the log for each kind of move."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from barbicel.tier.tiered_partition import TieredPartition

__all__ = ["telling_moves"]

_log = logging.getLogger(__name__)


@contextmanager
def telling_moves(partition: str, tiered: TieredPartition) -> Iterator[None]:
    """Around a pass, in its thread."""
    uploaded, local_start, start = tiered.uploaded_bytes, tiered.log.start_offset, tiered.start_offset
    yield
    if tiered.uploaded_bytes > uploaded:
        _log.info(
            "the tier of %s: %d bytes of sealed segments were uploaded",
            partition,
            tiered.uploaded_bytes - uploaded,
        )
    if tiered.log.start_offset > local_start:
        _log.info("the tier of %s: the disk begins at offset %d now", partition, tiered.log.start_offset)
    if tiered.start_offset > start:
        _log.info("retention: %s begins at offset %d now", partition, tiered.start_offset)
