"""Opening catalogues in tests: the same time and the same ids in every run."""

from __future__ import annotations

from random import Random

from barbicel.disk import Disk
from barbicel.gateway.broker.catalogue import Catalogue
from tests.support.fault_disk import FaultDisk

__all__ = ["DATA", "NOW_MS", "file_of", "opened", "reopened"]

DATA = "/data"
NOW_MS = 1_700_000_000_000


def opened(disk: Disk, root: str = DATA, seed: int = 1) -> Catalogue:
    return Catalogue.open(disk, root, lambda: NOW_MS, Random(seed).randbytes)


def reopened(disk: FaultDisk, catalogue: Catalogue) -> Catalogue:
    catalogue.close()
    return opened(disk, seed=2)


def file_of(catalogue: Catalogue, name: str) -> str:
    topic = catalogue.by_name(name)
    assert topic is not None
    return catalogue.layout.topic_file(topic)
