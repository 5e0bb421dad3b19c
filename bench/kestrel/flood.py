"""Kestrel's flood: producers and consumers at the same time, until everything has gone through.

Shape and defaults: one producer and one consumer, 10,000 items of 1 KB, the consumer asks again at once when
it misses (-B: it waits up to a second in the server); a roll-up of n sends n sets at once and reads by
`monitor` and `confirm`. Producers may put a few more than all consumers together take.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from bench.kestrel.client import flush_queues, watched
from bench.kestrel.drive import finish_drivers, run_driver, start_driver
from bench.kestrel.job import Job
from bench.kestrel.scenario import Phase, common_options, phase_of_results, print_phases

__all__ = ["Flood", "run_flood"]

KILOBYTE = 1024
BLOCKING = "/t=1000"


@dataclass(frozen=True, slots=True)
class Flood:
    host: str
    port: int
    items: int = 10_000
    kilobytes: int = 1
    queue: str = "spam"
    prefill: int = 0
    producers: int = 1
    consumers: int = 1
    roll_up: int = 1
    blocking: bool = False
    no_flush: bool = False
    watch: bool = False


def run_flood(options: Flood) -> list[Phase]:
    if not options.no_flush:
        flush_queues(options.host, options.port, options.queue)
    phases = []
    if options.prefill:
        phases.append(phase_of_results("prefill", run_driver(_producer(options, 1, options.prefill))))
    with watched(options.host, options.port, options.queue, is_wanted=options.watch):
        producers = start_driver(
            _producer(options, options.producers, -(-options.items // options.producers))
        )
        consumers = start_driver(_consumer(options))
        put, got = finish_drivers(producers, consumers)
    return [*phases, phase_of_results("put", put), phase_of_results("get", got)]


def _producer(options: Flood, producers: int, items_each: int) -> Job:
    return Job(
        options.port,
        "set",
        options.kilobytes * KILOBYTE,
        count=producers * _whole_roll_ups(options, items_each),
        host=options.host,
        connections=producers,
        depth=options.roll_up,
        queue=options.queue,
        burst=True,
    )


def _consumer(options: Flood) -> Job:
    return Job(
        options.port,
        "get" if options.roll_up == 1 else "monitor",
        options.kilobytes * KILOBYTE,
        count=options.consumers * max(1, options.items // options.consumers),
        host=options.host,
        connections=options.consumers,
        depth=options.roll_up,
        queue=options.queue,
        key_options=BLOCKING if options.blocking and options.roll_up == 1 else "",
        may_miss=True,
    )


def _whole_roll_ups(options: Flood, items: int) -> int:
    return -(-items // options.roll_up) * options.roll_up


@click.command()
@click.option("-n", "--items", default=10_000, show_default=True, help="Put this many items.")
@click.option("-k", "--kilobytes", default=1, show_default=True, help="Kilobytes of an item.")
@click.option("-P", "--prefill", default=0, show_default=True, help="Items that lie in the queue before.")
@click.option("-R", "--producers", default=1, show_default=True, help="Clients that put.")
@click.option("-C", "--consumers", default=1, show_default=True, help="Clients that get.")
@click.option("-r", "--roll-up", default=1, show_default=True, help="Items put, or monitored, at a time.")
@click.option("-B", "--blocking", is_flag=True, help="A get waits in the server for an item.")
@click.option("-M", "--watch", is_flag=True, help="Print the queue's stats every second.")
@common_options
def main(**options: Any) -> None:
    """Spin up producers and consumers and flood items through the server."""
    print_phases(run_flood(Flood(**options)))


if __name__ == "__main__":
    main(prog_name="python -m bench.kestrel.flood")
