"""One run: load and readers against a gateway that is killed and started again, then the reckoning.

When to kill follows from the seed; what the clients do at that moment does not, so a run is not repeatable
to the byte. Some kills come while the gateway is still starting.
"""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from threading import Event, Timer
from time import monotonic, sleep

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.chaos.checker import Anomaly, check
from tests.chaos.client_thread import ClientThread, Target
from tests.chaos.group import group_threads, has_committed, was_looked_at
from tests.chaos.history import History
from tests.chaos.modes import Mode
from tests.chaos.readers import READERS, ReaderThread, read_log
from tests.chaos.writers import FLUSH_DEADLINE_S, confluent, confluent_acks_1, kafka_python
from tests.chaos.writing import WriterThread
from tests.support.gateway import Gateway

__all__ = ["Campaign", "Outcome"]

TOPIC = "chaos"
PARTITIONS = 4
SETTINGS = {
    "num_partitions": str(PARTITIONS),
    "log_segment_bytes": str(1 << 20),
    "log_retention_ms": "-1",
    "message_max_bytes": "100000",
}
# Not from the ephemeral ports: a client that tries again and again to connect to one of those while nobody
# listens connects to itself some day, and the gateway cannot have its port back.
PORTS = range(20_000, 32_000)
# So short that a gateway which gives an id out twice takes the second producer's batches for repetitions.
BRIEF_LIFE_S = 0.15
LONGEST_LIFE_S = 3.0
# Of the kills that wait for a send, and how long its batch is given at most: about what an answer takes.
AIMED_SHARE = 0.6
AIM_S, AIM_DEADLINE_S = 0.0005, 0.3
FLIGHT_S = 0.03
KILLED_EARLY_SHARE = 0.2
# Of a start: it recovers in the second half.
EARLY = (0.4, 1.0)
CATCH_UP_DEADLINE_S = 60.0
POLL_S = 0.05
# An exception's last line, a log line of an error, or a word about damage.
COMPLAINT = re.compile(r"^[\w.]+(Error|Exception)\b|^[\d-]+ [\d:,]+ (ERROR|CRITICAL) |corrupt|damage")


@dataclass
class Outcome:
    """`summary` is a line for people."""

    summary: str
    anomalies: list[Anomaly]
    history: History
    kills: int


class Campaign:
    """`run` it once; `tell` is called with a line after every kill."""

    def __init__(self, directory: Path, mode: Mode, seed: int, tell: Callable[[str], object]) -> None:
        self._random = Random(seed)
        self._tell = tell
        self._mode, self._seed = mode, seed
        self._gateway = Gateway(directory, {**SETTINGS, **mode.settings})
        self._gateway.port = _free_port(self._random)
        self._history = History()
        self._kills = self._early_kills = 0
        self._start_s = self._longest_start_s = 0.0
        self._began = monotonic()

    def run(self, seconds: float) -> Outcome:
        """Raises AssertionError if nothing can be said: a gateway does not start, a producer does not end."""
        self._start()
        try:
            _create_topic(self._gateway.bootstrap, self._mode.topic)
            self._began = monotonic()
            self._attack(seconds)
        finally:
            exit_code = self._gateway.stop()
        if exit_code:
            self._history.troubles.append(f"the gateway stopped with {exit_code}")
        self._note_complaints()
        self._history.troubles += self._mode.look_at(self._gateway.data)
        anomalies = check(self._history)
        return Outcome(self._summary(anomalies), anomalies, self._history, self._kills)

    def _attack(self, seconds: float) -> None:
        target = Target(TOPIC, self._gateway.bootstrap, PARTITIONS)
        history = self._history
        history.may_repeat.add("acks-1")
        writers = [
            WriterThread("confluent", confluent, target, history),
            WriterThread("kafka-python", kafka_python, target, history),
            WriterThread("acks-1", confluent_acks_1, target, history),
            WriterThread("brief", confluent, target, history, BRIEF_LIFE_S),
        ]
        readers = [ReaderThread(name, read, target, history) for name, read in READERS.items()]
        group = group_threads(target, history)
        threads: list[ClientThread] = [*writers, *readers, *group]
        for thread in threads:
            thread.start()
        try:
            # Clients try for a while to reach a gateway that they know, and give up one that they never met.
            _wait_until(lambda: all(thread.has_worked for thread in threads))
            while monotonic() - self._began < seconds:
                self._live_and_die()
            self._end(writers, FLUSH_DEADLINE_S)
            assert not any(writer.is_alive() for writer in writers), self._history.troubles
            self._reckon(target, readers)
        finally:
            self._end(threads, CATCH_UP_DEADLINE_S)

    def _reckon(self, target: Target, readers: list[ReaderThread]) -> None:
        """Nobody writes any more. What is found after a kill in peace is what counts."""
        history = self._history
        self._kill_and_start()
        history.log, history.ends = read_log(target)
        _wait_until(
            lambda: (
                all(reader.reached(history.ends) for reader in readers)
                and has_committed(history, history.ends)
            )
        )
        # The group's last commits have to survive one more.
        self._kill_and_start()
        now = history.tick()
        _wait_until(lambda: was_looked_at(history, now, history.ends))

    def _end(self, threads: Sequence[ClientThread], seconds: float) -> None:
        for thread in threads:
            thread.stop()
        deadline = monotonic() + seconds
        for thread in threads:
            thread.join(max(0.0, deadline - monotonic()))
            if thread.is_alive():
                self._history.troubles.append(f"{thread.name} did not end")
            if not thread.has_worked:
                self._history.troubles.append(f"{thread.name} did nothing: this was no test of it")

    # --- killing ------------------------------------------------------------------------------------

    def _live_and_die(self) -> None:
        life_s = self._random.uniform(0.0, LONGEST_LIFE_S)
        sleep(life_s)
        if self._random.random() < AIMED_SHARE:
            self._aim(self._random.uniform(0.0, FLIGHT_S))
        self._kill()
        early = 0
        while self._random.random() < KILLED_EARLY_SHARE:
            early += self._kill_while_it_starts(self._start_s * self._random.uniform(*EARLY))
        self._early_kills += early
        self._start()
        self._tell(self._line(life_s, early))

    def _aim(self, flight_s: float) -> None:
        """Wait for a send, and let it get so far: what is not answered yet is what may go wrong."""
        sent = self._sent()
        deadline = monotonic() + AIM_DEADLINE_S
        while self._sent() == sent and monotonic() < deadline:
            sleep(AIM_S)
        sleep(flight_s)

    def _sent(self) -> int:
        return sum(list(self._history.sent.values()))

    def _kill(self) -> None:
        self._gateway.kill()
        self._kills += 1

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
            self._gateway.kill()
        return False

    # --- telling ------------------------------------------------------------------------------------

    def _line(self, life_s: float, early: int) -> str:
        seen = ", ".join(
            f"{name} {sum(map(len, list(polls.values())))}" for name, polls in self._history.readers.items()
        )
        again = f", {early} more while it started" if early else ""
        return (
            f"{monotonic() - self._began:6.1f} s: kill {self._kills} after {life_s:.2f} s{again}, "
            f"up again in {self._start_s:.2f} s; {self._history.acked_count} acknowledged; read: {seen}"
        )

    def _summary(self, anomalies: list[Anomaly]) -> str:
        history = self._history
        loose = [
            seen.value
            for polled in history.log.values()
            for seen in polled
            if seen.value is not None and seen.value.stream.producer in history.may_repeat
        ]
        repeated = len(loose) - len(set(loose))
        refused = sum(map(len, history.failed.values()))
        return (
            f"durability {self._mode.name}, seed {self._seed}: {self._kills} kills and {self._early_kills} "
            f"while starting (longest start {self._longest_start_s:.2f} s), {self._sent()} sent, "
            f"{history.acked_count} acknowledged, {refused} refused, {sum(history.ends.values())} stored, "
            f"{repeated} repeated without idempotence, {len(history.members)} assignments, "
            f"{sum(map(len, history.commits.values()))} commits asked or answered, "
            f"{sum(map(len, history.positions.values()))} positions told: {len(anomalies)} anomalies"
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


def _create_topic(bootstrap: str, settings: Mapping[str, str]) -> None:
    """It is there when the gateway shows its partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(TOPIC, PARTITIONS, config=dict(settings))]).values():
        created.result()
    _wait_until(lambda: len(admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions) == PARTITIONS)
