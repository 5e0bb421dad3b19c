"""One run: a flood against a gateway that is killed and started again, then the reckoning.

When to kill follows from the seed; what the clients do at that moment does not. Some kills come while the
gateway is still starting.
"""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Event, Timer
from time import monotonic, sleep
from typing import NamedTuple

from tests.kestrel_clients.chaos.checker import SYNCED_S, Anomaly, check
from tests.kestrel_clients.chaos.client_threads import ClientThread, Producer, Worker, read_rest
from tests.kestrel_clients.chaos.history import History
from tests.kestrel_clients.raw_client import Memcache
from tests.support.gateway import Gateway

__all__ = ["Outcome", "Run"]

QUEUE = "flood"
LINES = (QUEUE, f"{QUEUE}+audit")
PRODUCERS, WORKERS_A_LINE = 2, 2
# Small, so that segments are dropped while it goes on.
SETTINGS = "[kestrel.default]\ndefaultJournalSize = 1048576\n"
# Not from the ephemeral ports: a client that tries again and again to connect to one of those while nobody
# listens connects to itself some day, and the gateway cannot have its port back.
PORTS = range(20_000, 32_000)
LONGEST_LIFE_S = 2.0
KILLED_EARLY_SHARE = 0.15
# Of a start: it recovers in the second half.
EARLY = (0.4, 1.0)
CATCH_UP_DEADLINE_S = 60.0
POLL_S = 0.02
# An exception's last line, a log line of an error, or a word about damage.
COMPLAINT = re.compile(r"^[\w.]+(Error|Exception)\b|^[\d-]+ [\d:,]+ (ERROR|CRITICAL) |corrupt|damage")


class Outcome(NamedTuple):
    """`summary` is a line for people."""

    summary: str
    anomalies: list[Anomaly]


class Run:
    """Once; `tell` is called with a line after every kill."""

    def __init__(self, directory: Path, durability: str, seed: int, tell: Callable[[str], object]) -> None:
        settings = directory / "barbicel.toml"
        settings.write_text(SETTINGS)
        self._random = Random(seed)
        self._seed, self._durability, self._tell = seed, durability, tell
        self._gateway = Gateway(directory, {"durability": durability, "config": str(settings)})
        self._gateway.port = _free_port(self._random)
        self._gateway.kestrel_port = _free_port(self._random)
        self._history = History(closed={line: set() for line in LINES})
        self._early_kills = 0
        self._start_s = self._longest_start_s = 0.0
        self._rest = 0
        self._began = monotonic()

    def run(self, seconds: float) -> Outcome:
        """Raises AssertionError if nothing can be said: a gateway does not start."""
        self._start()
        try:
            with Memcache(self._gateway.kestrel_port) as client:
                for line in LINES:
                    client.get(line)  # which makes it; a child has what is put from now on
            self._attack(seconds)
        finally:
            exit_code = self._gateway.stop()
        if exit_code:
            self._history.troubles.append(f"the gateway stopped with {exit_code}")
        self._note_complaints()
        anomalies = check(self._history)
        return Outcome(self._summary(anomalies), anomalies)

    def _attack(self, seconds: float) -> None:
        port, history, seed = self._gateway.kestrel_port, self._history, self._seed
        producers = [
            Producer(f"producer-{number}", port, QUEUE, history, seed) for number in range(PRODUCERS)
        ]
        workers = [
            Worker(f"{line}-{number}", port, line, history, seed)
            for line in LINES
            for number in range(WORKERS_A_LINE)
        ]
        threads: list[ClientThread] = [*producers, *workers]
        for thread in threads:
            thread.start()
        try:
            self._began = monotonic()
            while monotonic() - self._began < seconds:
                self._live_and_die()
            self._end(producers)
            self._kill_and_start()
            _wait_until(history.is_read)
        finally:
            self._end(threads)
        self._reckon()

    def _reckon(self) -> None:
        """Nobody puts or reads any more. What was confirmed is synced, and a kill in peace takes nothing."""
        sleep(SYNCED_S)
        self._kill_and_start()
        for line in LINES:
            self._rest += read_rest(self._gateway.kestrel_port, line, self._history)
            with Memcache(self._gateway.kestrel_port) as client:
                if client.stat(line, "items") or client.get(line) is not None:
                    self._history.troubles.append(f"{line} is not empty in the end")

    def _end(self, threads: Sequence[ClientThread]) -> None:
        for thread in threads:
            thread.stopping.set()
        deadline = monotonic() + CATCH_UP_DEADLINE_S
        for thread in threads:
            thread.join(max(0.0, deadline - monotonic()))
            if thread.is_alive():
                self._history.troubles.append(f"{thread.name} did not end")

    # --- killing ------------------------------------------------------------------------------------

    def _live_and_die(self) -> None:
        life_s = self._random.uniform(0.0, LONGEST_LIFE_S)
        sleep(life_s)
        self._kill()
        early = 0
        while self._random.random() < KILLED_EARLY_SHARE:
            early += self._kill_while_it_starts(self._start_s * self._random.uniform(*EARLY))
        self._early_kills += early
        self._start()
        self._tell(self._line(life_s, early))

    def _kill(self) -> None:
        self._history.kills.append(monotonic())
        self._gateway.kill()

    def _kill_and_start(self) -> None:
        self._kill()
        self._start()

    def _start(self) -> None:
        began = monotonic()
        self._gateway.start()
        self._start_s = monotonic() - began
        self._longest_start_s = max(self._longest_start_s, self._start_s)

    def _kill_while_it_starts(self, after_s: float) -> bool:
        """False if it was up before that; it is dead in either case."""
        killed = Event()

        def kill() -> None:
            with suppress(AssertionError):  # there is no process yet
                self._history.kills.append(monotonic())
                os.kill(self._gateway.pid, signal.SIGKILL)
                killed.set()

        timer = Timer(after_s, kill)
        timer.start()
        try:
            self._gateway.start()
        except AssertionError:
            if not killed.is_set():
                raise
            return True
        finally:
            timer.join()
            self._kill()
        return False

    # --- telling ------------------------------------------------------------------------------------

    def _line(self, life_s: float, early: int) -> str:
        again = f", {early} more while it started" if early else ""
        history = self._history
        return (
            f"{monotonic() - self._began:6.1f} s: kill {len(history.kills)} after {life_s:.2f} s{again}, "
            f"up again in {self._start_s:.2f} s; {len(history.stored)} stored, "
            f"{len(history.deliveries)} delivered, {history.backlog()} behind"
        )

    def _summary(self, anomalies: list[Anomaly]) -> str:
        history = self._history
        confirmed = sum(delivery.confirmed is not None for delivery in history.deliveries)
        items = {(delivery.line, delivery.item) for delivery in history.deliveries}
        return (
            f"durability {self._durability}, seed {self._seed}: {len(history.kills)} kills, "
            f"{self._early_kills} of them while starting (longest start {self._longest_start_s:.2f} s); "
            f"{len(history.sent)} sent, {len(history.stored)} answered STORED; in {len(LINES)} lines "
            f"{len(history.deliveries)} deliveries of {len(items)} items, {confirmed} confirmed, "
            f"{len(history.deliveries) - len(items)} delivered again, {self._rest} left for the last reader: "
            f"{len(anomalies)} anomalies"
        )

    def _note_complaints(self) -> None:
        """A kill is no reason for the gateway to complain when it starts again."""
        lines = self._gateway.log.read_text(encoding="utf-8", errors="replace").splitlines()
        self._history.troubles += [f"the gateway logged: {line}" for line in lines if COMPLAINT.search(line)]


def _free_port(random: Random) -> int:
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def _wait_until(condition: Callable[[], bool]) -> None:
    """Or until the deadline: the checker finds out what is missing then."""
    deadline = monotonic() + CATCH_UP_DEADLINE_S
    while monotonic() < deadline and not condition():
        sleep(POLL_S)
