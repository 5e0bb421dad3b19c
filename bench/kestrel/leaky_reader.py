"""Kestrel's leaky-reader: readers that do not confirm all that they have read; nothing may be missed.

Shape and defaults: 1,000 items, each its number in eight hexadecimal digits, one producer, one reader that
opens a read with a timeout of 100 ms and confirms it, but for one in a hundred. Kestrel's spoke Thrift, where
a read that is not confirmed comes back after five seconds; a memcache client lets go of one by losing its
connection or by `/abort`. An operation is an item that was read and confirmed.
"""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import click

from bench.kestrel.client import Client, flush_queues
from bench.kestrel.scenario import Phase, common_options, phase_of_latencies, print_phases

__all__ = ["ItemsMissed", "LeakyReader", "run_leaky_reader"]

ABORT, DISCONNECT = "abort", "disconnect"
TIMEOUT = "/t=100"


class ItemsMissed(RuntimeError):
    """Put, but never read and confirmed."""


@dataclass(frozen=True, slots=True)
class LeakyReader:
    host: str
    port: int
    items: int = 1000
    drop_rate: float = 0.01
    drop_by: str = DISCONNECT
    readers: int = 1
    queue: str = "spam"
    no_flush: bool = False
    verbose: bool = False

    def connect(self) -> Client:
        return Client(self.host, self.port)


class _Readers:
    """What they have confirmed together."""

    def __init__(self, options: LeakyReader) -> None:
        self._options = options
        self.confirmed: set[int] = set()
        # Each of these is only ever appended to.
        self.latencies_us: list[float] = []
        self.misses: list[None] = []

    def read(self, seed: int) -> None:
        chance = random.Random(seed)
        while not self._has_enough():
            with closing(self._options.connect()) as client:
                self._read_on(client, chance)

    def _has_enough(self) -> bool:
        return len(self.latencies_us) >= self._options.items

    def _read_on(self, client: Client, chance: random.Random) -> None:
        """Until one is dropped by losing the connection, or all are confirmed."""
        queue = self._options.queue
        while not self._has_enough():
            started = time.monotonic_ns()
            item = client.get(f"{queue}{TIMEOUT}/open")
            if item is None:
                self.misses.append(None)
            elif chance.random() >= self._options.drop_rate:
                client.get(f"{queue}/close")
                self._note(item, started)
            elif self._options.drop_by == ABORT:
                client.get(f"{queue}/abort")
            else:
                return

    def _note(self, item: bytes, started_ns: int) -> None:
        if self._options.verbose:
            print("confirmed", item.decode(), flush=True)
        self.confirmed.add(int(item, 16))
        self.latencies_us.append((time.monotonic_ns() - started_ns) / 1000)


def run_leaky_reader(options: LeakyReader) -> list[Phase]:
    """Raises ItemsMissed."""
    if not options.no_flush:
        flush_queues(options.host, options.port, options.queue)
    readers = _Readers(options)
    started = time.monotonic()
    with ThreadPoolExecutor(options.readers + 1) as threads:
        reading = [threads.submit(readers.read, seed) for seed in range(options.readers)]
        threads.submit(_put_all, options).result()
        for reader in reading:
            reader.result()
    seconds = time.monotonic() - started
    missed = set(range(options.items)) - readers.confirmed
    if missed:
        raise ItemsMissed(", ".join(f"{number:08x}" for number in sorted(missed)))
    return [phase_of_latencies("read and confirm", readers.latencies_us, seconds, len(readers.misses))]


def _put_all(options: LeakyReader) -> None:
    with closing(options.connect()) as client:
        for number in range(options.items):
            client.put(options.queue, b"%08x" % number)


@click.command()
@click.option("-n", "--items", default=1000, show_default=True, help="Put this many items.")
@click.option("-d", "--drop-rate", default=0.01, show_default=True, help="Share that is not confirmed.")
@click.option("--drop-by", type=click.Choice([DISCONNECT, ABORT]), default=DISCONNECT, show_default=True)
@click.option("-t", "--readers", default=1, show_default=True, help="Clients that read.")
@click.option("-v", "--verbose", is_flag=True, help="Print every item that is confirmed.")
@common_options
def main(**options: Any) -> None:
    """Deliver items through the server to readers that drop some, and check that all arrive."""
    print_phases(run_leaky_reader(LeakyReader(**options)))


if __name__ == "__main__":
    main(prog_name="python -m bench.kestrel.leaky_reader")
