"""Whether a data directory has partitions with segments in an object store. Imports nothing of the tier."""

from __future__ import annotations

from barbicel.disk import Disk
from barbicel.gateway.broker.data_layout import DataLayout

__all__ = ["has_manifests"]


def has_manifests(disk: Disk, layout: DataLayout) -> bool:
    """Then they have to be read from there, whatever the settings say by now."""
    return disk.exists(layout.tier) and bool(disk.names(layout.tier))
