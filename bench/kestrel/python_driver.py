"""The driver without a compiler: driver.c's options, checks and JSON, in a process for each core it may use.

Python's clients take as long as a Python server does: its figures are lower bounds of the server's.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import select
import time
from dataclasses import MISSING, fields, replace
from multiprocessing.connection import Connection as Pipe
from threading import BrokenBarrierError
from typing import Any, NamedTuple, get_type_hints

from bench.kestrel.job import OPERATIONS, PERCENTILES, Job, Result, percentile, render_result
from bench.kestrel.python_connection import Connection, Tally, Unexpected

__all__ = ["main"]

STALLED_S = 30.0
ENDLESS = 1 << 62


class Partial(NamedTuple):
    """What one process has seen."""

    seconds: float
    tally: Tally


class Run:
    """The connections of one process, from the first request to the last answer."""

    def __init__(self, job: Job, first: int, quotas: list[int]) -> None:
        self._seconds = job.seconds
        self._tally = Tally()
        self._connections = {
            connection.socket.fileno(): connection
            for number, quota in enumerate(quotas, first)
            for connection in [Connection(job, number, quota, self._tally)]
        }

    def run(self) -> Partial:
        poller = select.epoll()
        started = time.monotonic()
        if self._seconds > 0:
            self._tally.deadline = started + self._seconds
        for fd, connection in self._connections.items():
            poller.register(fd, select.EPOLLIN)
            connection.fill()
            self._watch(poller, fd)
        while any(connection.is_busy for connection in self._connections.values()):
            ready = poller.poll(STALLED_S)
            if not ready:
                self._tally.errors.append("the server does not answer")
                break
            for fd, events in ready:
                self._serve(poller, fd, events)
        return Partial(time.monotonic() - started, self._tally)

    def _serve(self, poller: select.epoll, fd: int, events: int) -> None:
        connection = self._connections[fd]
        try:
            if events & select.EPOLLOUT:
                connection.flush()
            if events & ~select.EPOLLOUT:
                connection.receive()
            self._watch(poller, fd)
        except (Unexpected, OSError) as error:
            self._tally.errors.append(str(error))
            poller.unregister(fd)
            self._connections.pop(fd).socket.close()

    def _watch(self, poller: select.epoll, fd: int) -> None:
        is_writing = self._connections[fd].is_writing
        poller.modify(fd, select.EPOLLIN | (select.EPOLLOUT if is_writing else 0))


def _share(job: Job) -> list[int]:
    """Each connection's part of the count."""
    if job.count < 0:
        return [ENDLESS] * job.connections
    return [
        (job.count + job.connections - 1 - number) // job.connections for number in range(job.connections)
    ]


def _run_apart(job: Job, first: int, quotas: list[int], all_connected: Any, pipe: Pipe) -> None:
    try:
        run = Run(job, first, quotas)
        all_connected.wait()
    except (OSError, BrokenBarrierError) as error:
        all_connected.abort()
        raise SystemExit(f"no connection: {error}") from None
    pipe.send(run.run())


def drive(job: Job) -> Result:
    context = multiprocessing.get_context("fork")
    quotas = _share(job)
    count = min(len(os.sched_getaffinity(0)), job.connections)
    each = -(-job.connections // count)
    starts = range(0, job.connections, each)
    all_connected = context.Barrier(len(starts))
    pipes = [context.Pipe(duplex=False) for _ in starts]
    processes = [
        context.Process(
            target=_run_apart, args=(job, start, quotas[start : start + each], all_connected, pipe[1])
        )
        for start, pipe in zip(starts, pipes, strict=True)
    ]
    for process, pipe in zip(processes, pipes, strict=True):
        process.start()
        pipe[1].close()  # so that its end is noticed
    try:
        return _merge([pipe[0].recv() for pipe in pipes])
    except EOFError:
        raise SystemExit(2) from None
    finally:
        for process in processes:
            process.join()


def _merge(partials: list[Partial]) -> Result:
    latencies = sorted(latency for partial in partials for latency in partial.tally.latencies_us)
    errors = [error for partial in partials for error in partial.tally.errors]
    return Result(
        ops=len(latencies),
        seconds=max(partial.seconds for partial in partials),
        errors=len(errors),
        misses=sum(partial.tally.misses for partial in partials),
        first_error=errors[0] if errors else "",
        **{name: percentile(latencies, share) for name, share in PERCENTILES.items()},
    )


def _parse_options() -> Job:
    parser = argparse.ArgumentParser(description=__doc__)
    types = get_type_hints(Job)
    for field in fields(Job):
        name = f"--{field.name.replace('_', '-')}"
        if types[field.name] is bool:
            parser.add_argument(name, action="store_true")
        else:
            parser.add_argument(
                name,
                type=types[field.name],
                default=None if field.default is MISSING else field.default,
                required=field.default is MISSING,
                choices=OPERATIONS if field.name == "operation" else None,
            )
    return Job(**vars(parser.parse_args()))


def main() -> None:
    job = _parse_options()
    if job.count < 0 and job.seconds <= 0:
        raise SystemExit("nothing to do")
    print(render_result(drive(replace(job, connections=max(1, job.connections)))))


if __name__ == "__main__":
    main()
