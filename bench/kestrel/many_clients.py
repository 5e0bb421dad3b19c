"""Kestrel's many-clients: one producer lets items trickle in, and many clients wait for each of them.

Shape and defaults: 100 clients read with `/t=1000` again and again, 100 items of 751 bytes come 100 ms apart;
with -x reads are opened and closed; with -k that share of the requests loses its connection before the answer
is read. An operation is an item's way: from before its set is sent until a client has it.
"""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import click

from bench.kestrel.client import Client, flush_queues, watched
from bench.kestrel.scenario import Phase, common_options, phase_of_latencies, print_phases

__all__ = ["ManyClients", "run_many_clients"]

# Kestrel put the same text again and again; its length is kept.
ITEM_BYTES = 751
TIMEOUT = "/t=1000"
TRANSACTION = "/close/open"


@dataclass(frozen=True, slots=True)
class ManyClients:
    host: str
    port: int
    sleep_ms: int = 100
    items: int = 100
    clients: int = 100
    kill_percent: int = 0
    transactions: bool = False
    queue: str = "spam"
    no_flush: bool = False
    watch: bool = False

    @property
    def opens_reads(self) -> bool:
        """Without, a request that loses its connection would lose an item."""
        return self.transactions or self.kill_percent > 0

    def connect(self) -> Client:
        return Client(self.host, self.port)


class _Crowd:
    """What the clients have got together."""

    def __init__(self, options: ManyClients) -> None:
        self._options = options
        self._key = options.queue + TIMEOUT + (TRANSACTION if options.opens_reads else "")
        # Each of these is only ever appended to.
        self.latencies_us: list[float] = []
        self.misses: list[None] = []

    def _is_served(self) -> bool:
        return len(self.latencies_us) >= self._options.items

    def read(self, seed: int) -> None:
        chance = random.Random(seed)
        while not self._is_served():
            with closing(self._options.connect()) as client:
                self._read_on(client, chance)

    def _read_on(self, client: Client, chance: random.Random) -> None:
        """Until the connection is to be lost, or all is served."""
        while not self._is_served():
            client.ask_for(self._key)
            if chance.randrange(100) < self._options.kill_percent:
                return
            self._note(client.read_item())
        if self._options.opens_reads:
            client.get(f"{self._options.queue}/close")

    def _note(self, item: bytes | None) -> None:
        if item is None:
            self.misses.append(None)
        else:
            self.latencies_us.append((time.monotonic_ns() - int(item.split(b"x", 1)[0])) / 1000)


def run_many_clients(options: ManyClients) -> list[Phase]:
    if not options.no_flush:
        flush_queues(options.host, options.port, options.queue)
    crowd = _Crowd(options)
    started = time.monotonic()
    with (
        watched(options.host, options.port, options.queue, is_wanted=options.watch),
        ThreadPoolExecutor(options.clients + 1) as threads,
    ):
        clients = [threads.submit(crowd.read, seed) for seed in range(options.clients)]
        threads.submit(_trickle, options).result()
        for client in clients:
            client.result()
    return [phase_of_latencies("deliver", crowd.latencies_us, time.monotonic() - started, len(crowd.misses))]


def _trickle(options: ManyClients) -> None:
    with closing(options.connect()) as client:
        for _ in range(options.items):
            client.put(options.queue, (b"%d" % time.monotonic_ns()).ljust(ITEM_BYTES, b"x"))
            time.sleep(options.sleep_ms / 1000)


@click.command()
@click.option("-s", "--sleep-ms", default=100, show_default=True, help="Rest this long between puts.")
@click.option("-n", "--items", default=100, show_default=True, help="Put this many items.")
@click.option("-c", "--clients", default=100, show_default=True, help="Clients that wait for items.")
@click.option(
    "-k", "--kill-percent", default=0, show_default=True, help="Connections lost before the answer."
)
@click.option("-x", "--transactions", is_flag=True, help="Open and close reads.")
@click.option("-M", "--watch", is_flag=True, help="Print the queue's stats every second.")
@common_options
def main(**options: Any) -> None:
    """Have many clients do timeout reads on a queue while a single producer trickles items out."""
    print_phases(run_many_clients(ManyClients(**options)))


if __name__ == "__main__":
    main(prog_name="python -m bench.kestrel.many_clients")
