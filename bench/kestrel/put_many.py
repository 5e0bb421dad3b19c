"""Kestrel's put-many: many clients put items of one size, each waiting for its answers; then maybe get them.

Shape and defaults: 100 clients, 10,000 items of 1,024 bytes, one queue, every client its equal share; a
roll-up sends that many sets at once and then waits for all their answers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import click

from bench.kestrel.client import flush_queues
from bench.kestrel.drive import run_driver
from bench.kestrel.job import Job
from bench.kestrel.scenario import Phase, common_options, phase_of_results, print_phases

__all__ = ["PutMany", "run_put_many"]


@dataclass(frozen=True, slots=True)
class PutMany:
    host: str
    port: int
    clients: int = 100
    items: int = 10_000
    item_bytes: int = 1024
    roll_up: int = 1
    queue: str = "spam"
    queues: int = 1
    get_also: bool = False
    no_flush: bool = False


def run_put_many(options: PutMany) -> list[Phase]:
    if not options.no_flush:
        names = [f"{options.queue}{number}" for number in range(options.queues)]
        flush_queues(options.host, options.port, *(names if options.queues > 1 else [options.queue]))
    job = Job(
        options.port,
        "set",
        options.item_bytes,
        count=options.items // options.clients * options.clients,
        host=options.host,
        connections=options.clients,
        depth=options.roll_up,
        queue=options.queue,
        queues=options.queues,
        burst=True,
    )
    phases = [phase_of_results("put", run_driver(job))]
    if options.get_also:
        phases.append(phase_of_results("get", run_driver(replace(job, operation="get"))))
    return phases


@click.command()
@click.option("-c", "--clients", default=100, show_default=True, help="Use this many clients at a time.")
@click.option("-n", "--items", default=10_000, show_default=True, help="Put this many items.")
@click.option("-b", "--item-bytes", default=1024, show_default=True, help="Bytes of an item.")
@click.option("-r", "--roll-up", default=1, show_default=True, help="Items put, or got, at a time.")
@click.option(
    "-Q", "--queues", default=1, show_default=True, help="Use this many queues, <queue>0 and so on."
)
@click.option("-g", "--get-also", is_flag=True, help="Get the items afterwards.")
@common_options
def main(**options: Any) -> None:
    """Spam items into the server."""
    print_phases(run_put_many(PutMany(**options)))


if __name__ == "__main__":
    main(prog_name="python -m bench.kestrel.put_many")
