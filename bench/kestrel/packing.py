"""Kestrel's packing: a backlog that never gets shorter, while as much is put as is got, in bursts.

Shape and defaults: 25,000 items of 1 KB are put; then 100 cycles, each of which puts and gets as many at the
same time and rests for a second; then the backlog is got. Items are numbered, and have to come in order.
Kestrel had to rewrite its journal meanwhile; here segments that were read are given back.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import click

from bench.kestrel.client import flush_queues, watched
from bench.kestrel.drive import finish_drivers, start_driver
from bench.kestrel.job import Job, Result
from bench.kestrel.scenario import Phase, common_options, phase_of_results, print_phases

__all__ = ["Packing", "run_packing"]

KILOBYTE = 1024
PUT, GET = "set", "get"


@dataclass(frozen=True, slots=True)
class Packing:
    host: str
    port: int
    items: int = 25_000
    kilobytes: int = 1
    pause_s: float = 1.0
    cycles: int = 100
    queue: str = "spam"
    no_flush: bool = False
    watch: bool = False


class _Counted:
    """The next number of each operation, and what each run took."""

    def __init__(self, options: Packing) -> None:
        self._job = Job(
            options.port,
            PUT,
            options.kilobytes * KILOBYTE,
            count=options.items,
            host=options.host,
            queue=options.queue,
            number_from=0,
        )
        self._numbers = {PUT: 0, GET: 0}
        self.results: dict[str, list[Result]] = {PUT: [], GET: []}

    def cycle(self, *operations: str) -> None:
        """All of them at the same time, each from where it had come to."""
        drivers = [start_driver(self._next_job(operation)) for operation in operations]
        for operation, result in zip(operations, finish_drivers(*drivers), strict=True):
            self.results[operation].append(result)

    def _next_job(self, operation: str) -> Job:
        number = self._numbers[operation]
        self._numbers[operation] += self._job.count
        job = replace(self._job, operation=operation, number_from=number)
        return job if operation == PUT else replace(job, key_options="/t=1000", may_miss=True)


def run_packing(options: Packing) -> list[Phase]:
    if not options.no_flush:
        flush_queues(options.host, options.port, options.queue)
    counted = _Counted(options)
    with watched(options.host, options.port, options.queue, is_wanted=options.watch):
        counted.cycle(PUT)
        for _ in range(options.cycles):
            counted.cycle(PUT, GET)
            time.sleep(options.pause_s)
        counted.cycle(GET)
    return [phase_of_results("put", *counted.results[PUT]), phase_of_results("get", *counted.results[GET])]


@click.command()
@click.option(
    "-n", "--items", default=25_000, show_default=True, help="Items of the backlog, and of a cycle."
)
@click.option("-k", "--kilobytes", default=1, show_default=True, help="Kilobytes of an item.")
@click.option("-t", "--pause-s", default=1.0, show_default=True, help="Rest this long between cycles.")
@click.option("-c", "--cycles", default=100, show_default=True, help="Put and get this often.")
@click.option("-M", "--watch", is_flag=True, help="Print the queue's stats every second.")
@common_options
def main(**options: Any) -> None:
    """Put a backlog, then put and get in cycles with pauses."""
    print_phases(run_packing(Packing(**options)))


if __name__ == "__main__":
    main(prog_name="python -m bench.kestrel.packing")
