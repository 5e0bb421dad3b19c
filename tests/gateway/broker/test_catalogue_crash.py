"""The catalogue, stopped at every disk call and at every byte of its writes.

What was answered is there, what was under way happened entirely or not at all, and the next server goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import TypeAlias

import pytest

from barbicel.gateway.broker.catalogue import Catalogue, Topic
from tests.support.fault_disk import FaultDisk
from tests.support.faults import Call, PowerCut
from tests.support.inodes import Fate

DATA = "/data"
FATES = (Fate.DROP, Fate.KEEP, Fate.TEAR, Fate.TEAR)

# What users see of a topic: name → partitions, settings.
Seen: TypeAlias = dict[str, tuple[int, dict[str, str]]]
Step: TypeAlias = tuple[Callable[[Catalogue], object], Seen]

A1, A2, A3 = (1, {"retention.ms": "5"}), (4, {"retention.ms": "5"}), (4, {"segment.ms": "6"})
B: tuple[int, dict[str, str]] = (2, {})

STEPS: tuple[Step, ...] = (
    (lambda catalogue: catalogue.create("a", 1, {"retention.ms": "5"}), {"a": A1}),
    (lambda catalogue: catalogue.create("b", 2, {}), {"a": A1, "b": B}),
    (lambda catalogue: catalogue.add_partitions("a", 4), {"a": A2, "b": B}),
    (lambda catalogue: catalogue.change_settings("a", {"segment.ms": "6"}), {"a": A3, "b": B}),
    (lambda catalogue: catalogue.delete("a"), {"b": B}),
    (lambda catalogue: catalogue.create("a", 1, {"retention.ms": "5"}), {"a": A1, "b": B}),
    (lambda catalogue: catalogue.remove_deleted(catalogue.deleted[0]), {"a": A1, "b": B}),
    (lambda catalogue: catalogue.delete("a"), {"b": B}),
    (lambda catalogue: catalogue.remove_deleted(catalogue.deleted[0]), {"b": B}),
    (lambda catalogue: catalogue.cluster.new_producer_id(), {"b": B}),
    (lambda catalogue: catalogue.delete("b"), {}),
    (lambda catalogue: catalogue.remove_deleted(catalogue.deleted[0]), {}),
)


def opened(disk: FaultDisk, seed: int) -> Catalogue:
    return Catalogue.open(disk, DATA, lambda: 5, Random(seed).randbytes)


def seen(catalogue: Catalogue) -> Seen:
    return {topic.name: (topic.partitions, dict(topic.settings)) for topic in catalogue}


class CrashingServer:
    """Runs the steps once. Before each disk call it looks at what a crash right then leaves."""

    def __init__(self, seed: int) -> None:
        self.fates = Random(seed)
        self.disk = FaultDisk()
        self.disk.observer = self._look
        self.before: Seen = {}
        self.after: Seen = {}
        self.producer_ids = 0
        self.looked_at: Counter[str] = Counter()

    def run(self) -> None:
        catalogue = opened(self.disk, 1)
        for step, self.after in STEPS:
            outcome = step(catalogue)
            self.before = self.after
            assert seen(catalogue) == self.after
            if isinstance(outcome, Topic) and outcome.partitions == 1:
                # A log and more, before and behind topic.json, so that there is something to remove.
                self.disk.put(f"{catalogue.layout.partition(outcome, 0)}/manifest.bin", b"x" * 600)
                for name in ("notes", "zz-1", "zz-2"):
                    self.disk.put(f"{catalogue.layout.directory(outcome)}/{name}", b"x")
            elif isinstance(outcome, int):
                self.producer_ids = outcome + 1

    def _look(self, call: Call) -> None:
        for fate in FATES:
            self._examine(call, self.disk.crash(fate, self.fates))
        if call.operation == "write":
            for size in range(1, len(call.data), 5):
                self._examine(call, self.disk.crash(Fate.KEEP, self.fates, torn_append=size))

    def _examine(self, call: Call, left: FaultDisk) -> None:
        self.looked_at[call.operation] += 1
        if self.fates.random() < 0.3:
            left = self._crash_again(left)
        catalogue = opened(left, self.looked_at.total() + 100)
        found = seen(catalogue)
        assert found in (self.before, self.after), call
        assert catalogue.strays == ()
        self._go_on(catalogue, found)
        catalogue.close()
        again = opened(left.crash(Fate.DROP, self.fates), 3)
        assert seen(again) == {**found, "new": (1, {})}
        assert (again.deleted, again.strays) == ((), ())
        assert len(left.list(f"{DATA}/topics")) == len(found) + 1

    def _go_on(self, catalogue: Catalogue, found: Seen) -> None:
        for topic in catalogue.deleted:
            catalogue.remove_deleted(topic)
        catalogue.create("new", 1, {})
        assert catalogue.cluster.new_producer_id() >= self.producer_ids
        assert set(seen(catalogue)) == {*found, "new"}

    def _crash_again(self, disk: FaultDisk) -> FaultDisk:
        """Crash while the next server starts: it must change nothing that counts."""
        calls_left = self.fates.randrange(1, 12)

        def cut(_: Call) -> None:
            nonlocal calls_left
            calls_left -= 1
            if not calls_left:
                raise PowerCut

        disk.observer = cut
        try:
            catalogue = opened(disk, 77)
            for topic in catalogue.deleted:
                catalogue.remove_deleted(topic)
        except PowerCut:
            pass
        disk.observer = None
        return disk.crash(self.fates.choice(FATES), self.fates)


@pytest.mark.parametrize("seed", range(4))
def test_a_crash_at_every_disk_call(seed: int) -> None:
    server = CrashingServer(seed)
    server.run()
    assert {"create", "write", "fdatasync", "rename", "unlink", "mkdir", "rmdir", "fsync"} <= set(
        server.looked_at
    )
    assert server.looked_at.total() > 500
